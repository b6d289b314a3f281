"""Topics as a source of Spark's micro-batches: Java's interfaces, implemented in Python.

Spark calls on the query's own thread: ``latestOffset`` for the end of the next batch, which goes
into the checkpoint before anything is read; ``getBatch`` for the plan of the rows between two
offsets, which asks nobody; Spark optimises the query around it, and so the tasks decode only the
columns that the query needs.

The plan is a streaming relation of Spark's that holds the source. Two queries of one frame share
the source, so what belongs to a run of a query is kept by the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from tidelake.catalog import Catalog
from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.kafka import KafkaTable
from tidelake.kafka.rows import KIND
from tidelake.spark.catalog.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.refusal import let_refusals_through
from tidelake.spark.kafka.batch_relation import batch_dataset
from tidelake.spark.kafka.slices_frame import frame_schema, slice_task, slices_frame, slices_of
from tidelake.spark.kafka.stream_cursor import TopicCursor, between

__all__ = ["KafkaSource", "kafka_stream"]

STREAMING = "org.apache.spark.sql.execution.streaming"
_READ = f"{CONNECTOR}.read.streaming"
_RUN = "spark.jobGroup.id"
"""The local property in which Spark keeps the run of a query."""


class KafkaSource(
    Proxy,
    implements=(
        f"{STREAMING}.Source",
        f"{_READ}.SupportsAdmissionControl",
        f"{_READ}.SupportsTriggerAvailableNow",
        f"{_READ}.ReportsSourceMetrics",
    ),
):
    """A table of Kafka as a source.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    table : KafkaTable
        The table, with the options of the stream.
    catalog : Catalog
        Has the dead-letter table.
    columns : sequence of str
        The frame's columns.
    """

    def __init__(
        self, gateway: Gateway, table: KafkaTable, catalog: Catalog, columns: Sequence[str]
    ) -> None:
        super().__init__(gateway)
        self._table, self._catalog, self._columns = table, catalog, tuple(columns)
        self._schema = gateway.schema(frame_schema(table, columns))
        self._runs: dict[str, TopicCursor] = {}

    def toString(self) -> str:
        """How progress shows it."""
        return f"kafka[{self._table.name}]@{id(self):x}"

    # ---- what it is

    def schema(self) -> JavaObject:
        """The columns."""
        return self._schema

    def getDefaultReadLimit(self) -> JavaObject:
        """No limit of Spark's: those of the options hold with every trigger."""
        return self.gateway.connector("read.streaming.ReadLimit").allAvailable()

    # ---- offsets

    def getOffset(self) -> NoReturn:
        """Spark 4.3 asks a source with limits for :meth:`latestOffset`."""
        message = "A stream of Kafka gives offsets under limits only: use Spark 4.3."
        raise UnsupportedError(message, kind="spark_version")

    def initialOffset(self) -> NoReturn:
        """Spark asks this of its newer interface only."""
        self.getOffset()

    def deserializeOffset(self, text: str) -> JavaObject:
        """An offset of a checkpoint."""
        between(None, text)  # refused where it is none
        return self._java(text)

    def prepareForTriggerAvailableNow(self) -> None:
        """Go no further than what is there now."""
        self._cursor().fix_end()

    def latestOffset(self, *args: JavaObject) -> JavaObject:
        """The end of the next batch; `start` itself where nothing is new."""
        start = args[0]
        at = None if start is None else str(start.json())
        end = self._cursor().next(at)
        return start if end == at else self._java(end)

    def reportLatestOffset(self) -> JavaObject | None:
        """The latest offset, for progress."""
        try:
            return self._java(self._cursor().latest())
        except TidelakeError:  # progress is no reason to stop; what is wrong the next batch says
            return None

    def commit(self, offset: JavaObject) -> None:
        """Nothing is kept for what was read."""

    def stop(self) -> None:
        """The run ends."""
        cursor = self._runs.pop(self._run(), None)
        if cursor is not None:
            cursor.close()

    def metrics(self, consumed: JavaObject) -> JavaObject:
        """How far the stream is behind, for progress."""
        if not consumed.isPresent():
            return self.gateway.mapping({})
        try:
            behind = self._cursor().behind(str(consumed.get().json()))
        except TidelakeError:
            return self.gateway.mapping({})
        return self.gateway.mapping({"offsetsBehind": str(behind)})

    # ---- rows

    def getBatch(self, start: JavaObject, end: JavaObject) -> JavaObject:
        """The plan of the rows between two offsets; nobody is asked."""
        began = str(start.get().json()) if start.isDefined() else None
        first, last = between(began, str(end.json()))

        def rows(columns: Sequence[str]) -> DataFrame:
            task = slice_task(self._table, columns or self._columns[:1], self._catalog)
            return slices_frame(self.gateway.spark, task, slices_of(self._table, first, last))

        shown = f"kafka {self._table.name}, {first.lag_to(last)} offsets"
        return batch_dataset(self.gateway, self._schema, rows, shown=shown)

    def _run(self) -> str:
        return str(self.gateway.spark.sparkContext.getLocalProperty(_RUN))

    def _cursor(self) -> TopicCursor:
        run = self._run()
        if run not in self._runs:
            self._runs[run] = TopicCursor(self._table)
        return self._runs[run]

    def _java(self, text: str) -> JavaObject:
        return self.gateway.java(f"{STREAMING}.runtime.SerializedOffset")(text)


def kafka_stream(spark: SparkSession, catalog: Catalog, table: KafkaTable) -> DataFrame:
    """Give a table as a streaming DataFrame; changes have ``_row_kind`` in front.

    Parameters
    ----------
    spark : SparkSession
        A classic session.
    catalog : Catalog
        Has the dead-letter table.
    table : KafkaTable
        The table, with the options of the stream.

    Raises
    ------
    UnsupportedError
        The session is one of Spark Connect.
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
    relation = gateway.java(f"{STREAMING}.runtime.StreamingExecutionRelation")
    none = getattr(gateway.java("scala.None$"), "MODULE$")
    naming = getattr(relation, "apply$default$4")()
    plan = relation(source, output, none, naming, spark._jsparkSession)
    dataset = gateway.java("org.apache.spark.sql.classic.Dataset")
    return gateway.frame(dataset.ofRows(spark._jsparkSession, plan))
