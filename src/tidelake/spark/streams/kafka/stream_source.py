"""Topics as a source of Spark's micro-batches.

:mod:`tidelake.spark.streams.connector.source` implements Spark's interface. Tasks decode only the
columns that the query needs.

The plan of a frame is a streaming relation of Spark that holds the source. Two queries of one frame
share the source, so the source keeps the state of each run by the run's id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.tables import Catalog
from tidelake.errors import UnsupportedError
from tidelake.kafka import KafkaTable
from tidelake.kafka.rows import KIND
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.callbacks.refusal import let_refusals_through
from tidelake.spark.streams.connector.relation import BatchRows
from tidelake.spark.streams.connector.source import MicroBatchSource, streaming_runtime
from tidelake.spark.streams.kafka.slices_frame import (
    frame_schema,
    slice_task,
    slices_frame,
    slices_of,
)
from tidelake.spark.streams.kafka.stream_cursor import DOWN_MS_MAX, TopicCursor, between

_RUN = "spark.jobGroup.id"
"""The local property that holds the id of a query's run."""


class KafkaSource(MicroBatchSource):
    """A table of Kafka as a source."""

    def __init__(
        self, gateway: Gateway, table: KafkaTable, catalog: Catalog, columns: Sequence[str]
    ) -> None:
        super().__init__(gateway, gateway.schema(frame_schema(table, columns)), named="Kafka")
        self._table, self._catalog, self._columns = table, catalog, tuple(columns)
        self._runs: dict[str, TopicCursor] = {}

    def toString(self) -> str:
        """Return the text that Spark's progress shows."""
        return f"kafka[{self._table.name}]@{id(self):x}"

    def stop(self) -> None:
        """Release the state of a run."""
        cursor = self._runs.pop(self._run(), None)
        if cursor is not None:
            cursor.close()

    def _check(self, text: str) -> None:
        between(None, text)

    def _behind(self, at: str) -> Mapping[str, str]:
        return {"offsetsBehind": str(self._cursor().behind(at))}

    def _batch(self, start: str | None, end: str) -> tuple[BatchRows, str]:
        first, last = between(start, end)

        def rows(columns: Sequence[str], _: JavaObject | None) -> DataFrame:
            task = slice_task(self._table, columns or self._columns[:1], self._catalog)
            task = replace(task, patience_s=DOWN_MS_MAX / 1000)
            return slices_frame(self.gateway.spark, task, slices_of(self._table, first, last))

        return rows, f"kafka {self._table.name}, {first.lag_to(last)} offsets"

    def _cursor(self) -> TopicCursor:
        run = self._run()
        if run not in self._runs:
            self._runs[run] = TopicCursor(self._table, self._catalog.env.clock)
        return self._runs[run]

    def _run(self) -> str:
        return str(self.gateway.spark.sparkContext.getLocalProperty(_RUN))


def kafka_stream(spark: SparkSession, catalog: Catalog, table: KafkaTable) -> DataFrame:
    """Make a streaming DataFrame of a table; changes have ``_row_kind`` in front.

    Raises
    ------
    UnsupportedError
        The session uses Spark Connect.
    """
    if is_remote():
        message = "Streams of Kafka need a classic session of Spark, not Spark Connect."
        raise UnsupportedError(message, kind="spark_connect", table=table.name)
    ensure_callback_server_started(spark.sparkContext._gateway)
    let_refusals_through(spark)
    gateway = Gateway(spark)
    columns = [*([KIND] if table.has_changes else []), *(f.name for f in table.fields)]
    source = KafkaSource(gateway, table, catalog, columns)
    types = gateway.java("org.apache.spark.sql.catalyst.types.DataTypeUtils")
    output = types.toAttributes(gateway.schema(frame_schema(table, columns)))
    relation = gateway.java(f"{streaming_runtime(gateway)}.StreamingExecutionRelation")
    none = getattr(gateway.java("scala.None$"), "MODULE$")
    naming = getattr(relation, "apply$default$4")()
    plan = relation(source, output, none, naming, spark._jsparkSession)
    dataset = gateway.java("org.apache.spark.sql.classic.Dataset")
    return gateway.frame(dataset.ofRows(spark._jsparkSession, plan))
