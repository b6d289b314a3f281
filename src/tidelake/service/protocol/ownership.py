"""Which executor owns a bucket: the rule of Paimon's own query service.

``(abs(hash of the partition) % N + bucket) % N`` of N executors. The hash is that of the
partition's BinaryRow (:func:`tidelake.codec.bucket.hash_bytes`). A table with dynamic buckets goes
by partition alone, because a client cannot compute the bucket of a key: bucket 0 stands for all.
Source: ``KvQueryTable`` and ``QueryExecutorOperator`` of Paimon 1.3.1.
"""

from __future__ import annotations

from functools import lru_cache

from tidelake.engine.codec import hash_bytes

ANY_BUCKET = -1
"""Bucket of a slice whose keys may be in any bucket that the executor owns."""

ARITY_BYTES = 4
PARTITIONS_KEPT = 65_536
PARTITION_BYTES_MAX = 256
"""Longer partitions are hashed each time: callers may send any, and all that are kept count."""


def executor_of(partition: bytes, bucket: int, executors_count: int) -> int:
    """Index of the executor that owns a bucket.

    Parameters
    ----------
    executors_count : int
        How many executors there are, at least 1.

    Examples
    --------
    >>> from tidelake.codec.binary_row import serialize_row
    >>> [executor_of(serialize_row((), ()), bucket, 2) for bucket in range(3)]
    [1, 0, 1]
    """
    assert executors_count > 0, "executors"
    hashed = _kept_hash if len(partition) <= PARTITION_BYTES_MAX else _partition_hash
    return (hashed(partition) % executors_count + max(bucket, 0)) % executors_count


def _partition_hash(partition: bytes) -> int:
    return abs(hash_bytes(partition[ARITY_BYTES:]))


_kept_hash = lru_cache(maxsize=PARTITIONS_KEPT)(_partition_hash)
