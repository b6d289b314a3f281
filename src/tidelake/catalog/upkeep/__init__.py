"""The upkeep of many tables: which are meant, the job over all of them, what it did.

What is done with one table is :mod:`tidelake.table.upkeep`.
"""
