"""Writes a DataFrame as messages of a topic: each task writes its rows, at least once.

A write has no commit. A task that Spark repeats writes its messages again, and a failed write
leaves some messages. Where the newest row of a key counts, a shuffle first brings the rows of a key
into one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.write import with_row_kinds
from tidelake.errors import InvalidInputError, StorageError, TidelakeError
from tidelake.kafka import KafkaTable
from tidelake.kafka import table_options as own
from tidelake.kafka.client import Client
from tidelake.kafka.message_writer import MessageWriter, check_writable
from tidelake.kafka.rows import KIND
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.types import arrow_schema
from tidelake.types.conform import conform

ANSWER_SCHEMA = "rows bigint, error string"


@dataclass(frozen=True, slots=True)
class MessageTask:
    """The settings of a task. Picklable."""

    table: KafkaTable
    partitions_count: int

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Write one task's rows and wait for the brokers' acknowledgement."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        fields = self.table.written_fields
        rows_count = 0
        with MessageWriter(
            self.table, task=number, partitions_count=self.partitions_count
        ) as writer:
            for rows, kinds in with_row_kinds(batches, None, table=self.table.name):
                made = conform(pa.Table.from_batches([rows]), fields, table=self.table.name)
                for part in made.combine_chunks().to_batches():
                    rows_count += writer.write(part, kinds)
        return rows_count


def write_messages(table: KafkaTable, frame: DataFrame) -> int:
    """Write a batch.

    Parameters
    ----------
    frame : DataFrame
        The table's columns except virtual ones, and ``_row_kind`` if rows are changes.

    Returns
    -------
    int
        Messages written.

    Raises
    ------
    InvalidInputError, UnsupportedError
        The columns do not fit, the format has no message for a row kind, or a message is too large.
    StorageError
        Kafka does not answer, or does not acknowledge a message.
    """
    check_rows(table, frame)
    with Client(table) as client:
        partitions, _ = client.partitions()
    rows = _gathered(table, frame)
    work = _writing(MessageTask(table, len(partitions)))
    answers = mapped(rows, work, ANSWER_SCHEMA).collect()
    for answer in answers:
        if answer["error"] is not None:
            raise error_from_text(answer["error"])
    return sum(answer["rows"] for answer in answers)


def check_rows(table: KafkaTable, frame: DataFrame) -> None:
    """Refuse columns that do not fit, before a job runs."""
    check_writable(table)
    data = [f for f in frame.schema.fields if f.name != KIND]
    arrow = arrow_schema(st.StructType(data))
    conform(arrow.empty_table(), table.written_fields, table=table.name)
    if KIND in frame.columns and not table.has_changes:
        message = (
            f"The rows for table '{table.name}' have a column {KIND}, but messages of the format"
            f" '{table.value.format_name}' are inserts: drop it, or use 'upsert-kafka' or the"
            " format 'debezium-json'."
        )
        raise InvalidInputError(message, kind="row_kind", table=table.name)


def _gathered(table: KafkaTable, frame: DataFrame) -> DataFrame:
    tasks = table.options[own.SINK_PARALLELISM]
    keys: list[Column] = [F.col(quoted(name)) for name in table.primary_keys]
    if keys:
        return frame.repartition(*([tasks] if tasks else []), *keys)
    return frame if tasks is None else frame.repartition(tasks)


def _writing(task: MessageTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows, error = 0, None
        try:
            rows = task.write(batches)
        except StorageError:
            raise  # Spark retries the task
        except TidelakeError as refused:
            error = error_to_text(refused)
        yield pa.RecordBatch.from_pydict(
            {"rows": pa.array([rows], pa.int64()), "error": pa.array([error], pa.string())}
        )

    return write
