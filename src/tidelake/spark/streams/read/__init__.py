"""Tables as streams of Spark: Python objects implement Spark's older source interface.

A source tells Spark how far a table has come and gives it the plan of each micro-batch, so columns
and filters reach the files. :mod:`tidelake.table.stream` decides what a batch holds. No rows pass
through this room.
"""
