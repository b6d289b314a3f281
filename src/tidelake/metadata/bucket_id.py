"""The name of one bucket of a table: its partition and its number in the partition."""

from __future__ import annotations

from typing import NamedTuple


class BucketId(NamedTuple):
    """One bucket of one partition.

    Parameters
    ----------
    partition : bytes
        Serialized BinaryRow of the partition's values (arity prefix included); ``EMPTY_ROW``
        where the table has no partitions.
    bucket : int
        Number from 0, or -2 for rows without a bucket yet (``bucket = -2``).

    Examples
    --------
    >>> BucketId(b"p", 1) == (b"p", 1)
    True
    """

    partition: bytes
    bucket: int


class InBucket:
    """A value of one bucket of one partition: a base of classes that have both fields."""

    __slots__ = ()
    partition: bytes
    bucket: int

    @property
    def bucket_id(self) -> BucketId:
        """Partition and bucket."""
        return BucketId(self.partition, self.bucket)
