"""Data files in Parquet: reader, writer, and the footer's own checks.

A footer is read by ``thrift`` before Arrow sees it, for Arrow may abort on a hostile one. No
knowledge of tables, buckets or snapshots may enter.
"""
