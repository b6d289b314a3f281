"""The words of SQL: tokens, names, literals, types, clauses, and statements as values.

Errors here show the place in the text. It knows no catalog, no table and no query.
"""
