"""Spark columns and types: buckets, filters, casts, struct fields, windows.

Everything here builds an expression or converts a value between Spark and the kernel. No table is
read or written here.
"""
