"""Changes between two moments as a DataFrame, read on the executors.

The driver plans parts (:mod:`tidelake.table.changelog.changelog_protocols`): changelog files, new
data files, or the files of a bucket before and after where the two differ. Parts travel as bytes,
packed into tasks of even weight; a task reads its own, and of a net change compares both sides.

Rows of a DataFrame have no order. Inside a part they are in order, and a key's changes of one
commit are in one part; the changes of a key by several commits may come from several tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelake.scan import split_from_bytes, split_to_bytes
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import packed_splits, spark_batches
from tidelake.table.changelog.changelog_protocols import (
    ChangePart,
    ChangeRows,
    PlannedChanges,
    change_fields,
)
from tidelake.types import DataField

__all__ = ["ChangeTask", "PartBytes", "changes_frame"]


@dataclass(frozen=True, slots=True)
class PartBytes:
    """A part of changes on its way to an executor.

    Parameters
    ----------
    blobs : tuple of bytes
        Its splits.
    size_bytes : int
        Bytes of their files.
    """

    blobs: tuple[bytes, ...]
    size_bytes: int

    @classmethod
    def of(cls, part: ChangePart) -> PartBytes:
        """Pack a part."""
        return cls(tuple(map(split_to_bytes, part)), sum(split.size_bytes for split in part))


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """What one task needs beside its parts. Picklable."""

    rows: ChangeRows

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The kind, then the columns wanted."""
        return change_fields(self.rows.context, self.rows.columns)

    def batches(self, blobs: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """The changes of a part in Spark's Arrow types."""
        part = tuple(split_from_bytes(blob) for blob in blobs)
        return spark_batches(self.rows.read(part), self.fields)


def changes_frame(spark: SparkSession, changes: PlannedChanges, *, table: str) -> DataFrame:
    """Give planned changes as a DataFrame: ``_row_kind``, then the columns, all nullable.

    Parameters
    ----------
    spark : SparkSession
        Where it runs.
    changes : PlannedChanges
        Of :func:`tidelake.table.changelog.changelog_plan.planned_changes`.
    table : str
        The table, for messages.

    Raises
    ------
    UnsupportedError
        A column's type does not exist on Spark.

    Notes
    -----
    Runs on the driver; nothing but metadata is read.
    """
    task = ChangeTask(changes.rows)
    schema = spark_schema(task.fields, table=table)
    parts = [PartBytes.of(part) for part in changes.parts()]
    if not parts:
        return spark.createDataFrame([], schema)
    packed = packed_splits(spark, changes.rows.context, parts)
    blobs = [[part.blobs for part in own] for own in packed]
    return spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(_reading(task, blobs), schema)


def _reading(
    task: ChangeTask, blobs: Sequence[Sequence[Sequence[bytes]]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that runs on executors: numbers of tasks in, their changes out."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for part in blobs[number]:
                    yield from task.batches(part)

    return read
