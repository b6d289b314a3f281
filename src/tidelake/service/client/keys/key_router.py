"""Which executor and bucket each key goes to.

Fixed buckets: Paimon's bucket function over the bucket key, and the owner of (partition, bucket).
Dynamic buckets: the owner of the partition, who finds the bucket. Keys that may be in any
partition: every executor. One key is routed in plain Python in a few microseconds, many by columns.

A partition may have another number of buckets than the table's option says, until it is rewritten.
An executor that notices tells the number; from then on the router knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.engine.codec import buckets_of, encode_row, hash_bytes, serialize_row, slot_hash
from tidelake.engine.write import Router
from tidelake.options.bucket_mode import BucketMode
from tidelake.service.client.keys.key_columns import KeyColumns, Values
from tidelake.service.protocol.ownership import ANY_BUCKET, executor_of
from tidelake.types.data_type import TypeRoot

Positions = npt.NDArray[np.int64]
UNPARTITIONED = serialize_row((), ())
SLOT_MASKS = {TypeRoot.BIGINT: (1 << 64) - 1, TypeRoot.INT: (1 << 32) - 1}
"""From a value to the slot of its BinaryRow (:mod:`tidelake.codec.binary_row`)."""
ROUTES_KEPT_MAX = 4_096
NUMBERS_OF_16_BITS = 1 << 16
ANYWHERE = b""
"""Partition of keys that may be in any."""


class Route(NamedTuple):
    """Where one key goes."""

    executor: int
    partition: bytes
    bucket: int
    buckets: int


class Run(NamedTuple):
    """Keys of one bucket that follow each other in a request."""

    partition: bytes
    bucket: int
    keys_count: int
    buckets: int


@dataclass(frozen=True, slots=True)
class RequestPart:
    """What one executor is asked: rows of the keys, cut into runs of one bucket each."""

    executor: int
    positions: Positions
    runs: tuple[Run, ...]

    def pieces(self, keys_max: int) -> list[RequestPart]:
        """Cut it into parts of at most so many keys."""
        if len(self.positions) <= keys_max:
            return [self]
        parts, begin = [], 0
        while begin < len(self.positions):
            end = min(begin + keys_max, len(self.positions))
            runs, at = [], 0
            for run in self.runs:
                count = min(at + run.keys_count, end) - max(at, begin)
                if count > 0:
                    runs.append(run._replace(keys_count=count))
                at += run.keys_count
            parts.append(RequestPart(self.executor, self.positions[begin:end], tuple(runs)))
            begin = end
        return parts


@dataclass(frozen=True)
class KeyRouter:
    """Routes keys of one table among a number of executors.

    Parameters
    ----------
    bucket_counts : mapping
        Partitions with another number of buckets than the table's option, and that number.
    """

    keys: KeyColumns
    executors_count: int
    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)

    @cached_property
    def asks_all(self) -> bool:
        """Whether each key goes to every executor."""
        return self.keys.mode is BucketMode.CROSS_PARTITION

    @cached_property
    def _quick(self) -> tuple[int, list[Route]] | None:
        """Of keys of one whole number in a table without partitions: 1 us instead of 6.

        The mask of the bucket key's slot, and the routes to the buckets.
        """
        keys = self.keys
        mask = SLOT_MASKS.get(keys.types[0].root) if len(keys.types) == 1 else None
        count = self.bucket_counts.get(UNPARTITIONED, keys.buckets_count)
        fits = keys.mode is BucketMode.FIXED and keys.function == "default" and not keys.partition
        if mask is None or not fits or not 1 < count <= ROUTES_KEPT_MAX:
            return None
        return mask, [
            Route(executor_of(UNPARTITIONED, b, self.executors_count), UNPARTITIONED, b, count)
            for b in range(count)
        ]

    def route(self, values: Values) -> Route:
        """Where one key goes; of a key that goes to all, the first executor."""
        keys = self.keys
        quick = self._quick
        if quick is not None:
            mask, routes = quick
            return routes[abs(slot_hash(values[0] & mask)) % len(routes)]  # type: ignore[operator]
        if self.asks_all:
            return Route(0, ANYWHERE, ANY_BUCKET, 0)
        types = keys.types
        partition = UNPARTITIONED
        if keys.partition:
            at = keys.partition
            partition = serialize_row(keys.storage(values, at), [types[i] for i in at])
        if keys.mode is not BucketMode.FIXED:
            owner = executor_of(partition, ANY_BUCKET, self.executors_count)
            return Route(owner, partition, ANY_BUCKET, 0)
        count = self.bucket_counts.get(partition, keys.buckets_count)
        bucket = 0
        if count > 1 and keys.function == "default":
            at = keys.bucket
            row = encode_row(keys.storage(values, at), [types[i] for i in at])
            # the remainder of Java has the sign of the hash, which Paimon drops
            bucket = abs(hash_bytes(row)) % count
        elif count > 1:
            bucket = int(self._buckets(keys.rows_of([values]), count)[0])
        return Route(executor_of(partition, bucket, self.executors_count), partition, bucket, count)

    def parts(self, rows: pa.RecordBatch, positions: Positions) -> list[RequestPart]:
        """Route many keys.

        Parameters
        ----------
        rows : RecordBatch
            All keys' columns.
        positions : int64 array [n]
            Which of them to route.

        Returns
        -------
        list of RequestPart
            One per executor that owns some of them.
        """
        if not len(positions):
            return []
        if self.asks_all:
            run = Run(ANYWHERE, ANY_BUCKET, len(positions), 0)
            return [RequestPart(i, positions, (run,)) for i in range(self.executors_count)]
        every = len(positions) == rows.num_rows and bool((np.diff(positions) == 1).all())
        chosen = rows if every else rows.take(pa.array(positions))
        if self.keys.mode is BucketMode.FIXED and not self.keys.partition:
            return self._of_one_partition(chosen, positions)
        at = [self.keys.fields[i] for i in self.keys.partition]
        router = Router(at, [], buckets_count=-1)
        partitions, codes = router.partitions(chosen, rows_count=len(positions))
        counts = [self.bucket_counts.get(p, self.keys.buckets_count) for p in partitions]
        if self.keys.mode is not BucketMode.FIXED:
            buckets = np.zeros(len(positions), np.int64)
            width = 1
        else:
            buckets = self._all_buckets(chosen, np.array(counts)[codes])
            width = max(counts)
        groups = codes * width + buckets
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        ends = np.r_[starts[1:], len(order)]
        return self._gathered(partitions, counts, width, ordered, positions[order], starts, ends)

    def _of_one_partition(self, rows: pa.RecordBatch, positions: Positions) -> list[RequestPart]:
        """Route keys of a table without partitions."""
        count = self.bucket_counts.get(UNPARTITIONED, self.keys.buckets_count)
        first = executor_of(UNPARTITIONED, 0, self.executors_count)
        if count == 1:
            run = Run(UNPARTITIONED, 0, len(positions), 1)
            return [RequestPart(first, positions, (run,))]
        buckets = self._buckets(rows, count)
        small = buckets.astype(np.uint16) if count <= NUMBERS_OF_16_BITS else buckets
        ordered = positions[np.argsort(small, kind="stable")]
        sizes = np.bincount(buckets, minlength=count)
        runs: dict[int, list[Run]] = {}
        rows_of: dict[int, list[Positions]] = {}
        start = 0
        for bucket in sizes.nonzero()[0].tolist():
            end = start + int(sizes[bucket])
            executor = (first + bucket) % self.executors_count
            runs.setdefault(executor, []).append(Run(UNPARTITIONED, bucket, end - start, count))
            rows_of.setdefault(executor, []).append(ordered[start:end])
            start = end
        if len(runs) == 1:
            return [RequestPart(e, ordered, tuple(own)) for e, own in runs.items()]
        return [RequestPart(e, np.concatenate(rows_of[e]), tuple(runs[e])) for e in runs]

    def _gathered(
        self,
        partitions: Sequence[bytes],
        counts: Sequence[int],
        width: int,
        ordered: Positions,
        positions: Positions,
        starts: npt.NDArray[np.intp],
        ends: npt.NDArray[np.int64],
    ) -> list[RequestPart]:
        fixed = self.keys.mode is BucketMode.FIXED
        runs: dict[int, list[Run]] = {}
        rows: dict[int, list[Positions]] = {}
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            index, bucket = divmod(int(ordered[start]), width)
            count = counts[index] if fixed else 0
            bucket = bucket if fixed else ANY_BUCKET
            executor = executor_of(partitions[index], bucket, self.executors_count)
            run = Run(partitions[index], bucket, end - start, count)
            runs.setdefault(executor, []).append(run)
            rows.setdefault(executor, []).append(positions[start:end])
        return [RequestPart(e, np.concatenate(rows[e]), tuple(runs[e])) for e in runs]

    def _all_buckets(self, rows: pa.RecordBatch, counts: Positions) -> Positions:
        buckets = np.zeros(rows.num_rows, np.int64)
        for count in np.unique(counts).tolist():  # one, or two while a table is being rescaled
            of_count = counts == count
            if count > 1:
                chosen = rows if of_count.all() else rows.filter(pa.array(of_count))
                buckets[of_count] = self._buckets(chosen, count)
        return buckets

    def _buckets(self, rows: pa.RecordBatch, count: int) -> Positions:
        at = self.keys.bucket
        columns, types = [rows.column(i) for i in at], [self.keys.types[i] for i in at]
        found = buckets_of(columns, types, count, function=self.keys.function)
        return found.astype(np.int64)


RoutedKey = tuple[Values, Route, KeyRouter]
"""A key, where it goes, and the router that found it."""
