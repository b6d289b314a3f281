"""Upserts of keys that may change partition, in one process.

If the primary key lacks a partition column, a key has one row in the whole table. No index says in
which bucket; the keys of the live rows do.

1. Rows are kept until the commit. Rows beyond the budget go to local disk, in :data:`PARTS` parts
   by the hash of the key.
2. As many parts as fit the budget are taken at once.
3. The key columns of the base snapshot's live rows are read as a stream. They decide where each row
   goes (:mod:`tidelake.table.bucketing.cross_partition_assigner`).

The choice holds only while no other commit adds rows; else the commit is refused. Memory: rows of
the budget, their keys, and the keys of the table that are joined at once. Cost: a scan of the
table's key columns for each time the budget is filled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.bucket import hash_rows
from tidelake.merge.runs.spill import SpillStack
from tidelake.metadata.bucket_id import BucketId
from tidelake.store import StoreContext
from tidelake.table.bucketing.cross_partition_assigner import (
    KIND_COLUMN,
    AssignedRows,
    CrossPartitionAssigner,
    LiveKeys,
)

PARTS = 16
"""Parts of the rows beyond the budget; one part may be larger than the budget."""

KeysByBucket = Iterable[tuple[BucketId, pa.RecordBatch]]


class CrossPartitionWriter:
    """Takes the rows of one write and assigns their buckets at its end. Not thread-safe.

    Parameters
    ----------
    live_keys : callable
        Given the keys wanted: the primary keys of the base snapshot's live rows by partition and
        bucket. Other keys may be among them.
    """

    def __init__(
        self,
        context: StoreContext,
        *,
        budget_bytes: int,
        live_keys: Callable[[pa.Table], KeysByBucket],
        assigner: CrossPartitionAssigner,
    ) -> None:
        self._context = context
        self._budget_bytes = budget_bytes
        self._live_keys = live_keys
        self._assigner = assigner
        self._batches: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._parts: list[SpillStack] = []
        self._part_bytes = np.zeros(PARTS, np.int64)

    def add(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows. Requires: conformed to the table's columns."""
        if rows.num_rows == 0:
            return
        if kinds is None:
            kinds = np.zeros(rows.num_rows, np.int8)
        batch = rows.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))
        self._batches.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > self._budget_bytes and self._context.spill_dir is not None:
            self._spill(self._context.spill_dir)

    def assigned(self) -> Iterator[AssignedRows]:
        """Assign the buckets of all rows; once."""
        if self._parts:
            assert self._context.spill_dir is not None
            self._spill(self._context.spill_dir)
        for batches in self._taken():
            if batches:
                rows = pa.Table.from_batches(batches)
                bucket_ids: list[BucketId] = []
                keys = self._numbered(rows.select(self._context.schema.primary_keys), bucket_ids)
                yield from self._assigner.assign(rows, keys, bucket_ids)

    def _numbered(self, keys: pa.Table, bucket_ids: list[BucketId]) -> LiveKeys:
        """Live keys with numbers for bucket ids; the ids are added to a list."""
        numbers: dict[BucketId, int] = {}
        for bucket_id, batch in self._live_keys(keys):
            if bucket_id not in numbers:
                numbers[bucket_id] = len(bucket_ids)
                bucket_ids.append(bucket_id)
            yield batch, np.full(batch.num_rows, numbers[bucket_id])

    def _taken(self) -> Iterator[list[pa.RecordBatch]]:
        """All rows of some keys at a time, in their order of arrival."""
        if not self._parts:
            batches, self._batches = self._batches, []
            yield batches
            return
        taken: list[pa.RecordBatch] = []
        taken_bytes = 0
        for part, size_bytes in zip(self._parts, self._part_bytes.tolist(), strict=True):
            if taken and taken_bytes + size_bytes > self._budget_bytes:
                yield taken
                taken, taken_bytes = [], 0
            taken += itertools.chain.from_iterable(part.runs())
            taken_bytes += size_bytes
            part.clear()
        yield taken

    def _spill(self, directory: str) -> None:
        if not self._parts:
            uuid = self._context.env.ids.uuid()
            self._parts = [
                SpillStack(
                    directory,
                    name=f"keys-{uuid}-{number}",
                    options=self._context.options,
                    join=itertools.chain.from_iterable,
                )
                for number in range(PARTS)
            ]
        batches, self._batches, self._held_bytes = self._batches, [], 0
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        keys = self._context.schema.primary_keys
        types = [self._context.schema.field(name).type for name in keys]
        numbers = hash_rows([table.column(name) for name in keys], types) & (PARTS - 1)
        for number, part in enumerate(self._parts):
            own = table.filter(pa.array(numbers == number))
            if own.num_rows:
                self._part_bytes[number] += own.nbytes
                part.push(own.to_batches())
