"""DELETE, UPDATE and MERGE on the executors.

A merge goes to the buckets where it can, else it is a join. Texts of statements are read in
:mod:`tidelake.spark.sql`.
"""
