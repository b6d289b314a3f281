"""The Avro containers of manifests, decoded into columns.

A fast decoder reads the layouts that Paimon writes; fastavro reads all others. Data files in Avro
are :mod:`tidelake.format.avro`.
"""
