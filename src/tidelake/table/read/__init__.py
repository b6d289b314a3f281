"""One read of a table: the planned scan, its rows, and what ``explain`` says of it.

Planning is :mod:`tidelake.scan`, merging :mod:`tidelake.merge`. Nothing here writes.
"""
