"""Analysis of queries: their tables, columns, filters and stars, through sqlglot.

It finds filters for scans and rewrites the query for Spark. Nothing runs here.
"""
