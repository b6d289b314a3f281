"""DELETE, UPDATE and MERGE on the executors.

A merge runs at the buckets if possible, else as a join. :mod:`tidelake.spark.sql` reads the texts
of statements.
"""
