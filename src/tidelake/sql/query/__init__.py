"""Analysis of queries: their tables, columns, filters and stars, through sqlglot.

It says what may be pushed into a table's read and writes the query anew for Spark. Nothing is run
here.
"""
