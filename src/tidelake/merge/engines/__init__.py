"""The merge engines: deduplicate, first-row, partial-update and aggregation.

An engine takes the sorted versions of keys and gives one row for each. No file, no snapshot and no
Spark may enter.
"""
