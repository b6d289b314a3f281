"""Data files in Avro: reader, writer, schema and values.

Avro of manifests is read by :mod:`tidelake.metadata.avro`. No knowledge of tables, buckets or
snapshots may enter.
"""
