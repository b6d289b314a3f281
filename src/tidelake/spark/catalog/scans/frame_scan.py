"""Scans as Spark's connector interfaces need them: rows of a DataFrame, or rows that are known.

A :class:`FrameScan` gives its rows in one of two ways:

1. Its plan becomes part of the query's own plan (:mod:`tidelake.spark.catalog.scans.scan_rule`).
   This is the rule: Spark's own Parquet scans then stand in the query.
2. Where the session lacks the rule, Spark asks for the rows by its older interface, ``V1Scan``, as
   an RDD. That costs 1.7 to 2.6 times as much.

That interface takes a relation which gives an RDD. Rows then stay in the JVM and may come from any
plan, such as our union of native scans and ``mapInArrow``. The relation must extend a class,
``BaseRelation``. A Python object cannot do that, and none of Spark's own classes returns a given
RDD, so it is a Java class (:mod:`tidelake.spark.jvm.java_class`).
"""

from __future__ import annotations

from typing import NoReturn, Protocol

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.read.plan_size import row_width

READ = f"{CONNECTOR}.read"
_NAME = "TidelakeFrameRelation"


class Rows(Protocol):
    """Makes the rows of a scan on demand."""

    def __call__(self, *, exact: bool) -> DataFrame:
        """The rows; perhaps some that the scan's filters do not want, unless `exact`."""
        ...


class NoBatch(Proxy):
    """The methods of a scan that have defaults in Java."""

    def _no_batch(self) -> NoReturn:
        message = "Rows of a Tidelake table come as an RDD: Spark cannot read them in another way."
        raise UnsupportedError(message, kind="spark_scan")

    def toBatch(self) -> JavaObject:
        """Refused: rows come as an RDD."""
        self._no_batch()

    def toMicroBatchStream(self, _checkpoint: str) -> JavaObject:
        """Refused: there is no stream."""
        self._no_batch()

    def toContinuousStream(self, _checkpoint: str) -> JavaObject:
        """Refused: there is no stream."""
        self._no_batch()

    def supportedCustomMetrics(self) -> JavaObject:
        """No metrics."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomMetric", ())

    def reportDriverMetrics(self) -> JavaObject:
        """No metrics."""
        return self.gateway.array(f"{CONNECTOR}.metric.CustomTaskMetric", ())

    def columnarSupportMode(self) -> JavaObject:
        """Rows, not columns."""
        return self.gateway.java(f"{READ}.Scan$ColumnarSupportMode").UNSUPPORTED


class _Statistics(Proxy, implements=(f"{READ}.Statistics",)):
    """The statistics for the optimiser."""

    def __init__(self, gateway: Gateway, rows: int | None, size_bytes: int | None) -> None:
        super().__init__(gateway)
        self._rows = rows
        self._size_bytes = size_bytes

    def sizeInBytes(self) -> JavaObject:
        """Bytes of the rows."""
        return self.gateway.optional_long(self._size_bytes)

    def numRows(self) -> JavaObject:
        """Rows."""
        return self.gateway.optional_long(self._rows)

    def columnStats(self) -> JavaObject:
        """No statistics of columns."""
        return self.gateway.mapping({})


class _Sized(NoBatch):
    """A scan that tells its size; what Spark does not know it takes to be endless."""

    def __init__(self, gateway: Gateway, rows: int | None, size_bytes: int | None) -> None:
        super().__init__(gateway)
        self._row_count = rows
        self._size_bytes = size_bytes

    def estimateStatistics(self) -> JavaObject:
        """Rows and bytes of the plan."""
        return _Statistics(self.gateway, self._row_count, self._size_bytes)

    def estimateSizeInBytes(self) -> JavaObject:
        """Bytes of the plan."""
        return self.gateway.optional_long(self._size_bytes)

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Spark applies its filters again, and estimates what they leave."""
        return False


class FrameScan(
    _Sized,
    implements=(
        f"{READ}.V1Scan",
        f"{READ}.SupportsReportStatistics",
        "java.util.function.Supplier",
    ),
):
    """A scan whose rows are those of a DataFrame.

    Parameters
    ----------
    rows : callable
        Gives the DataFrame.
    """

    def __init__(
        self,
        gateway: Gateway,
        rows: Rows,
        schema: st.StructType,
        shown: str,
        *,
        row_count: int | None = None,
        size_bytes: int | None = None,
    ) -> None:
        super().__init__(gateway, row_count, size_bytes)
        self._rows: Rows | None = rows
        self._shown = shown
        self._schema = gateway.schema(schema)
        self._frame: DataFrame | None = None
        self._relation: JavaObject | None = None
        self._execution: JavaObject | None = None

    def readSchema(self) -> JavaObject:
        """The columns."""
        return self._schema

    def description(self) -> str:
        """The text in EXPLAIN."""
        return self._shown

    def get(self) -> JavaObject:
        """The execution of the rows: the rule of the optimiser takes its plan.

        Spark may ask several times, as pruning by a join copies a scan; nothing once the rows are
        an RDD.
        """
        if self._rows is not None:
            self._frame = self._rows(exact=False)  # Spark's own filter goes down into the plan
            self._execution = self._frame._jdf.queryExecution()
            self._rows = None  # the JVM frees this scan late, and its splits may be many
        return self._execution

    def toV1TableScan(self, _context: JavaObject) -> JavaObject:
        """The rows; adaptive execution asks several times and gets the same."""
        if self._relation is None:
            # Spark's own filter stays above the RDD; a plan that the rule did not take has all rows
            frame = self._frame if self._rows is None else self._rows(exact=True)
            assert frame is not None
            self._relation = frame_relation(self.gateway, frame, self._schema, self._shown)
            self._rows = self._frame = self._execution = None
        return self._relation


class AnswerScan(_Sized, implements=(f"{READ}.LocalScan", f"{READ}.SupportsReportStatistics")):
    """An answer that is known already."""

    def __init__(
        self, gateway: Gateway, answer: pa.Table, schema: st.StructType, shown: str
    ) -> None:
        width = int(row_width(field.dataType for field in schema))
        super().__init__(gateway, answer.num_rows, max(1, answer.num_rows) * width)
        self._answer = answer
        self._struct = schema
        self._shown = shown

    def readSchema(self) -> JavaObject:
        """The columns."""
        return self.gateway.schema(self._struct)

    def description(self) -> str:
        """The text in EXPLAIN."""
        return self._shown

    def rows(self) -> JavaObject:
        """The rows, without a job."""
        frame = self.gateway.spark.createDataFrame(self._answer, self._struct)
        return frame._jdf.queryExecution().executedPlan().executeCollect()


def frame_relation(
    gateway: Gateway, frame: DataFrame, schema: JavaObject, shown: str
) -> JavaObject:
    """A ``BaseRelation`` with the rows of a DataFrame."""
    try:
        defined_class(gateway.spark, _NAME)
    except (Py4JError, TypeError) as error:
        message = (
            "This Spark cannot be given Java classes, so spark.sql cannot read tables of Tidelake:"
            " read them with tl.table() or tl.sql()."
        )
        raise UnsupportedError(message, kind="spark_version") from error
    rows = frame._jdf.queryExecution().toRdd()
    context = frame.sparkSession._jsparkSession.sqlContext()
    return gateway.java(f"{PACKAGE}.{_NAME}")(context, schema, rows, shown)
