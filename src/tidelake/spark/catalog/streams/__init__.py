"""How Spark finds and asks streams: a class of Java's, by name, that hands calls to Python.

It keeps which warehouses are attached to which session. What a source or a sink does is not here:
:mod:`tidelake.spark.streamread` and :mod:`tidelake.spark.kafka` say what they read; the interface
of a source and the relation of its batches, which both share, are here.
"""
