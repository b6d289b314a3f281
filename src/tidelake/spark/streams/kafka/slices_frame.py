"""Slices of a topic as a DataFrame: a task reads each one and decodes the columns wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.engine.tables import Catalog
from tidelake.errors import UnsupportedError
from tidelake.kafka import KafkaSlice, KafkaTable
from tidelake.kafka import table_options as own
from tidelake.kafka.client import Client
from tidelake.kafka.dead_letters import BadMessages, dead_letter_table
from tidelake.kafka.offsets import KafkaOffsets
from tidelake.kafka.read_range import batch_range
from tidelake.kafka.rows import KIND, RowDecoder
from tidelake.kafka.slice_reader import DOWN_SECONDS_MAX, SliceReader
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import spark_batches
from tidelake.spark.read.shares import share_frame
from tidelake.types import DataField
from tidelake.types.data_type import parse_type_text

_KIND_FIELD = DataField(0, KIND, parse_type_text("STRING"))


@dataclass(frozen=True, slots=True)
class SliceTask:
    """The settings of a task. Picklable.

    Parameters
    ----------
    columns : tuple of str
        The columns wanted, perhaps with ``_row_kind``.
    patience_s : float
        How long all brokers may be down before the task fails.
    """

    table: KafkaTable
    columns: tuple[str, ...]
    bad: BadMessages
    zone: str | None
    patience_s: float = DOWN_SECONDS_MAX

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns wanted."""
        return tuple(_KIND_FIELD if c == KIND else self.table.field(c) for c in self.columns)

    def batches(self, part: KafkaSlice) -> Iterator[pa.RecordBatch]:
        """Read a slice as rows in Spark's Arrow types."""
        with SliceReader(self.table, patience_s=self.patience_s) as reader:
            decoder = RowDecoder(self.table, self.columns, zone=self.zone)

            def rows() -> Iterator[pa.RecordBatch]:
                for block in reader.blocks(part):
                    decoded = decoder.rows(block)
                    self.bad.take(block, decoded.bad)
                    yield decoded.rows

            yield from spark_batches(rows(), self.fields)


def slice_task(table: KafkaTable, columns: Sequence[str], catalog: Catalog) -> SliceTask:
    """Make the settings of tasks; create the dead-letter table if it is missing."""
    bad = BadMessages(table, dead_letter_table(table, catalog))
    return SliceTask(table, tuple(columns), bad, catalog.env.zone)


def frame_schema(table: KafkaTable, columns: Sequence[str]) -> st.StructType:
    """Give the columns of a frame; all may be null."""
    fields = [_KIND_FIELD if c == KIND else table.field(c) for c in columns]
    return spark_schema(fields, table=table.name)


def slices_of(table: KafkaTable, start: KafkaOffsets, end: KafkaOffsets) -> list[KafkaSlice]:
    """Cut the messages between two offsets into slices; keep a partition's changes in order."""
    wanted = 1 if table.has_changes else table.options[own.SCAN_PARALLELISM]
    return start.slices_to(end, tasks_min=wanted or 1)


def slices_frame(spark: SparkSession, task: SliceTask, parts: Sequence[KafkaSlice]) -> DataFrame:
    """Make a DataFrame of slices; reads no message."""
    schema = frame_schema(task.table, task.columns)
    if not parts:
        return spark.createDataFrame([], schema)
    return share_frame(spark, parts, task.batches, schema)


def batch_frame(
    spark: SparkSession, catalog: Catalog, table: KafkaTable, columns: Sequence[str]
) -> DataFrame:
    """Read a table as a batch: from its start mode to its end mode, or to the latest offset.

    Raises
    ------
    NotFoundError, StorageError, InvalidInputError
        There is no such topic, Kafka no longer has an offset, or no broker answers.
    UnsupportedError
        The rows are changes, and the columns lack their kind.
    """
    if table.has_changes and KIND not in columns:
        message = (
            f"The messages of table '{table.name}' are changes, which must be applied to become"
            f" rows of a table: name the column {KIND}, or write them into a table with a primary"
            f" key, tl.write(tl.table('{table.name}'), 'database.table')."
        )
        raise UnsupportedError(message, kind="kafka_changes", table=table.name)
    task = slice_task(table, columns, catalog)
    with Client(table) as client:
        start, end = batch_range(client)
    return slices_frame(spark, task, slices_of(table, start, end))
