"""Writes a stream as messages of a topic: tasks write each micro-batch, at least once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from tidelake.errors import InvalidInputError
from tidelake.kafka import KafkaTable
from tidelake.spark.streams.kafka.messages_write import check_rows, write_messages
from tidelake.spark.streams.write.checkpoint import Checkpoint
from tidelake.spark.streams.write.kept_changes import check_changes
from tidelake.spark.streams.write.start import SinkQuery, Trigger, begun, trigger_arguments

APPEND, UPDATE = "append", "update"


def start_messages(
    frame: DataFrame,
    table: KafkaTable,
    checkpoint: str | Path | None,
    *,
    trigger: Trigger,
    mode: str,
    query_name: str | None,
) -> StreamingQuery:
    """Start a query; see :meth:`tidelake.spark.Lake.write_kafka_stream`."""
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        message = (
            f"The rows for table '{table.name}' are not a stream: write them with tl.write(frame,"
            f" '{table.name}')."
        )
        raise InvalidInputError(message, kind="no_stream", table=table.name)
    place = Checkpoint.of(checkpoint, table=table.name, spark=frame.sparkSession)
    place.query_id()  # says what Spark would not: that it is damaged
    modes = (APPEND, UPDATE) if table.is_upsert else (APPEND,)
    if mode not in modes:
        message = (
            f"mode '{mode}' of a stream into table '{table.name}' of Kafka must be one of"
            f" {', '.join(modes)}; 'update' needs the connector 'upsert-kafka'."
        )
        raise InvalidInputError(message, kind="bad_mode", table=table.name)
    given = trigger_arguments(trigger, table=table.name)
    check_rows(table, frame)
    keys = table.primary_keys if table.is_upsert else None
    check_changes(frame, table.name, keys, takes_kinds=table.has_changes)
    sink = MessageSink(table)
    writer = frame.writeStream.outputMode(mode).foreachBatch(sink)
    writer = writer.option("checkpointLocation", place.uri)
    if query_name is not None:
        writer = writer.queryName(query_name)
    query = begun(writer, given, table=table.name)
    return query if is_remote() else SinkQuery(query, sink)


@dataclass
class MessageSink:
    """Writes the micro-batches of a query as messages. For ``foreachBatch``."""

    table: KafkaTable
    error: BaseException | None = field(default=None, init=False)
    """Why the query failed, if it failed here."""

    def __call__(self, batch: DataFrame, _: int) -> None:
        """Write a batch."""
        try:
            write_messages(self.table, batch)
        except BaseException as error:
            self.error = error
            raise
