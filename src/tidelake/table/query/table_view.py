"""All buckets of a table at one snapshot, and the way from a key to its bucket.

1. The partition is part of the key, or else any partition may hold it (cross-partition tables).
2. In a table with fixed buckets a hash gives the bucket, modulo the number of buckets that the
   partition was written with. Elsewhere, and in a partition whose files differ in that number, any
   bucket of the partition may hold it.

A view is immutable: threads read it while a refresh makes the next one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.binary_row import decode_row, encode_row
from tidelake.codec.bucket import buckets_of, hash_bytes
from tidelake.codec.key_order import FLOAT_DTYPES
from tidelake.lookup import BucketView, OpenedFile
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.table.bucketing.router import Router
from tidelake.table.query.bucket_files import QueriedBucket
from tidelake.table.query.keys import memory_value
from tidelake.types import DataField
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit, to_arrow_type

Places = npt.NDArray[np.int64]
Place = tuple[tuple[BucketView, ...], Places | slice | None]
"""Buckets that may hold some keys, and which of a batch's keys; None for all."""


@dataclass(frozen=True, slots=True)
class TableShape:
    """How a table's keys find their buckets. Picklable.

    Parameters
    ----------
    partition_fields : tuple of DataField
        The partition columns, if the key has them all; none if it lacks one.
    bucket_function : str
        ``bucket-function.type``.
    is_hashed : bool
        Whether buckets are found by a hash.
    keys_may_move : bool
        Whether any partition may hold a key.
    """

    key_fields: tuple[DataField, ...]
    partition_fields: tuple[DataField, ...]
    bucket_fields: tuple[DataField, ...]
    bucket_function: str
    is_hashed: bool
    keys_may_move: bool

    def partition_indexes(self) -> tuple[int, ...]:
        """Where the partition's values are in a key."""
        names = [f.name for f in self.key_fields]
        return tuple(names.index(f.name) for f in self.partition_fields)

    def bucket_indexes(self) -> tuple[int, ...]:
        """Where the bucket's values are in a key."""
        names = [f.name for f in self.key_fields]
        return tuple(names.index(f.name) for f in self.bucket_fields)

    @property
    def has_float_partitions(self) -> bool:
        """Whether a partition column holds floats, which ``==`` does not tell apart as bytes do."""
        return any(f.type.root in FLOAT_DTYPES for f in self.partition_fields)

    def partition_values(self, partition: bytes) -> tuple[object, ...]:
        """A partition's values as Arrow's memory holds them; floats by :func:`_distinguished`."""
        values = decode_row(partition, [f.type for f in self.partition_fields])
        return _distinguished(
            memory_value(value, f) for value, f in zip(values, self.partition_fields, strict=True)
        )


@dataclass(frozen=True)
class Partition:
    """The buckets of one partition.

    Parameters
    ----------
    buckets : mapping of int to BucketView
        Those that have files and are owned.
    total_buckets : int or None
        Of how many a hash chooses; None if any bucket may hold a key.
    """

    buckets: Mapping[int, BucketView]
    total_buckets: int | None

    @property
    def all_buckets(self) -> tuple[BucketView, ...]:
        """The buckets."""
        return tuple(self.buckets.values())


class TableView:
    """All buckets of a table at one snapshot.

    Parameters
    ----------
    snapshot : Snapshot or None
        The snapshot; None for a table without one.
    states : mapping of BucketId to QueriedBucket
        The files of each bucket.
    """

    def __init__(
        self,
        shape: TableShape,
        snapshot: Snapshot | None,
        states: Mapping[BucketId, QueriedBucket],
        buckets: Mapping[BucketId, BucketView],
    ) -> None:
        self.shape = shape
        self.snapshot = snapshot
        self.states = states
        self.buckets = buckets
        self._partitions = self._by_partition()
        self._partition_indexes = shape.partition_indexes()
        self._has_floats = shape.has_float_partitions
        self._by_values: dict[tuple[object, ...], Partition] = {}
        self._only: Partition | None = None
        if self._partition_indexes:
            for partition, found in self._partitions.items():
                self._by_values[shape.partition_values(partition)] = found
        elif not shape.keys_may_move:
            self._only = next(iter(self._partitions.values()), Partition({}, None))
        self._bucket_of = _bucket_function(shape)
        only = self._only
        self._only_buckets = None if only is None or only.total_buckets != 1 else only.all_buckets
        self._everywhere = tuple(buckets.values())

    @property
    def opened(self) -> dict[Path, OpenedFile]:
        """The lookup files of the view."""
        runs = (run for bucket in self.buckets.values() for run in bucket.runs)
        return {run.opened.path: run.opened for run in runs}

    # ---- one key

    def buckets_for(self, values: Sequence[Any]) -> Sequence[BucketView]:
        """The buckets that may hold a key; usually one.

        Parameters
        ----------
        values : sequence
            The key's parts, as Arrow's memory holds them.
        """
        if self._only_buckets is not None:
            return self._only_buckets
        partition = self._only
        if partition is None:
            if self.shape.keys_may_move:
                return self._everywhere
            own = tuple(values[place] for place in self._partition_indexes)
            if self._has_floats:
                own = _distinguished(own)
            partition = self._by_values.get(own)
            if partition is None:
                return ()
        total = partition.total_buckets
        if total is None:
            return partition.all_buckets
        number = self._bucket_of(values, total) if total > 1 else 0
        found = partition.buckets.get(number)
        return () if found is None else (found,)

    # ---- many keys

    def routed(self, keys: pa.RecordBatch) -> Iterator[Place]:
        """The keys of a batch by the buckets that may hold them."""
        if not keys.num_rows:
            return
        if self.shape.keys_may_move:
            yield self._everywhere, None
            return
        if self._only is not None:
            yield from self._routed_in(self._only, keys, None)
            return
        router = Router(self.shape.partition_fields, (), buckets_count=1)
        partitions, codes = router.partitions(keys, rows_count=keys.num_rows)
        for number, partition in enumerate(partitions):
            found = self._partitions.get(partition)
            if found is None:
                continue
            own = None if len(partitions) == 1 else np.flatnonzero(codes == number)
            yield from self._routed_in(found, keys, own)

    def routed_as(self, slices: Sequence[tuple[BucketId | None, int]]) -> Iterator[Place]:
        """The keys of a batch by the buckets that the caller names."""
        start = 0
        for bucket_id, count in slices:
            own = slice(start, start + count)
            start += count
            yield self.buckets_named(bucket_id), own

    def buckets_named(self, bucket_id: BucketId | None) -> tuple[BucketView, ...]:
        """The buckets that a caller means: one, those of a partition (-1), or all (None)."""
        if bucket_id is None:
            return self._everywhere
        if bucket_id.bucket < 0:
            partition = self._partitions.get(bucket_id.partition)
            return () if partition is None else partition.all_buckets
        found = self.buckets.get(bucket_id)
        return () if found is None else (found,)

    def _routed_in(
        self, partition: Partition, keys: pa.RecordBatch, own: Places | None
    ) -> Iterator[Place]:
        total = partition.total_buckets
        if total is None or total == 1:
            yield partition.all_buckets, own
            return
        fields = self.shape.bucket_fields
        columns = [keys.column(f.name) for f in fields]
        if own is not None:
            columns = [column.take(pa.array(own)) for column in columns]
        numbers = buckets_of(
            columns, [f.type for f in fields], total, function=self.shape.bucket_function
        )
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        for number, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
            bucket = partition.buckets.get(number)
            if bucket is not None:
                some = order[start:end]
                yield (bucket,), some if own is None else own[some]

    def _by_partition(self) -> dict[bytes, Partition]:
        grouped: dict[bytes, list[BucketId]] = {}
        for bucket_id in self.buckets:
            grouped.setdefault(bucket_id.partition, []).append(bucket_id)
        return {
            partition: Partition(
                {b.bucket: self.buckets[b] for b in ids},
                self._total_of([self.states[b] for b in ids]),
            )
            for partition, ids in grouped.items()
        }

    def _total_of(self, states: Sequence[QueriedBucket]) -> int | None:
        totals = {state.total_buckets for state in states}
        (total,) = totals if len(totals) == 1 else (0,)
        fits = all(state.bucket < total for state in states)
        return total if self.shape.is_hashed and total > 0 and fits else None


def _distinguished(values: Iterable[object]) -> tuple[object, ...]:
    """Values as a dict tells partitions apart: -0.0 is not 0.0, and NaN is NaN."""
    return tuple(struct.pack("<d", v) if isinstance(v, float) else v for v in values)


def _bucket_function(shape: TableShape) -> Callable[[Sequence[Any], int], int]:
    """The function that gives one key's bucket."""
    places, fields = shape.bucket_indexes(), shape.bucket_fields
    types = [f.type for f in fields]

    def of_row(values: Sequence[Any], total: int) -> int:
        stored = [_storage_value(values[p], f) for p, f in zip(places, fields, strict=True)]
        return abs(hash_bytes(encode_row(stored, types))) % total

    def of_column(values: Sequence[Any], total: int) -> int:
        columns = [_one(values[p], f) for p, f in zip(places, fields, strict=True)]
        return int(buckets_of(columns, types, total, function=shape.bucket_function)[0])

    return of_row if shape.bucket_function == "default" else of_column


def _storage_value(value: Any, field: DataField) -> Any:
    if field.type.precision is not None and "TIMESTAMP" in field.type.root.name:
        return value * NANOS_PER_UNIT[timestamp_unit(field.type)]
    return value


def _one(value: Any, field: DataField) -> pa.Array:
    """A column of one row, of a value as Arrow's memory holds it."""
    kind = to_arrow_type(field.type)
    if pa.types.is_decimal(kind):
        memory = pa.py_buffer(int(value).to_bytes(16, "little", signed=True))
        return pa.Array.from_buffers(kind, 1, [None, memory])
    if pa.types.is_timestamp(kind) or pa.types.is_time32(kind) or pa.types.is_date32(kind):
        width = kind.bit_width // 8
        memory = pa.py_buffer(int(value).to_bytes(width, "little", signed=True))
        return pa.Array.from_buffers(kind, 1, [None, memory])
    return pa.array([value], kind)
