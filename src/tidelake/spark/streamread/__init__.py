"""Tables as streams of Spark: Spark's older source interface, implemented by Python objects.

A source says how far a table has come and gives Spark the plan of each micro-batch, so columns and
filters reach the files. What a batch holds is decided in :mod:`tidelake.table.stream`; rows never
pass here.
"""
