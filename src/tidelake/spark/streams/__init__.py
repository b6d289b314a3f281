"""Streams of Spark on tables and topics: sources, sinks, their checkpoints, and jobs.

`read` is the source and `write` the sink of tables, `kafka` both of topics; `connector` shows them
to Spark, and `jobs` keeps the queries that statements start. Statements may not enter: they use
these rooms. The order of the rooms is a contract.
"""
