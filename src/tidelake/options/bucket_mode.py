"""How a table gives its rows their buckets, as its option ``bucket`` says."""

from __future__ import annotations

import enum

from tidelake.options import declared
from tidelake.options.table_options import Options

__all__ = ["DYNAMIC", "BucketMode"]

DYNAMIC = -1
"""The ``bucket`` option of a table whose buckets are made as they are needed."""
_POSTPONE = -2


class BucketMode(enum.Enum):
    """The ways to find a row's bucket. Source: Paimon's ``BucketMode`` (1.3.1)."""

    FIXED = "fixed"
    """A hash of the bucket key, modulo a number of buckets."""
    DYNAMIC = "dynamic"
    """An index of each partition says in which bucket a key is; new keys fill new buckets."""
    CROSS_PARTITION = "cross-partition"
    """As dynamic, but the key may be in any partition; its live rows say where."""
    UNBUCKETED = "unbucketed"
    """An append table without buckets."""
    POSTPONE = "postpone"
    """All rows wait in one bucket; a compaction finds their buckets."""

    @classmethod
    def of(cls, options: Options, *, has_primary_key: bool, keys_may_move: bool) -> BucketMode:
        """The mode of a table.

        Parameters
        ----------
        options : Options
            Of the table.
        has_primary_key : bool
            Whether it has one.
        keys_may_move : bool
            Whether the primary key lacks a partition column.
        """
        bucket = options.get(declared.BUCKET)
        if keys_may_move:
            return cls.CROSS_PARTITION
        if bucket == _POSTPONE:
            return cls.POSTPONE
        if bucket > 0:
            return cls.FIXED
        return cls.DYNAMIC if has_primary_key else cls.UNBUCKETED

    @property
    def is_assigned(self) -> bool:
        """Whether rows are given buckets by what the table holds: one commit decides for a key."""
        return self in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
