"""Data files in ORC: Arrow reads and writes them; this room adds what Arrow lacks.

That is timestamps beyond nanoseconds, bounds on memory, and the checks of a file's tail. No
knowledge of tables, buckets or snapshots may enter.
"""
