"""Writes a stream as messages of a topic: tasks write each micro-batch, at least once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tidelake.errors import InvalidInputError
from tidelake.kafka import KafkaTable
from tidelake.spark.kafka.messages_write import check_rows, write_messages
from tidelake.spark.streamwrite.checkpoint import Checkpoint
from tidelake.spark.streamwrite.start import Trigger, trigger_arguments

__all__ = ["start_messages"]

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
    place = Checkpoint.of(checkpoint, table=table.name)
    modes = (APPEND, UPDATE) if table.is_upsert else (APPEND,)
    if mode not in modes:
        message = (
            f"mode '{mode}' of a stream into table '{table.name}' of Kafka must be one of"
            f" {', '.join(modes)}; 'update' needs the connector 'upsert-kafka'."
        )
        raise InvalidInputError(message, kind="bad_mode", table=table.name)
    given = trigger_arguments(trigger, table=table.name)
    check_rows(table, frame)
    writer = frame.writeStream.outputMode(mode).foreachBatch(_writing(table))
    writer = writer.option("checkpointLocation", place.uri)
    if query_name is not None:
        writer = writer.queryName(query_name)
    try:
        return (writer.trigger(**given) if given else writer).start()
    except (PySparkException, ValueError) as error:
        reason = " ".join(str(error).split("\n==")[0].split())
        message = f"Spark refuses the stream into table '{table.name}': {reason}."
        raise InvalidInputError(message, kind="stream_refused", table=table.name) from error


def _writing(table: KafkaTable) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, _: int) -> None:
        write_messages(table, batch)

    return write
