"""Finds the bucket and partition of a row: fixed, dynamic, or moving between partitions.

Rows are routed by columns, never one by one. This room writes index files of dynamic buckets, but
no file of rows.
"""
