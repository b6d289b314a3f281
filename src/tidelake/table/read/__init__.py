"""One read of a table: the planned scan, its rows, and its explanation.

Planning is :mod:`tidelake.scan`, merging :mod:`tidelake.merge`. Nothing here writes.
"""
