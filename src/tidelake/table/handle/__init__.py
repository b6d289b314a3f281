"""The value that every room of a table receives: the table's location, options and snapshot.

It also checks arguments: columns, counts, partitions, moments. Nothing here reads or writes rows.
"""
