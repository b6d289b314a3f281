"""The buckets of one executor, as a value that the query of a table asks."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.engine.metadata import BucketId
from tidelake.options.bucket_mode import BucketMode
from tidelake.service.protocol.ownership import ANY_BUCKET, executor_of


@dataclass(frozen=True, slots=True)
class Ownership:
    """The buckets of one executor. Picklable.

    Parameters
    ----------
    by_bucket : bool
        Whether a key tells its bucket; else all buckets of a partition have one owner.

    Examples
    --------
    >>> owns = Ownership(1, 2, by_bucket=True)
    >>> owns(BucketId(bytes(12), 0)) != owns(BucketId(bytes(12), 1))
    True
    """

    index: int
    executors_count: int
    by_bucket: bool

    @classmethod
    def of(cls, mode: BucketMode, index: int, executors_count: int) -> Ownership:
        """The buckets of an executor in a table of some bucket mode."""
        return cls(index, executors_count, mode is BucketMode.FIXED)

    def __call__(self, bucket_id: BucketId) -> bool:
        """Whether the executor owns a bucket."""
        bucket = bucket_id.bucket if self.by_bucket else ANY_BUCKET
        return executor_of(bucket_id.partition, bucket, self.executors_count) == self.index
