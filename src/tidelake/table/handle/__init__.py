"""What every room of a table is handed: where the table is, how it was opened, which snapshot.

It also checks arguments: columns, counts, partitions, moments. Nothing here reads or writes rows.
"""
