"""How Spark finds streams of tables: a class of Java's, by name, that hands calls to Python.

It keeps which warehouses are attached to which session. What a source or a sink does is not here:
:mod:`tidelake.spark.streamread` offers it.
"""
