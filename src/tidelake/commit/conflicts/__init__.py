"""The checks of a commit against the snapshots that others published meanwhile.

Each module answers one question: files, keys, indexes, deletion vectors, compactions, overwrites.
Nothing here writes or publishes; a check returns what does not fit, or raises ``ConflictError``.
"""
