"""What every job of a table shares: a plan as a value, runners for its tasks, one commit.

No job itself enters: these are in :mod:`tidelake.table.jobs` and :mod:`tidelake.table.rowlevel`.
"""
