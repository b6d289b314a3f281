"""Changes of a table between two snapshots, as rows with kinds.

They come from changelog files, from new data files, or from the difference of two states. Nothing
here writes.
"""
