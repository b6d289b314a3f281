"""Partitions that are done: which ones, and how that is told to others.

1. :mod:`~tidelake.table.partition_done.actions`: the marks of ``partition.mark-done-action``;
   :mod:`~tidelake.table.partition_done.http_report`: one of them.
2. :mod:`~tidelake.table.partition_done.pending`: partitions that got rows, kept in a file.
3. :mod:`~tidelake.table.partition_done.marking`: those that are done by time or by the end of
   input.

When a job looks is its own business: writers and :mod:`tidelake.table.upkeep` call this.
"""

from tidelake.table.partition_done.actions import DonePartition, mark_done
from tidelake.table.partition_done.marking import (
    IdleMarks,
    has_news,
    idle_partitions,
    mark_at_end,
    mark_idle,
    mark_written,
    marks_at_end_of_stream,
)
from tidelake.table.partition_done.pending import partitions_with_new_files

__all__ = [
    "DonePartition",
    "IdleMarks",
    "has_news",
    "idle_partitions",
    "mark_at_end",
    "mark_done",
    "mark_idle",
    "mark_written",
    "marks_at_end_of_stream",
    "partitions_with_new_files",
]
