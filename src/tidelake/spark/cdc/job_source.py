"""A job as a source of Spark's micro-batches: says when there is something to do, and has no rows.

:mod:`tidelake.spark.streams.connector.source` implements Spark's interface. Offsets number the
batches; see :mod:`tidelake.spark.cdc.query_run`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.errors import CorruptError
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.callbacks.refusal import let_refusals_through
from tidelake.spark.cdc.query_run import QueryRun
from tidelake.spark.streams.connector.relation import BatchRows
from tidelake.spark.streams.connector.source import STREAMING, MicroBatchSource

SCHEMA = st.StructType([st.StructField("epoch", st.LongType())])
BATCH = "batch"


class BatchNumbers:
    """Offsets that number the batches of a query."""

    def __init__(self, run: QueryRun) -> None:
        self._run = run

    def fix_end(self) -> None:
        """Let the query end where the source stands when it begins."""
        self._run.end_at_newest()

    def next(self, start: str | None) -> str | None:
        """Give the next number if there is something to do, else the start."""
        if not self._run.has_work():
            return start
        return json.dumps({BATCH: 1 + (0 if start is None else number_of(start))})

    def latest(self) -> str | None:
        """Give nothing: how far the source is, is told by metrics."""
        return None

    def close(self) -> None:
        """The query ends."""
        self._run.close()


class JobSource(MicroBatchSource):
    """A job as the source of one query."""

    def __init__(self, gateway: Gateway, run: QueryRun, job: str) -> None:
        super().__init__(gateway, gateway.schema(SCHEMA), named="CDC")
        self._run = run
        self._job = job
        self._numbers = BatchNumbers(run)

    def toString(self) -> str:
        """Return the text that Spark's progress shows."""
        return f"cdc[{self._job}]"

    def _cursor(self) -> BatchNumbers:
        return self._numbers

    def _check(self, text: str) -> None:
        number_of(text)

    def _behind(self, at: str) -> Mapping[str, str]:
        del at
        return self._run.facts()

    def _batch(self, start: str | None, end: str) -> tuple[BatchRows, str]:
        del start

        def rows(columns: Sequence[str], _: JavaObject | None) -> DataFrame:
            return self.gateway.spark.createDataFrame([], SCHEMA).select(*columns)

        return rows, f"cdc {self._job}, batch {number_of(end)}"


def number_of(text: str) -> int:
    """Read the number of a batch.

    Raises
    ------
    CorruptError
        The checkpoint is of another query.
    """
    try:
        return int(json.loads(text)[BATCH])
    except (ValueError, KeyError, TypeError) as error:
        message = (
            f"The checkpoint has the offset '{text}', which is not of a CDC job: give the job a"
            " checkpoint of its own, or none."
        )
        raise CorruptError(message, kind="cdc_checkpoint") from error


def job_frame(spark: SparkSession, run: QueryRun, job: str) -> DataFrame:
    """Make the streaming DataFrame of a job, for one query."""
    ensure_callback_server_started(spark.sparkContext._gateway)
    let_refusals_through(spark)
    gateway = Gateway(spark)
    source = JobSource(gateway, run, job)
    types = gateway.java("org.apache.spark.sql.catalyst.types.DataTypeUtils")
    output = types.toAttributes(gateway.schema(SCHEMA))
    relation = gateway.java(f"{STREAMING}.runtime.StreamingExecutionRelation")
    none = getattr(gateway.java("scala.None$"), "MODULE$")
    naming = getattr(relation, "apply$default$4")()
    plan = relation(source, output, none, naming, spark._jsparkSession)
    dataset = gateway.java("org.apache.spark.sql.classic.Dataset")
    return gateway.frame(dataset.ofRows(spark._jsparkSession, plan))
