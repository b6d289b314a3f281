"""Jobs on a whole table: compaction, expiry, rollback, purge, rescale, tags, statistics.

A job plans, works bucket by bucket and commits once. Row-level statements are
:mod:`tidelake.table.rowlevel`.
"""
