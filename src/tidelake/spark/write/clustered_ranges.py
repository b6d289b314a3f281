"""Clustering on Spark: large partitions are cut into ranges of rows, which executors sort.

1. A partition of less than :data:`RANGE_BYTES` is a task as it is without Spark
   (:mod:`tidelake.spark.write.runner`).
2. Of a larger one, executors read the columns to sort by, split by split: their ranges, and a
   sample of rows. From all samples the driver takes the bounds of ranges of even size.
3. Executors read the splits and cut each batch by the bounds. The pieces travel with their keys as
   Arrow messages, one value for each range of a batch, so Spark moves bytes and never sees a row.
4. The task of a range sorts its rows (by way of local disk where they are many) and writes files.
   The driver names the files that they replace, once for each partition.

Rows of equal keys are in one range. Cost: the columns to sort by are read twice.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from tidelake.engine.jobs import (
    ClusterKey,
    ClusterOrder,
    ClusterSorter,
    ClusterTask,
    Gathered,
    KeyBounds,
    KeyRanges,
    Plan,
    TableClustering,
    planned_states,
)
from tidelake.engine.rows import tracks_rows
from tidelake.engine.scan import (
    ReadContext,
    Split,
    TableRows,
    read_buckets,
    split_from_bytes,
    split_to_bytes,
)
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import CommitMessage, new_writer
from tidelake.options.bucket_mode import BucketMode
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.read.shares import share_frame
from tidelake.spark.sessions.session import parallelism
from tidelake.spark.write.runner import SparkRunner
from tidelake.spark.write.write_task import (
    ANSWER_SCHEMA,
    TaskAnswer,
    answered,
    for_task,
    in_task,
    written,
)

RANGE_BYTES = 64 << 20
"""Bytes of files whose rows one task sorts."""
SAMPLE_ROWS = 20_000
"""Rows of a partition's sample, about: a range is then a few percent off its size."""


@dataclass(frozen=True, slots=True)
class SparkClusterRunner:
    """Runs the tasks of a clustering on executors.

    Parameters
    ----------
    tasks : int, optional
        The most tasks of Spark's for a partition; by default one for `range_bytes`, and one for
        each core.
    range_bytes : int
        Bytes of files whose rows one task sorts; smaller partitions are sorted whole.
    """

    spark: SparkSession
    tasks: int | None = None
    range_bytes: int = RANGE_BYTES

    def run(self, plan: Plan[Any], into: Gathered) -> None:
        """Run all tasks and gather what they wrote."""
        assert isinstance(plan, TableClustering), "other plans have other runners"
        # ids of tracked rows come from their place in a file, and a bucket's sequence numbers from
        # one writer: only whole partitions and buckets have them
        handle = into.handle
        is_whole = tracks_rows(handle.options) or handle.bucket_mode is not BucketMode.UNBUCKETED
        whole_bytes = inf if is_whole else self.range_bytes
        large = tuple(task for task in plan.tasks if task.size_bytes > whole_bytes)
        small = tuple(task for task in plan.tasks if task.size_bytes <= whole_bytes)
        SparkRunner(self.spark, self.tasks).run(replace(plan, tasks=small), into)
        if large:
            self._run_ranges(replace(plan, tasks=large), into)

    def _run_ranges(self, plan: TableClustering, into: Gathered) -> None:
        handle = into.handle
        context = handle.read_context()
        splits = _splits(handle, plan)
        blobs = [
            (number, split_to_bytes(split)) for number, own in enumerate(splits) for split in own
        ]
        found = share_frame(
            self.spark, blobs, _Sampler(context, plan.order, _sizes(plan)).answers, _SAMPLES
        ).collect()
        ranges = [
            piece
            for number, task in enumerate(plan.tasks)
            for piece in self._ranges_of(plan, task, [row for row in found if row[0] == number])
        ]
        if ranges:
            self._write(plan, ranges, blobs, into)
        _name_replaced(plan, into)

    def _write(
        self,
        plan: TableClustering,
        ranges: Sequence[_Range],
        blobs: Sequence[tuple[int, bytes]],
        into: Gathered,
    ) -> None:
        """Cut the rows by the ranges, and write each range."""
        handle = into.handle
        context = handle.read_context()
        pieces = share_frame(
            self.spark, blobs, _Cutter(context, _Cuts.of(ranges)).pieces, "place int, rows binary"
        )
        pieces = by_number(pieces, len(ranges), "place")
        work = _RangeWriter(for_task(handle), plan.snapshot_id, tuple(ranges))
        answer = TaskAnswer.gather(mapped(pieces, work.answers, ANSWER_SCHEMA).collect())
        into.add(answer.messages)
        if answer.errors:
            raise answer.errors[0]

    def _ranges_of(
        self, plan: TableClustering, task: ClusterTask, found: Sequence[Any]
    ) -> list[_Range]:
        """The ranges of a partition, by the answers of its samples."""
        answers = [pickle.loads(bytes(row[1])) for row in found]
        whole: KeyRanges | None = None
        samples: list[pa.RecordBatch] = []
        for own, sample in answers:
            whole = own if whole is None else whole.with_other(own)
            samples += pa.ipc.open_stream(sample).read_all().to_batches()
        if whole is None:
            return []  # all of its rows are deleted
        key = plan.order.key(whole)
        wanted = max(math.ceil(task.size_bytes / self.range_bytes), parallelism(self.spark))
        count = wanted if self.tasks is None else self.tasks
        bounds = key.bounds(samples, ranges_count=count)
        number = plan.tasks.index(task)
        return [_Range(task, number, key, bounds, i) for i in range(bounds.ranges_count)]


@dataclass(frozen=True, slots=True)
class _Range:
    """A range of a partition's rows: those from one bound to the next. Picklable."""

    task: ClusterTask
    number: int
    key: ClusterKey
    bounds: KeyBounds
    place: int


@dataclass(frozen=True, slots=True)
class _Cuts:
    """For each partition by number: its key, the bounds, and the number of its first range."""

    of_partition: dict[int, tuple[ClusterKey, KeyBounds, int]]

    @classmethod
    def of(cls, ranges: Sequence[_Range]) -> _Cuts:
        """Take all ranges, in order."""
        found: dict[int, tuple[ClusterKey, KeyBounds, int]] = {}
        for at, piece in enumerate(ranges):
            found.setdefault(piece.number, (piece.key, piece.bounds, at))
        return cls(found)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """Finds the ranges of the columns in a split, and a sample of its rows. Picklable.

    Parameters
    ----------
    rows_counts : tuple of int
        The rows of each partition.
    """

    context: ReadContext
    order: ClusterOrder
    rows_counts: tuple[int, ...]

    def answers(self, numbered: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
        """The answer for a split, given with its partition's number."""
        number, blob = numbered
        step = max(1, self.rows_counts[number] // SAMPLE_ROWS)
        names = tuple(field.name for field in self.order.fields)
        ranges: KeyRanges | None = None
        sample: list[pa.RecordBatch] = []
        following = crc32(blob) % step  # of files smaller than a step some give a row
        for rows in TableRows(self.context, names).read(split_from_bytes(blob)):
            own = KeyRanges.of(self.order.fields, [rows])
            ranges = own if ranges is None else ranges.with_other(own)
            chosen = np.arange(following, rows.num_rows, step)
            following += len(chosen) * step - rows.num_rows
            sample.append(rows.take(pa.array(chosen)))
        if ranges is None:
            return
        answer = pickle.dumps((ranges, arrow_message(sample)))
        yield pa.RecordBatch.from_pydict(
            {"number": pa.array([number], pa.int32()), "answer": pa.array([answer], pa.binary())}
        )


_SAMPLES = "number int, answer binary"


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts the rows of a split by ranges. Picklable."""

    context: ReadContext
    cuts: _Cuts

    def pieces(self, numbered: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
        """The pieces of a split, given with its partition's number: range and Arrow message."""
        number, blob = numbered
        if number not in self.cuts.of_partition:
            return  # all rows of the partition are deleted
        key, bounds, first = self.cuts.of_partition[number]
        names = self.context.schema.field_names
        for rows in TableRows(self.context, tuple(names)).read(split_from_bytes(blob)):
            cut = list(key.pieces(rows, bounds))
            numbers = pa.array([first + place for place, _ in cut], pa.int32())
            messages = [arrow_message([piece]) for _, piece in cut]
            yield pa.RecordBatch.from_pydict(
                {"place": numbers, "rows": pa.array(messages, pa.binary())}
            )


@dataclass(frozen=True, slots=True)
class _RangeWriter:
    """Sorts the rows of one range and writes them. Picklable."""

    handle: TableHandle
    snapshot_id: int
    ranges: tuple[_Range, ...]

    def answers(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answer of the task of a range; nothing without rows."""
        first = next(batches, None)
        while first is not None and not first.num_rows:
            first = next(batches, None)
        if first is None:
            return
        place = first.column(0)[0].as_py()
        piece = self.ranges[place]
        writer = new_writer(in_task(self.handle), base_snapshot_id=self.snapshot_id)

        def write() -> int:
            bucket = writer.clustering(*piece.task.bucket_id)
            sorter = bucket.sorter(piece.key.order)
            try:
                for batch in chain([first], batches):
                    places = batch.column(0).to_numpy()
                    assert (places == place).all(), "a task has the pieces of one range"
                    _add(sorter, batch)
                bucket.write_clustered(sorter.batches(), level=piece.task.level)
            finally:
                sorter.close()
            return 0

        yield answered(lambda: written(writer, write))


def _add(sorter: ClusterSorter, batch: pa.RecordBatch) -> None:
    for message in batch.column(1):
        for rows in pa.ipc.open_stream(message.as_buffer()):
            sorter.add(rows)


def _sizes(plan: TableClustering) -> tuple[int, ...]:
    """The rows of each partition."""
    return tuple(task.rows_count for task in plan.tasks)


def _splits(handle: TableHandle, plan: TableClustering) -> list[list[Split]]:
    """A split for each file, partition by partition."""
    snapshot = handle.snapshots.load(plan.snapshot_id)
    buckets = {
        bucket.partition: bucket
        for bucket in read_buckets(handle.read_context(), snapshot, manifests=handle.manifests)
    }
    return [
        [
            buckets[task.partition].split((((file,),),), raw=True)
            for file in buckets[task.partition].files
            if file.file_name in task.names
        ]
        for task in plan.tasks
    ]


def _name_replaced(plan: TableClustering, into: Gathered) -> None:
    """Give each partition one message, which also names the files that its new ones replace."""
    states = planned_states(into.handle, plan.snapshot_id)
    for task in plan.tasks:
        with into.writing(new_writer(into.handle, states=states)) as writer:
            files = states(task.partition, 0).files
            writer.clustering(*task.bucket_id).replaced_by(
                [file for file in files if file.file_name in task.names], ()
            )
    into.replace(_joined(into.messages))


def _joined(messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """One message for each partition; new files in the order of the ranges."""
    found: dict[bytes, CommitMessage] = {}
    for message in messages:
        known = found.get(message.partition)
        if known is not None:
            message = replace(
                message,
                compact_before=(*known.compact_before, *message.compact_before),
                compact_after=(*known.compact_after, *message.compact_after),
                deletions=message.deletions or known.deletions,
            )
        found[message.partition] = message
    return list(found.values())


def arrow_message(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches of one schema as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()
