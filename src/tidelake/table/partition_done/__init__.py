"""Partitions that are done: which ones, and how that is told to others.

It holds the actions of ``partition.mark-done-action`` and what they send. When a job looks for such
partitions is its own business: writers and :mod:`tidelake.table.upkeep` call this.
"""

from tidelake.table.partition_done.actions import DonePartition, mark_done

__all__ = ["DonePartition", "mark_done"]
