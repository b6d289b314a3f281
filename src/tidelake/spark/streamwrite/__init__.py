"""Streams of Spark written to tables: each micro-batch is one commit, made once.

Here are the body that writes a micro-batch, what is checked before a query starts, and what runs
beside it. How rows of a frame reach their buckets is :mod:`tidelake.spark.write`; no rule of a
commit may stand here.
"""
