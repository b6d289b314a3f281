"""Which bucket and partition a row goes to: fixed, dynamic, or moving between partitions.

Rows are routed by columns, never one by one. No file of rows is written here; index files of
dynamic buckets are.
"""
