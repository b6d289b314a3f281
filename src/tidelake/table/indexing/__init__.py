"""File indexes of data files that exist: made anew by the table's options.

No data file is written here. How an index is built is :mod:`tidelake.format.file_index`.
"""
