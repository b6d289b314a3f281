"""Writes streams of Spark to tables: each micro-batch is one commit, made once.

This room writes a micro-batch, checks a query before it starts, and runs the lease and the
compactor beside it. :mod:`tidelake.spark.write` brings rows to their buckets. No rule of a commit
may stand here.
"""
