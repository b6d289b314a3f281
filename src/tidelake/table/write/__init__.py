"""Rows into a table: checked, routed, written to buckets, committed.

It holds the commit's life: begin, add rows, commit or abort, and replays. How rows lie in a file is
:mod:`tidelake.store`; how a commit is published :mod:`tidelake.commit`.
"""
