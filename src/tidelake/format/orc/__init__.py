"""Data files in ORC: Arrow reads and writes them, and what Arrow cannot is done here.

That is timestamps beyond nanoseconds, bounds on memory, and the checks of a file's tail. No
knowledge of tables, buckets or snapshots may enter.
"""
