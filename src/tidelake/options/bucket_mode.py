"""How a table assigns buckets to rows, by its option ``bucket``."""

from __future__ import annotations

import enum

from tidelake.options import declared
from tidelake.options.table_options import Options

DYNAMIC = -1
"""The value of ``bucket`` for dynamic buckets, which are created when needed."""
_POSTPONE = -2


class BucketMode(enum.Enum):
    """The ways to find a row's bucket. Source: Paimon's ``BucketMode`` (1.3.1)."""

    FIXED = "fixed"
    """The hash of the bucket key, modulo the number of buckets."""
    DYNAMIC = "dynamic"
    """An index of each partition has the bucket of each key; new keys fill new buckets."""
    CROSS_PARTITION = "cross-partition"
    """As dynamic, but the key may be in any partition; its live row gives the partition."""
    UNBUCKETED = "unbucketed"
    """An append table without buckets."""
    POSTPONE = "postpone"
    """All rows wait in one bucket; a compaction assigns their buckets."""

    @classmethod
    def of(cls, options: Options, *, has_primary_key: bool, keys_may_move: bool) -> BucketMode:
        """Find the mode of a table.

        Parameters
        ----------
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
        """Whether buckets depend on the table's rows, so that the first commit of a key decides."""
        return self in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
