"""Procedures that give files that exist new tables, or new indexes: copies, moves, indexes.

They take arguments and answer; how a table is made is :mod:`tidelake.catalog.copies`. No file is
opened here.
"""
