"""Where keys that may move between partitions are, and where an upsert puts them.

1. Of each key the last of the given rows counts.
2. The given rows are joined with the keys of live rows: partition and bucket of each key that has a
   row.
3. A row whose key is in its own partition goes to the bucket it is in. One whose key is elsewhere
   goes to its own partition, and a ``-D`` of the key to the old one. A delete goes to where the key
   is, whatever partition it says, and nowhere if the key has no row.
4. New keys of a partition fill one bucket after the other, as the bucket's live rows allow.

Memory: the given rows and :data:`JOIN_ROWS` keys of the table. Source: Paimon's
``GlobalIndexAssigner`` and ``DeleteExistingProcessor`` (1.3.1), which keep all keys on the local
disk of each job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import CorruptError
from tidelake.metadata.paths import TablePaths
from tidelake.table.bucket_index import Fill
from tidelake.table.route import Router
from tidelake.types import RowKind, TableSchema
from tidelake.types.values import storage_to_arrow

__all__ = ["KIND_COLUMN", "KeyPlaces", "LiveKeys", "Place", "PlacedRows", "last_of_each"]

JOIN_ROWS = 1 << 18
"""Keys of the table that are joined at once, at least: a join costs as much as both sides have."""

KIND_COLUMN = "_tidelake_kind"
_ROW, _PLACE = "_tidelake_row", "_tidelake_place"

Place = tuple[bytes, int]
"""Partition and bucket."""
LiveKeys = Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]
"""Primary keys of live rows, and the number of each one's place."""


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows with their kinds and buckets; their partitions are in their columns."""

    rows: pa.RecordBatch
    kinds: npt.NDArray[np.int8]
    buckets: npt.NDArray[np.int32]


class KeyPlaces:
    """Places rows. For one writer; not thread-safe.

    Parameters
    ----------
    schema : TableSchema
        The table's.
    paths : TablePaths
        Tells the values of a partition.
    live_counts : callable
        The live rows of each bucket of a partition.
    fill : Fill
        How new keys are spread.
    """

    def __init__(
        self,
        schema: TableSchema,
        paths: TablePaths,
        *,
        live_counts: Callable[[bytes], Mapping[int, int]],
        fill: Fill,
    ) -> None:
        self._paths = paths
        self._live_counts = live_counts
        self._fill = fill
        self._keys = list(schema.primary_keys)
        self._partition_fields = [schema.field(name) for name in schema.partition_keys]
        self._router = Router(self._partition_fields, [], buckets_count=-1)
        self._counts: dict[bytes, dict[int, int]] = {}

    def place(
        self, table: pa.Table, live_keys: LiveKeys, places: Sequence[Place]
    ) -> Iterator[PlacedRows]:
        """Place all rows of some keys.

        Parameters
        ----------
        table : Table
            The table's columns and :data:`KIND_COLUMN`. Requires: conformed, and that no row of
            these keys comes later.
        live_keys : iterable
            Each live row of these keys once; others may come too.
        places : sequence of (bytes, int)
            What the numbers mean; looked at when `live_keys` is at its end.

        Raises
        ------
        CorruptError
            A key has two live rows.
        """
        rows = last_of_each(table, self._keys)
        before = self._places_of(rows.select(self._keys), live_keys)
        partitions, codes = self._router.partitions(
            rows.select([f.name for f in self._partition_fields]), rows_count=rows.num_rows
        )
        kinds = rows.column(KIND_COLUMN).to_numpy(zero_copy_only=False)
        rows = rows.drop_columns([KIND_COLUMN])
        # the places that these keys are in, few of all; the last for those that have none
        used, before = np.unique(before, return_inverse=True)
        own = [places[number] for number in used[used >= 0].tolist()]
        before -= len(used) - len(own)
        numbers = {partition: number for number, partition in enumerate(partitions)}
        of_place = np.array([*(numbers.get(p, -1) for p, _ in own), -1], np.int64)
        bucket_of_place = np.array([*(bucket for _, bucket in own), -1], np.int32)
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
            retracts = self._moved_to(rows.take(pa.array(gone)), old, own)
            deletes = np.full(len(gone), RowKind.DELETE, np.int8)
            yield PlacedRows(retracts, deletes, bucket_of_place[old])

    def _places_of(self, keys: pa.RecordBatch, live_keys: LiveKeys) -> npt.NDArray[np.int64]:
        """The number of the place where each key's row is; -1 where it has none."""
        before = np.full(keys.num_rows, -1, np.int64)
        wanted = pa.table(keys).append_column(_ROW, pa.array(np.arange(keys.num_rows)))
        held: list[pa.RecordBatch] = []
        held_rows = 0

        def join() -> None:
            found = pa.Table.from_batches(held).join(wanted, keys=self._keys, join_type="inner")
            at = found.column(_ROW).to_numpy()
            if (before[at] >= 0).any() or len(np.unique(at)) < len(at):
                raise self._twice()
            before[at] = found.column(_PLACE).to_numpy()

        for batch, numbers in live_keys:
            held.append(batch.append_column(_PLACE, pa.array(numbers, pa.int64())))
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

    def _moved_to(
        self, rows: pa.RecordBatch, old: npt.NDArray[np.int64], places: Sequence[Place]
    ) -> pa.RecordBatch:
        """The rows with the partition columns of other places."""
        values = [self._paths.partition_values(partition) for partition, _ in places]
        for position, field in enumerate(self._partition_fields):
            column = storage_to_arrow([value[position] for value in values], field.type)
            at = rows.schema.get_field_index(field.name)
            rows = rows.set_column(at, rows.schema.field(at), column.take(pa.array(old)))
        return rows

    def _twice(self) -> CorruptError:
        message = (
            f"A key of table {self._paths.location} has rows in two places: writers that"
            " did not know of each other added them. Delete one of them by its partition."
        )
        return CorruptError(message, kind="key_twice")


def last_of_each(table: pa.Table, keys: Sequence[str]) -> pa.RecordBatch:
    """The last row of each key, in the order of the rows."""
    numbered = table.select(keys).append_column(_ROW, pa.array(np.arange(table.num_rows)))
    last = numbered.group_by(keys).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    rows = table.take(pa.array(np.sort(last.to_numpy())))
    batches = rows.combine_chunks().to_batches()
    assert len(batches) == 1, "a table of one chunk"
    batch: pa.RecordBatch = batches[0]
    return batch
