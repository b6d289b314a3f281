"""The read side of a table: what Spark's optimiser pushes down, the plan, the rows.

1. Spark gives the columns it needs, its filters, and a ``LIMIT``.
2. ``build`` plans: snapshot, pruned files, splits. The plan gives the statistics.
3. The rows are the DataFrame of ``tl.table`` (:func:`tidelake.spark.read.scan_frame.frame_of`):
   Spark's own Parquet scan for files without a merge, ``mapInArrow`` for the others. They continue
   into the query's plan inside the JVM (:mod:`tidelake.spark.catalog.frame_relation`).
4. Metadata answers ``SELECT count(*)`` if no file must be merged.

Every scan has a column: a batch without columns would lose its number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.errors import UnsupportedError
from tidelake.scan import check_located, metadata_fields
from tidelake.spark.catalog.frame_relation import frame_relation
from tidelake.spark.catalog.gateway import CONNECTOR, Gateway, JavaObject, Proxy, struct_of
from tidelake.spark.catalog.java_filter import from_java_filters
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.scan_frame import frame_of
from tidelake.table import Table
from tidelake.table.read.table_scan import TableScan
from tidelake.types import DataField, TypeRoot
from tidelake.types.predicate import Predicate

__all__ = ["LakeScanBuilder", "NoBatch", "Rows", "RowsScanBuilder"]

READ = f"{CONNECTOR}.read"
COUNT_COLUMN = "count"
_NARROW = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.SMALLINT, TypeRoot.TINYINT)


class Rows(Protocol):
    """Makes the rows of a scan on demand."""

    def __call__(self) -> DataFrame:
        """The rows."""
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


class FrameScan(NoBatch, implements=(f"{READ}.V1Scan", f"{READ}.SupportsReportStatistics")):
    """A scan whose rows are those of a DataFrame.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    rows : callable
        Gives the DataFrame.
    schema : StructType
        Its columns.
    shown : str
        The text in EXPLAIN.
    row_count, size_bytes : int, optional
        Statistics.
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
        super().__init__(gateway)
        self._rows: Rows | None = rows
        self._shown = shown
        self._row_count = row_count
        self._size_bytes = size_bytes
        self._schema = gateway.schema(schema)
        self._relation: JavaObject | None = None

    def readSchema(self) -> JavaObject:
        """The columns."""
        return self._schema

    def description(self) -> str:
        """The text in EXPLAIN."""
        return self._shown

    def estimateStatistics(self) -> JavaObject:
        """Rows and bytes of the plan."""
        return _Statistics(self.gateway, self._row_count, self._size_bytes)

    def estimateSizeInBytes(self) -> JavaObject:
        """Bytes of the plan."""
        return self.gateway.optional_long(self._size_bytes)

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Spark applies its filters again, and estimates what they leave."""
        return False

    def toV1TableScan(self, _context: JavaObject) -> JavaObject:
        """The rows; adaptive execution asks several times and gets the same."""
        rows = self._rows
        if rows is not None:
            self._relation = frame_relation(self.gateway, rows(), self._schema, self._shown)
            self._rows = None  # the JVM frees this scan late, and its plan may be large
        return self._relation


class _CountScan(NoBatch, implements=(f"{READ}.LocalScan",)):
    """The answer of ``count(*)``."""

    def __init__(self, gateway: Gateway, count: int, shown: str) -> None:
        super().__init__(gateway)
        self._count = count
        self._shown = shown
        self._struct = st.StructType([st.StructField(COUNT_COLUMN, st.LongType(), nullable=False)])

    def readSchema(self) -> JavaObject:
        """One number."""
        return self.gateway.schema(self._struct)

    def description(self) -> str:
        """The text in EXPLAIN."""
        return self._shown

    def rows(self) -> JavaObject:
        """One row, without a job."""
        frame = self.gateway.spark.sql(f"VALUES ({self._count}L)")
        return frame._jdf.queryExecution().executedPlan().executeCollect()


class RowsScanBuilder(Proxy, implements=(f"{READ}.SupportsPushDownRequiredColumns",)):
    """Plans a read of a system table.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    rows : callable
        Maps the wanted columns to the DataFrame.
    schema : StructType
        All columns.
    name : str
        Its name in EXPLAIN.
    """

    def __init__(
        self,
        gateway: Gateway,
        rows: Callable[[Sequence[str]], DataFrame],
        schema: st.StructType,
        name: str,
    ) -> None:
        super().__init__(gateway)
        self._rows = rows
        self._schema = schema
        self._name = name
        self._columns = tuple(schema.names)

    def pruneColumns(self, schema: JavaObject) -> None:
        """Take the columns wanted."""
        self._columns = tuple(struct_of(schema).names) or self._columns[:1]

    def build(self) -> JavaObject:
        """The scan."""
        schema = st.StructType([self._schema[name] for name in self._columns])
        return FrameScan(
            self.gateway, lambda: self._rows(self._columns), schema, f"tidelake {self._name}"
        )


class LakeScanBuilder(
    Proxy,
    implements=(
        f"{READ}.SupportsPushDownRequiredColumns",
        f"{READ}.SupportsPushDownFilters",
        f"{READ}.SupportsPushDownLimit",
        f"{READ}.SupportsPushDownAggregates",
    ),
):
    """Plans a read of a table.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    table : Table
        With the options of this use.
    fields : sequence of DataField
        The columns at the moment that is read.
    moment : dict
        Of :meth:`tidelake.table.Table.scan`.
    name : str
        Its name in EXPLAIN.
    """

    def __init__(
        self,
        gateway: Gateway,
        table: Table,
        fields: Sequence[DataField],
        moment: dict[str, object],
        name: str,
    ) -> None:
        super().__init__(gateway)
        self._table = table
        self._fields = tuple(fields)
        self._moment = moment
        self._name = name
        self._columns = tuple(f.name for f in fields)
        self._filters: tuple[JavaObject, ...] = ()
        self._predicate: Predicate | None = None
        self._limit: int | None = None
        self._count: int | None = None

    def pruneColumns(self, schema: JavaObject) -> None:
        """Take the wanted columns; if there are none, the cheapest is read to count the rows."""
        self._columns = tuple(struct_of(schema).names) or (_cheapest(self._fields),)

    def pushFilters(self, filters: JavaObject) -> JavaObject:
        """Take filters to read less; returns all of them, so that Spark applies them too."""
        self._filters = tuple(filters)
        self._predicate = from_java_filters(self._filters, self._fields)
        return filters

    def pushedFilters(self) -> JavaObject:
        """For EXPLAIN."""
        return self.gateway.array("org.apache.spark.sql.sources.Filter", self._filters)

    def pushLimit(self, limit: int) -> bool:
        """Take a limit: files beyond it are not read."""
        if self._filters:
            return False
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        """Spark cuts to the limit itself."""
        return True

    def supportCompletePushDown(self, aggregation: JavaObject) -> bool:
        """Whether metadata gives the complete answer."""
        return self._counted(aggregation) is not None

    def pushAggregation(self, aggregation: JavaObject) -> bool:
        """Take ``count(*)`` if metadata gives it."""
        self._count = self._counted(aggregation)
        return self._count is not None

    def _counted(self, aggregation: JavaObject) -> int | None:
        if self._filters or len(aggregation.groupByExpressions()) > 0:
            return None
        kinds = [one.getClass().getSimpleName() for one in aggregation.aggregateExpressions()]
        if kinds != ["CountStar"]:
            return None
        return _known_count(self._scan())

    def _scan(self) -> TableScan:
        moment: dict[str, object] = dict(self._moment)
        own = {f.name for f in self._fields}
        return self._table.scan(
            columns=[c for c in self._columns if c in own],
            filter=self._predicate,
            limit=self._limit,
            **moment,  # type: ignore[arg-type]
        )

    def build(self) -> JavaObject:
        """The plan."""
        shown = f"tidelake {self._name}"
        if self._count is not None:
            return _CountScan(self.gateway, self._count, f"{shown}, counted by metadata")
        scan = self._scan()
        plan = scan.plan
        shown += f", snapshot {plan.snapshot_id}, {plan.files_read} files"
        columns, spark = self._columns, self.gateway.spark
        metadata = metadata_fields(scan.context.schema)
        wanted = [metadata.get(c) or scan.context.schema.field(c) for c in columns]
        all_fields = spark_schema(self._fields, table=self._name)
        schema = spark_schema(wanted, table=self._name)
        if not metadata.keys().isdisjoint(columns):
            check_located(plan.splits, columns, table=self._name)

        def rows() -> DataFrame:
            return frame_of(spark, scan, table=self._name, columns=columns)

        return FrameScan(
            self.gateway,
            rows,
            schema,
            shown,
            row_count=sum(split.row_count for split in plan.splits),
            size_bytes=_share(plan.bytes_read, schema, all_fields),
        )


def _known_count(scan: TableScan) -> int | None:
    """The number of rows, if metadata alone gives it."""
    splits = scan.plan.splits
    if not scan.plan.raw_rows_exact:
        return None
    counts = [split.live_row_count if split.raw else None for split in splits]
    return None if None in counts else sum(c for c in counts if c is not None)


def _share(size_bytes: int, wanted: st.StructType, fields: st.StructType) -> int:
    """The columns' share of the whole files' size, by Spark's widths of their types."""
    return size_bytes * _width(wanted) // max(1, _width(fields))


_WIDTHS: dict[type[st.DataType], int] = {
    st.BooleanType: 1,
    st.ByteType: 1,
    st.ShortType: 2,
    st.IntegerType: 4,
    st.FloatType: 4,
    st.DateType: 4,
    st.StringType: 20,
    st.BinaryType: 100,
    st.DecimalType: 16,
}
ROW_OVERHEAD_BYTES = 8


def _width(schema: st.StructType) -> int:
    return ROW_OVERHEAD_BYTES + sum(_WIDTHS.get(type(f.dataType), 8) for f in schema.fields)


def _cheapest(fields: Sequence[DataField]) -> str:
    """The column to read if none is wanted: it counts the rows."""
    for root in _NARROW:
        for field in fields:
            if field.type.root is root:
                return field.name
    return fields[0].name
