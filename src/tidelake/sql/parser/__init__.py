"""Parsers: one module for each family of statements, text to :mod:`~tidelake.sql.syntax.ast`.

Queries inside a statement are kept as text. No catalog and no table may enter.
"""
