"""Data files in Parquet: reader, writer, and the footer's own checks.

``thrift`` reads a footer before Arrow sees it, because Arrow may abort on a hostile one. No
knowledge of tables, buckets or snapshots may enter.
"""
