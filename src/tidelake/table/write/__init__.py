"""Rows into a table: checked, routed, written to buckets, committed.

It holds a commit's life: begin, add rows, commit or abort, and replays. The layout of rows in a
file is :mod:`tidelake.store`; publishing a commit is :mod:`tidelake.commit`.
"""
