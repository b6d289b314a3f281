"""Copies of a table: its newest state or a moment's, or its whole history, in a new place.

Files are linked or copied as they are, and no row is read. Which table the copy becomes, and what
happens if that fails, is the catalog's: :mod:`tidelake.catalog.copies`.
"""
