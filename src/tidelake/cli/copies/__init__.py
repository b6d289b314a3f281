"""Commands that make tables of files that exist.

Each calls a method of the catalog and shows what it did. No Spark may enter.
"""
