"""A DataFrame's rows in clustered order, on their way into an append table without buckets.

1. Executors read the columns to sort by: their ranges, and a sample of the rows. A few tasks join
   the samples within a bound, for the driver has one memory for any number of tasks. It takes the
   bounds of ranges of even size; a write of few rows has one range.
2. Executors compute the rows again, and cut each batch by the bounds. The pieces travel with their
   keys as Arrow messages, as in :mod:`tidelake.spark.write.clustered_ranges`.
3. The task of a range sorts its rows, by way of local disk where they are many, by partition and
   then by key, and writes them in that order.

A row that the table refuses is not cut: its error travels in its place, and is the task's answer.
Cost: the frame is computed twice, as by Spark's own ``repartitionByRange``.

Source: Paimon's ``PaimonSparkWriter`` and ``TableSorter`` (1.3.1), which sort by the columns across
partitions.
"""

from __future__ import annotations

import functools
import pickle
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidelake.engine.jobs import ClusterKey, ClusterOrder, ClusterSorter, KeyBounds, KeyRanges
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import TidelakeError
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.mapped import in_workers, mapped
from tidelake.spark.write.clustered_ranges import arrow_message
from tidelake.spark.write.clustering import tasks_count
from tidelake.spark.write.write_task import for_task, in_task
from tidelake.types import DataField
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.conform import conform

RANGE_ROWS_MIN = 20_000
"""A range has so many rows at least, by the sample: a small write makes one file."""
TASK_SAMPLE_ROWS_MAX = 4_000
TASK_SAMPLE_BYTES_MAX = 1 << 20
"""Rows and bytes of a task's sample; about half as many when they become more."""
SAMPLE_ROWS_MAX = 1_000_000
SAMPLE_BYTES_MAX = 64 << 20
"""Rows and bytes of all samples together, by the same rule."""
JOINING_TASKS = 8
"""Tasks that join samples: those of 10,000 tasks are gigabytes, too many for one Arrow batch."""
_GOLDEN = np.uint32(2_654_435_769)
_HASHES = 1 << 32
_SAMPLES = "answer binary"
_PIECES = "place int, rows binary, error string"


def clustered_pieces(
    handle: TableHandle, frame: DataFrame, order: ClusterOrder, *, tasks: int | None
) -> DataFrame:
    """Bring the pieces of each range of rows to one task, for :class:`SortedPieces`.

    Parameters
    ----------
    frame : DataFrame
        The table's columns, and perhaps ``_row_kind``.
    tasks : int, optional
        Number of ranges; by default from the size of the input.
    """
    fields = (*order.before, *order.fields)
    names = [f.name for f in fields if f.name in frame.columns]
    keys = frame.select(*(F.col(quoted(name)) for name in names))
    sampler = _FrameSampler(order, handle.identifier)
    samples = mapped(keys, sampler.answers, _SAMPLES).repartition(JOINING_TASKS)
    joined = in_workers(samples, _joined_samples, _SAMPLES).collect()
    sample = _Sample.of_all(pickle.loads(bytes(row[0])) for row in joined)
    count = tasks or min(tasks_count(frame), max(1, sample.rows_count // RANGE_ROWS_MIN))
    cutter = _FrameCutter(for_task(handle), *sample.cut(order, ranges_count=count))
    pieces = mapped(frame, cutter.pieces, _PIECES)
    return by_number(pieces, cutter.bounds.ranges_count, "place")


@dataclass(frozen=True, slots=True)
class SortedPieces:
    """Gives the rows of a task's pieces in order. Picklable."""

    handle: TableHandle
    order: ClusterOrder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take all pieces, then give their rows.

        Raises
        ------
        TidelakeError
            The table refuses a row.
        """
        context = in_task(self.handle).store_context()
        sorter = ClusterSorter(context, self.order, name="frame")
        try:
            for batch in batches:
                _, messages, errors = batch.columns
                for error in errors.drop_null().to_pylist():
                    raise error_from_text(error)
                for message in messages:
                    for rows in pa.ipc.open_stream(message.as_buffer()):
                        sorter.add(rows)
            yield from sorter.batches()
        finally:
            sorter.close()
            if context.spill_dir is not None:
                shutil.rmtree(context.spill_dir, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Ranges of the columns, and a sample of rows: those whose hashes are below a limit.

    Parameters
    ----------
    rows : tuple of RecordBatch
        The columns to sort by.
    hashes : uint32 array [n]
        A hash of the number of each row: rows left out by a lower limit depend on nothing else.
    """

    ranges: KeyRanges | None = None
    rows: tuple[pa.RecordBatch, ...] = ()
    hashes: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    limit: int = _HASHES
    rows_count: int = 0

    @classmethod
    def of_all(
        cls,
        samples: Iterable[_Sample],
        *,
        rows_max: int = SAMPLE_ROWS_MAX,
        bytes_max: int = SAMPLE_BYTES_MAX,
    ) -> _Sample:
        """Join the samples of tasks, one after the other: all rows have the same chance."""
        parts: list[_Sample] = []
        limit, rows, nbytes = _HASHES, 0, 0
        for sample in samples:
            limit = min(limit, sample.limit)
            parts.append(sample._below(limit))
            rows += len(parts[-1].hashes)
            nbytes += parts[-1].nbytes
            if rows > rows_max or nbytes > bytes_max:
                parts = [cls._joined(parts, limit)._within(rows_max, bytes_max)]
                limit, rows, nbytes = parts[0].limit, len(parts[0].hashes), parts[0].nbytes
        return cls._joined(parts, limit) if parts else cls()

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return sum(rows.nbytes for rows in self.rows)

    def with_batch(self, ranges: KeyRanges, rows: pa.RecordBatch) -> _Sample:
        """Take a further batch of a task."""
        numbers = np.arange(self.rows_count, self.rows_count + rows.num_rows, dtype=np.uint32)
        found = _Sample(ranges, (rows,), numbers * _GOLDEN, rows_count=rows.num_rows)
        parts = (self, found) if self.rows else (found,)
        return self._joined(parts, self.limit)._within(TASK_SAMPLE_ROWS_MAX, TASK_SAMPLE_BYTES_MAX)

    def answers(self) -> Iterator[pa.RecordBatch]:
        """The answer of a task; nothing without rows."""
        if self.rows_count:
            answer = pickle.dumps(self)
            yield pa.RecordBatch.from_pydict({"answer": pa.array([answer], pa.binary())})

    def cut(self, order: ClusterOrder, *, ranges_count: int) -> tuple[ClusterKey, KeyBounds]:
        """The key of all rows, and the bounds of their ranges."""
        schema = to_arrow_schema((*order.before, *order.fields))
        key = order.key(self.ranges or KeyRanges((None,) * len(order.fields)))
        sample = self.rows or [pa.RecordBatch.from_pylist([], schema)]
        return key, key.bounds(sample, ranges_count=ranges_count)

    @classmethod
    def _joined(cls, parts: Sequence[_Sample], limit: int) -> _Sample:
        """All rows of samples that a limit leaves: copied once, however many samples."""
        ranges = [part.ranges for part in parts if part.ranges is not None]
        whole = cls(
            functools.reduce(KeyRanges.with_other, ranges) if ranges else None,
            tuple(rows for part in parts for rows in part.rows),
            np.concatenate([part.hashes for part in parts]),
            rows_count=sum(part.rows_count for part in parts),
        )
        return whole._below(limit)

    def _within(self, rows_max: int, bytes_max: int) -> _Sample:
        """The rows of the highest limit with so many rows and bytes at most."""
        found = self
        while len(found.hashes) > rows_max or found.nbytes > bytes_max:
            found = found._below(found.limit // 2)
        return found

    def _below(self, limit: int) -> _Sample:
        """The rows that a lower limit leaves."""
        stays = self.hashes < limit
        table = pa.Table.from_batches(self.rows).filter(pa.array(stays)).combine_chunks()
        rows = tuple(table.to_batches()) or (self.rows[0].slice(0, 0),)
        return _Sample(self.ranges, rows, self.hashes[stays], limit, self.rows_count)


@dataclass(frozen=True, slots=True)
class _FrameSampler:
    """Finds the ranges of the columns in a task's rows, and a sample of these. Picklable."""

    order: ClusterOrder
    table: str

    def answers(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answer of a task; nothing without rows."""
        fields = (*self.order.before, *self.order.fields)
        sample = _Sample()
        for batch in batches:
            try:
                rows = conform(batch, fields, table=self.table)
            except TidelakeError:
                continue  # the cutter tells it
            own = rows.select([f.name for f in self.order.fields])
            sample = sample.with_batch(KeyRanges.of(self.order.fields, [own]), rows)
        yield from sample.answers()


def _joined_samples(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sample of several tasks."""
    found = (pickle.loads(answer.as_py()) for batch in batches for answer in batch.column(0))
    rows_max, bytes_max = SAMPLE_ROWS_MAX // JOINING_TASKS, SAMPLE_BYTES_MAX // JOINING_TASKS
    yield from _Sample.of_all(found, rows_max=rows_max, bytes_max=bytes_max).answers()


@dataclass(frozen=True, slots=True)
class _FrameCutter:
    """Cuts a frame's rows by ranges. Picklable."""

    handle: TableHandle
    key: ClusterKey
    bounds: KeyBounds

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The pieces of a task's rows: range, Arrow message, or an error instead."""
        fields = self.handle.schema.fields
        for batch in batches:
            try:
                rows = self._conformed(batch, fields)
            except TidelakeError as error:
                yield _pieces([0], [None], error=error_to_text(error))
                continue
            cut = list(self.key.pieces(rows, self.bounds))
            yield _pieces([place for place, _ in cut], [arrow_message([p]) for _, p in cut])

    def _conformed(self, batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
        names = batch.schema.names
        if ROW_KIND_COLUMN not in names:
            return conform(batch, fields, table=self.handle.identifier)
        kinds = batch.column(ROW_KIND_COLUMN)
        rows = conform(batch.drop_columns([ROW_KIND_COLUMN]), fields, table=self.handle.identifier)
        return rows.append_column(ROW_KIND_COLUMN, kinds)


def _pieces(
    places: Sequence[int], messages: Sequence[bytes | None], *, error: str | None = None
) -> pa.RecordBatch:
    columns = {
        "place": pa.array(places, pa.int32()),
        "rows": pa.array(messages, pa.binary()),
        "error": pa.array([error] * len(places), pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)
