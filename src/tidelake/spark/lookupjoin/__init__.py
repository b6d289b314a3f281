"""Lookup joins: rows of a frame or a stream get columns of a table by its primary key.

An Arrow UDF looks keys up where the rows are. SQL finds its lookups elsewhere; no SQL may enter.
"""
