"""Upserts of keys that may move between partitions: where each key's row is, and where it goes.

In a table whose primary key does not hold all partition columns a key has one row in the whole
table. No index says where; the keys of the live rows do.

1. Rows are kept until the commit. What is more than the budget goes to local disk, in
   :data:`PARTS` parts by the hash of the key.
2. As many parts as fit the budget are taken at once. Of each key the last row counts.
3. The keys of the base snapshot's live rows, their columns alone, are read as a stream and joined
   with those of the parts: partition and bucket of each key that has a row.
4. A row whose key is in its own partition goes to the bucket it is in. One whose key is elsewhere
   goes to its own partition, and a ``-D`` of the key to the old one. A delete goes to where the key
   is, whatever partition it says, and nowhere if the key has no row.
5. New keys of a partition fill one bucket after the other, as the bucket's live rows allow.

The choice holds as long as nobody else adds rows, so the commit is refused if somebody did.
Memory: rows of the budget, their keys, and :data:`JOIN_ROWS` keys of the table. Cost: a scan of the
table's key columns for each time the budget is filled. Source: Paimon's ``GlobalIndexAssigner`` and
``DeleteExistingProcessor`` (1.3.1), which keep all keys on the local disk of each job.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.bucket import hash_rows
from tidelake.errors import CorruptError
from tidelake.merge.spill import SpillStack
from tidelake.store import StoreContext
from tidelake.table.bucket_index import Fill
from tidelake.table.route import Router
from tidelake.types import RowKind
from tidelake.types.values import storage_to_arrow

__all__ = ["KeyMoves", "PlacedRows"]

PARTS = 16
"""Rows that do not fit the budget are split so; a part of its own may be as large as that takes."""
JOIN_ROWS = 1 << 18
"""Keys of the table that are joined at once, at least: a join costs as much as both sides have."""

_KIND, _ROW, _PLACE = "_tidelake_kind", "_tidelake_row", "_tidelake_place"

Place = tuple[bytes, int]
KeysByPlace = Iterable[tuple[bytes, int, pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows with their kinds and buckets; their partitions are in their columns."""

    rows: pa.RecordBatch
    kinds: npt.NDArray[np.int8]
    buckets: npt.NDArray[np.int32]


class KeyMoves:
    """Takes the rows of one write and places them at its end. Not thread-safe.

    Parameters
    ----------
    context : StoreContext
        The table.
    budget_bytes : int
        Memory for rows.
    live_keys : callable
        The primary keys of the base snapshot's live rows by partition and bucket, given the keys
        that are looked for; others may come too.
    live_counts : callable
        The live rows of each bucket of a partition.
    fill : Fill
        How new keys are spread.
    """

    def __init__(
        self,
        context: StoreContext,
        *,
        budget_bytes: int,
        live_keys: Callable[[pa.Table], KeysByPlace],
        live_counts: Callable[[bytes], Mapping[int, int]],
        fill: Fill,
    ) -> None:
        schema = context.schema
        self._context = context
        self._budget_bytes = budget_bytes
        self._live_keys = live_keys
        self._live_counts = live_counts
        self._fill = fill
        self._keys = list(schema.primary_keys)
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._router = Router(self._partition_fields, [], buckets_count=-1)
        self._batches: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._parts: list[SpillStack] = []
        self._part_bytes = np.zeros(PARTS, np.int64)
        self._counts: dict[bytes, dict[int, int]] = {}

    def add(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows. Requires: conformed to the table's columns."""
        if rows.num_rows == 0:
            return
        if kinds is None:
            kinds = np.zeros(rows.num_rows, np.int8)
        batch = rows.append_column(_KIND, pa.array(kinds, pa.int8()))
        self._batches.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > self._budget_bytes and self._context.spill_dir is not None:
            self._spill(self._context.spill_dir)

    def placed(self) -> Iterator[PlacedRows]:
        """Give all rows their places; once."""
        if self._parts:
            assert self._context.spill_dir is not None
            self._spill(self._context.spill_dir)
        for batches in self._taken():
            if batches:
                yield from self._place(pa.Table.from_batches(batches))

    def _taken(self) -> Iterator[list[pa.RecordBatch]]:
        """All rows of some keys at a time, in the order they came in."""
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
        types = [self._context.schema.field(name).type for name in self._keys]
        numbers = hash_rows([table.column(name) for name in self._keys], types) & (PARTS - 1)
        for number, part in enumerate(self._parts):
            own = table.filter(pa.array(numbers == number))
            if own.num_rows:
                self._part_bytes[number] += own.nbytes
                part.push(own.to_batches())

    def _place(self, table: pa.Table) -> Iterator[PlacedRows]:
        """Place all rows of some keys."""
        rows = _last_of_each(table, self._keys)
        before, places = self._places(rows.select(self._keys))
        partitions, codes = self._router.partitions(
            rows.select([f.name for f in self._partition_fields]), rows_count=rows.num_rows
        )
        kinds = rows.column(_KIND).to_numpy(zero_copy_only=False)
        rows = rows.drop_columns([_KIND])
        numbers = {partition: number for number, partition in enumerate(partitions)}
        of_place = np.array([*(numbers.get(p, -1) for p, _ in places), -1], np.int64)
        bucket_of_place = np.array([*(bucket for _, bucket in places), -1], np.int32)
        adds, found = (kinds & 1) == 0, before >= 0
        stays = found & (of_place[before] == codes)
        buckets = bucket_of_place[before]
        for number, partition in enumerate(partitions):
            new = np.flatnonzero(adds & ~stays & (codes == number))
            buckets[new] = self._filled(partition, len(new))
        chosen = np.flatnonzero(adds)
        if len(chosen):
            yield PlacedRows(rows.take(pa.array(chosen)), kinds[chosen], buckets[chosen])
        gone = np.flatnonzero(found & (~adds | ~stays))
        if len(gone):
            old = before[gone]
            retracts = self._moved_to(rows.take(pa.array(gone)), old, places)
            deletes = np.full(len(gone), RowKind.DELETE, np.int8)
            yield PlacedRows(retracts, deletes, bucket_of_place[old])

    def _places(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], list[Place]]:
        """Where each key's row is, as a position among the places; -1 where it has none."""
        before = np.full(keys.num_rows, -1, np.int64)
        wanted = pa.table(keys).append_column(_ROW, pa.array(np.arange(keys.num_rows)))
        numbers: dict[Place, int] = {}
        held: list[pa.RecordBatch] = []
        held_rows = 0

        def join() -> None:
            found = pa.Table.from_batches(held).join(wanted, keys=self._keys, join_type="inner")
            at = found.column(_ROW).to_numpy()
            if (before[at] >= 0).any() or len(np.unique(at)) < len(at):
                raise self._twice()
            before[at] = found.column(_PLACE).to_numpy()

        for partition, bucket, batch in self._live_keys(pa.table(keys)):
            number = numbers.setdefault((partition, bucket), len(numbers))
            held.append(batch.append_column(_PLACE, pa.array(np.full(batch.num_rows, number))))
            held_rows += batch.num_rows
            if held_rows >= max(JOIN_ROWS, keys.num_rows):
                join()
                held, held_rows = [], 0
        if held:
            join()
        return before, list(numbers)

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

    def _moved_to(
        self, rows: pa.RecordBatch, old: npt.NDArray[np.int64], places: Sequence[Place]
    ) -> pa.RecordBatch:
        """The rows with the partition columns of other places."""
        values = [self._context.paths.partition_values(partition) for partition, _ in places]
        for position, field in enumerate(self._partition_fields):
            column = storage_to_arrow([value[position] for value in values], field.type)
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, rows.schema.field(at), column.take(pa.array(old)))
        return rows

    def _twice(self) -> CorruptError:
        message = (
            f"A key of table {self._context.paths.location} has rows in two places: writers that"
            " did not know of each other added them. Delete one of them by its partition."
        )
        return CorruptError(message, kind="key_twice")


def _last_of_each(table: pa.Table, keys: Sequence[str]) -> pa.RecordBatch:
    """The last row of each key, in the order of the rows."""
    numbered = table.select(keys).append_column(_ROW, pa.array(np.arange(table.num_rows)))
    last = numbered.group_by(keys).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    rows = table.take(pa.array(np.sort(last.to_numpy())))
    batches = rows.combine_chunks().to_batches()
    assert len(batches) == 1, "a table of one chunk"
    batch: pa.RecordBatch = batches[0]
    return batch
