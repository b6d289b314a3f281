"""Finds the buckets of keys that may change partition, and routes an upsert's rows.

The given rows are joined with the keys of live rows. That yields the partition and bucket of each
key that has a row. The merge engine decides the rest:

- ``deduplicate``: the last given row of each key counts. If its key is in the same partition, the
  row goes to the key's bucket. If not, the row goes to its own partition, and a ``-D`` of the key
  goes to the old one. A delete goes to the key's bucket, whatever partition it names.
- ``partial-update``, ``aggregation``: all rows of a key go to the key's bucket and take that
  partition's values: a key stays in its first partition.
- ``first-row``: the first given row of each key counts, and only if the key has no row.

New keys of a partition fill one bucket after the other, as far as the bucket's live rows allow. The
first row that adds a key sets its partition. Retractions of a key are dropped if it has no row and
no given row adds it.

Memory: the given rows and :data:`JOIN_ROWS` keys of the table. Source: Paimon's
``GlobalIndexAssigner`` and ``ExistingProcessor`` (1.3.1), which keep all keys on the local disk of
each job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.row_codes import row_codes
from tidelake.errors import CorruptError
from tidelake.merge import deduplicate_input
from tidelake.merge.spec import AGGREGATION, DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.paths import TablePaths
from tidelake.table.bucketing.key_hash_index import Fill
from tidelake.table.bucketing.router import Router
from tidelake.types import RowKind, TableSchema
from tidelake.types.values import storage_to_arrow

JOIN_ROWS = 1 << 18
"""At least so many keys of the table are joined at once: a join costs as much as both sides."""

KIND_COLUMN = "_tidelake_kind"
_ROW, _BUCKET = "_tidelake_row", "_tidelake_bucket_number"

LiveKeys = Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]
"""Primary keys of live rows, and the number of each key's bucket."""


@dataclass(frozen=True, slots=True)
class AssignedRows:
    """Rows with their kinds and buckets; their partitions are in their columns."""

    rows: pa.RecordBatch
    kinds: npt.NDArray[np.int8]
    buckets: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Before:
    """The buckets of some keys before the write.

    Parameters
    ----------
    at : int64 array [n]
        The index of each key's bucket in `own`; one past the last for a key without a row.
    codes : int64 array [p + 1]
        The index of each bucket's partition among those of the given rows; -1 for none.
    buckets : int32 array [p + 1]
        Each bucket's number in its partition.
    """

    own: list[BucketId]
    at: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int32]

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Whether each key has a row."""
        return self.at < len(self.own)


class CrossPartitionAssigner:
    """Gives rows their buckets. For one writer; not thread-safe.

    Parameters
    ----------
    live_counts : callable
        The live rows of each bucket of a partition.
    """

    def __init__(
        self,
        schema: TableSchema,
        paths: TablePaths,
        *,
        engine: str,
        live_counts: Callable[[bytes], Mapping[int, int]],
        fill: Fill,
    ) -> None:
        self._paths = paths
        self._engine = engine
        self._live_counts = live_counts
        self._fill = fill
        self._keys = list(schema.primary_keys)
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._router = Router(self._partition_fields, [], buckets_count=-1)
        self._counts: dict[bytes, dict[int, int]] = {}

    def assign(
        self, table: pa.Table, live_keys: LiveKeys, bucket_ids: Sequence[BucketId]
    ) -> Iterator[AssignedRows]:
        """Give all rows of some keys their buckets.

        Parameters
        ----------
        table : Table
            The table's columns and :data:`KIND_COLUMN`. Requires: conformed, not empty, and no
            later row has one of these keys.
        live_keys : iterable
            Each live row of these keys once; other keys may be among them.
        bucket_ids : sequence of (bytes, int)
            The bucket ids behind the numbers; read once `live_keys` has ended.

        Raises
        ------
        CorruptError
            A key has two live rows.
        """
        rows = deduplicate_input(table, self._keys, engine=self._engine)
        kinds = rows.column(KIND_COLUMN).to_numpy(zero_copy_only=False)
        rows = rows.drop_columns([KIND_COLUMN])
        partitions, codes = self._router.partitions(
            rows.select([f.name for f in self._partition_fields]), rows_count=rows.num_rows
        )
        if self._engine in (PARTIAL_UPDATE, AGGREGATION):
            numbers = row_codes(pa.table(rows.select(self._keys)))
            firsts = np.unique(numbers, return_index=True)[1]
            before = self._before(rows.take(pa.array(firsts)), live_keys, bucket_ids, partitions)
            yield from self._where_they_are(rows, kinds, (partitions, codes), numbers, before)
            return
        before = self._before(rows, live_keys, bucket_ids, partitions)
        adds, found = (kinds & 1) == 0, before.found
        stays = found & (before.codes[before.at] == codes)
        if self._engine == FIRST_ROW:
            adds, stays = adds & ~found, np.zeros(len(found), np.bool_)
        buckets = before.buckets[before.at]
        for number, partition in enumerate(partitions):
            new = np.flatnonzero(adds & ~stays & (codes == number))
            buckets[new] = self._filled(partition, len(new))
        chosen = np.flatnonzero(adds)
        if len(chosen):
            yield AssignedRows(rows.take(pa.array(chosen)), kinds[chosen], buckets[chosen])
        gone = np.flatnonzero(found & (~adds | ~stays))
        if self._engine == DEDUPLICATE and len(gone):
            old = before.at[gone]
            retracts = self._moved_to(rows.take(pa.array(gone)), old, before.own)
            deletes = np.full(len(gone), RowKind.DELETE, np.int8)
            yield AssignedRows(retracts, deletes, before.buckets[old])

    def _where_they_are(
        self,
        rows: pa.RecordBatch,
        kinds: npt.NDArray[np.int8],
        partitions: tuple[Sequence[bytes], npt.NDArray[np.int64]],
        numbers: npt.NDArray[np.int64],
        before: _Before,
    ) -> Iterator[AssignedRows]:
        """All rows, in the bucket of their key; `numbers` are the rows' keys."""
        names, codes = partitions
        found = before.found
        adding = np.flatnonzero((kinds & 1) == 0)[::-1]
        home = np.full(len(found), -1)  # the row that sets the partition of a new key
        home[numbers[adding]] = adding  # `adding` runs backwards, so the first row wins
        stay = np.flatnonzero(found[numbers] | (home[numbers] >= 0))
        if not len(stay):
            return
        of_key = np.where(found, before.codes[before.at], codes[home])
        buckets = before.buckets[before.at]
        for number, partition in enumerate(names):
            new = np.flatnonzero(~found & (home >= 0) & (of_key == number))
            buckets[new] = self._filled(partition, len(new))
        own = numbers[stay]
        assigned = rows.take(pa.array(stay))
        if (codes[stay] != of_key[own]).any():
            at_home = np.where(found[own], stay, home[own])
            assigned = self._moved_to(
                self._with_partition_of(assigned, rows.take(pa.array(at_home))),
                before.at[own],
                before.own,
            )
        yield AssignedRows(assigned, kinds[stay], buckets[own])

    def _before(
        self,
        rows: pa.RecordBatch,
        live_keys: LiveKeys,
        bucket_ids: Sequence[BucketId],
        partitions: Sequence[bytes],
    ) -> _Before:
        """The buckets of the rows' keys. Requires: no key twice."""
        before = self._bucket_numbers(rows.select(self._keys), live_keys)
        used, at = np.unique(before, return_inverse=True)
        own = [bucket_ids[number] for number in used[used >= 0].tolist()]
        at -= len(used) - len(own)
        numbers = {partition: number for number, partition in enumerate(partitions)}
        return _Before(
            own,
            np.where(at < 0, len(own), at),
            np.array([*(numbers.get(p, -1) for p, _ in own), -1], np.int64),
            np.array([*(bucket for _, bucket in own), -1], np.int32),
        )

    def _bucket_numbers(self, keys: pa.RecordBatch, live_keys: LiveKeys) -> npt.NDArray[np.int64]:
        """The number of each key's bucket; -1 for a key without a row."""
        before = np.full(keys.num_rows, -1, np.int64)
        wanted = pa.table(keys).append_column(_ROW, pa.array(np.arange(keys.num_rows)))
        held: list[pa.RecordBatch] = []
        held_rows = 0

        def join() -> None:
            found = pa.Table.from_batches(held).join(wanted, keys=self._keys, join_type="inner")
            at = found.column(_ROW).to_numpy()
            if (before[at] >= 0).any() or len(np.unique(at)) < len(at):
                raise self._twice()
            before[at] = found.column(_BUCKET).to_numpy()

        for batch, numbers in live_keys:
            held.append(batch.append_column(_BUCKET, pa.array(numbers, pa.int64())))
            held_rows += batch.num_rows
            if held_rows >= max(JOIN_ROWS, keys.num_rows):
                join()
                held, held_rows = [], 0
        if held:
            join()
        return before

    def _filled(self, partition: bytes, count: int) -> npt.NDArray[np.int32]:
        """Buckets for new keys of a partition."""
        if not count:
            return np.empty(0, np.int32)
        counts = self._counts.get(partition)
        if counts is None:
            counts = self._counts[partition] = dict(self._live_counts(partition))
        fill, rest = self._fill, count
        out: list[npt.NDArray[np.int32]] = []
        bucket = fill.number
        while rest:  # over buckets, not rows
            taken = min(rest, max(0, fill.target_rows - counts.get(bucket, 0)))
            counts[bucket] = counts.get(bucket, 0) + taken
            out.append(np.full(taken, bucket, np.int32))
            rest -= taken
            bucket += fill.assigners
        return np.concatenate(out)

    def _with_partition_of(self, rows: pa.RecordBatch, others: pa.RecordBatch) -> pa.RecordBatch:
        for field in self._partition_fields:
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, rows.schema.field(at), others.column(at))
        return rows

    def _moved_to(
        self, rows: pa.RecordBatch, old: npt.NDArray[np.int64], bucket_ids: Sequence[BucketId]
    ) -> pa.RecordBatch:
        """The rows with the partition columns of other buckets; past the last, with their own."""
        values = [self._paths.partition_values(partition) for partition, _ in bucket_ids]
        for position, field in enumerate(self._partition_fields):
            at = rows.schema.get_field_index(field.name)
            column = storage_to_arrow([value[position] for value in values], field.type)
            both = pa.concat_arrays([column, rows.column(at)])
            chosen = np.where(old < len(bucket_ids), old, len(bucket_ids) + np.arange(len(old)))
            rows = rows.set_column(at, rows.schema.field(at), both.take(pa.array(chosen)))
        return rows

    def _twice(self) -> CorruptError:
        message = (
            f"A key of table {self._paths.location} has rows in two buckets: two writers added it"
            " independently. Delete one of the rows by its partition."
        )
        return CorruptError(message, kind="key_twice")
