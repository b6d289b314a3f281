"""Reads: from a planned scan to a DataFrame.

Files that need no merge go through Spark's own Parquet scan, all others through ``mapInArrow``. No
statement is parsed and nothing is written here.
"""
