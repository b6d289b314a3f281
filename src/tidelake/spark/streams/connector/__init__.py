"""Connects Spark's streams to Python: a Java class, found by name, that passes calls on.

It keeps the warehouses that are attached to each session. It has the interface of sources and the
relation of their batches. The sources themselves are in :mod:`tidelake.spark.streams.read` and
:mod:`tidelake.spark.streams.kafka`, and may not enter.
"""
