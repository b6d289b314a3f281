"""Syntax of SQL: tokens, names, literals, types, clauses, and statements as values.

Errors here show the position in the text. No catalog, table or query may enter.
"""
