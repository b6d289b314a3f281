"""Sends each row of a batch to its partition and bucket, by columns and never by rows.

1. Each partition column is dictionary-encoded; the codes of all columns are mixed into one number
   per row and made dense. Only the distinct partitions (few) become BinaryRows.
2. The bucket is the hash of the bucket-key columns; 0 where the table has no buckets. Dynamic
   buckets are looked up by that hash, one partition after the other.
3. ``partition * buckets + bucket`` is sorted stably (rows of one bucket keep their order: the later
   of two rows of a key must stay later), and the batch is taken once in that order and sliced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.codec.arrow_memory import take_rows
from tidelake.codec.binary_row import serialize_row
from tidelake.codec.bucket import buckets_of, hash_rows
from tidelake.metadata.bucket_id import InBucket
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.table.bucketing.dynamic_buckets import DynamicBuckets
from tidelake.types import DataField
from tidelake.types.values import arrow_to_storage


@dataclass(frozen=True, slots=True)
class BucketRows(InBucket):
    """The rows of one batch that belong to one bucket, in the order of the batch."""

    partition: bytes
    bucket: int
    rows: pa.RecordBatch
    kinds: np.ndarray | None


class Router:
    """Routes batches of one table.

    Parameters
    ----------
    buckets_count : int
        Number of buckets. If not above 0, all rows go to bucket 0, or for -2 to the postpone
        bucket.
    """

    def __init__(
        self,
        partition_fields: Sequence[DataField],
        bucket_fields: Sequence[DataField],
        *,
        buckets_count: int,
        function: str = "default",
        dynamic: DynamicBuckets | None = None,
    ) -> None:
        self._dynamic = dynamic
        self._partition_fields = tuple(partition_fields)
        self._bucket_fields = tuple(bucket_fields)
        self._buckets_count = buckets_count
        self._function = function
        self._partition_types = [f.type for f in partition_fields]
        self._unpartitioned = serialize_row((), ())

    def route(
        self,
        batch: pa.RecordBatch,
        kinds: np.ndarray | None,
        *,
        given: np.ndarray | None = None,
    ) -> Iterator[BucketRows]:
        """Cut a batch into the rows of each bucket.

        Parameters
        ----------
        kinds : ndarray of int8, optional
            One per row.
        given : ndarray of int32, optional
            The rows' buckets, if another task assigned them.

        Yields
        ------
        BucketRows
            At most one per partition and bucket.
        """
        if batch.num_rows == 0:
            return
        partitions, codes = self.partitions(batch, rows_count=batch.num_rows)
        if self._dynamic is None and given is not None:
            buckets = given.astype(np.int64)
            width = int(buckets.max()) + 1
        elif self._dynamic is None:
            buckets = self._buckets(batch)
            width = max(self._buckets_count, 1)
        else:
            buckets = self._dynamic_buckets(self._dynamic, batch, partitions, codes, given)
            width = int(buckets.max()) + 1
        first = POSTPONE_BUCKET if self._buckets_count == POSTPONE_BUCKET else 0
        groups = codes * width + buckets
        if len(partitions) == 1 and (width == 1 or groups.min() == groups.max()):
            yield BucketRows(partitions[0], first + int(groups[0]), batch, kinds)
            return
        # a stable sort of 16-bit numbers is a radix sort
        small = groups.astype(np.uint16) if len(partitions) * width <= 1 << 16 else groups
        order = np.argsort(small, kind="stable")
        ordered_groups = groups[order]
        columns = [take_rows(column, order) for column in batch.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
        ordered_kinds = None if kinds is None else kinds[order]
        starts = np.flatnonzero(np.r_[True, ordered_groups[1:] != ordered_groups[:-1]])
        ends = np.r_[starts[1:], len(order)]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            partition, bucket = divmod(int(ordered_groups[start]), width)
            yield BucketRows(
                partitions[partition],
                first + bucket,
                rows.slice(start, end - start),
                None if ordered_kinds is None else ordered_kinds[start:end],
            )

    def _buckets(self, batch: pa.RecordBatch) -> np.ndarray:
        if self._buckets_count <= 1:
            return np.zeros(batch.num_rows, dtype=np.int64)
        columns = [batch.column(f.name) for f in self._bucket_fields]
        types = [f.type for f in self._bucket_fields]
        numbers = buckets_of(columns, types, self._buckets_count, function=self._function)
        return numbers.astype(np.int64)

    def _dynamic_buckets(
        self,
        dynamic: DynamicBuckets,
        batch: pa.RecordBatch,
        partitions: Sequence[bytes],
        codes: np.ndarray,
        given: np.ndarray | None,
    ) -> np.ndarray:
        columns = [batch.column(f.name) for f in self._bucket_fields]
        hashes = hash_rows(columns, [f.type for f in self._bucket_fields])
        buckets = np.zeros(batch.num_rows, np.int64) if given is None else given.astype(np.int64)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(partitions)), side="right")
        start = 0
        for partition, end in zip(partitions, ends.tolist(), strict=True):
            rows = order[start:end] if len(partitions) > 1 else slice(None)
            start = end
            if given is None:
                buckets[rows] = dynamic.assign(partition, hashes[rows])
                continue
            own, own_hashes = buckets[rows], hashes[rows]
            for bucket in np.unique(own).tolist():  # few: the rows were clustered by them
                dynamic.put(partition, bucket, own_hashes[own == bucket])
        return buckets

    def partitions(
        self, batch: pa.RecordBatch, *, rows_count: int
    ) -> tuple[list[bytes], np.ndarray]:
        """The distinct partitions, and the index of each row's partition among them."""
        if not self._partition_fields:
            return [self._unpartitioned], np.zeros(rows_count, dtype=np.int64)
        codes = np.zeros(rows_count, dtype=np.int64)
        first = np.zeros(1, dtype=np.int64)
        for field in self._partition_fields:
            encoded = pc.dictionary_encode(batch.column(field.name), null_encoding="encode")
            own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            size = len(first) * len(encoded.dictionary)
            codes, first = _dense(codes * len(encoded.dictionary) + own, size=size)
        samples = batch.select([f.name for f in self._partition_fields]).take(pa.array(first))
        columns = [
            arrow_to_storage(samples.column(i), t) for i, t in enumerate(self._partition_types)
        ]
        partitions = [
            serialize_row(values, self._partition_types) for values in zip(*columns, strict=True)
        ]
        return partitions, codes


def _dense(codes: np.ndarray, *, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Renumber codes below `size` to 0..k-1; also the first row of each new code."""
    count = len(codes)
    if size > max(4 * count, 1 << 16):
        _, first, dense = np.unique(codes, return_index=True, return_inverse=True)
        return dense, first
    # linear: the last assignment to a code wins, so walking backwards leaves its first row
    first_of = np.full(size, -1, dtype=np.int64)
    first_of[codes[::-1]] = np.arange(count - 1, -1, -1)
    used = np.flatnonzero(first_of >= 0)
    renumbered = np.empty(size, dtype=np.int64)
    renumbered[used] = np.arange(len(used))
    return renumbered[codes], first_of[used]
