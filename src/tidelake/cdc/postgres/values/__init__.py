"""PostgreSQL's types and the texts of their values, as types and columns of the lake.

Columns are cast at once. Texts come in: a connection may not enter.
"""
