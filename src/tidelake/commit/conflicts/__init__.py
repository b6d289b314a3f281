"""Checks of a commit against the snapshots that others published meanwhile.

Each module checks one thing: files, keys, indexes, deletion vectors, compactions, overwrites.
Nothing here writes or publishes. A check returns what does not fit, or raises ``ConflictError``.
"""
