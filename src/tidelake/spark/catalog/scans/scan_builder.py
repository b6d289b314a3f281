"""The read side of a table: what Spark's optimiser pushes down, the plan, the rows.

1. Spark gives the columns it needs, its filters, and a ``LIMIT``.
2. ``build`` plans: snapshot, pruned files, splits. The plan gives the statistics.
3. The rows are the DataFrame of ``tl.table`` (:func:`tidelake.spark.read.scan_frame.frame_of`):
   Spark's own Parquet scan for files without a merge, ``mapInArrow`` for the others. They continue
   into the query's plan (:mod:`tidelake.spark.catalog.scans.frame_scan`).
4. Metadata answers ``count``, ``min`` and ``max`` where it has them exactly
   (:mod:`tidelake.spark.catalog.scans.aggregate`).

Every scan has a column: a batch without columns would lose its number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidelake.engine.scan import TableScan, check_located, metadata_fields
from tidelake.engine.tables import Table
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, Proxy, struct_of
from tidelake.spark.catalog.scans.aggregate import Aggregates, asked_aggregates
from tidelake.spark.catalog.scans.frame_scan import READ, AnswerScan, FrameScan
from tidelake.spark.expression.java_filter import from_java_filters
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.plan_size import row_width
from tidelake.spark.read.scan_frame import frame_of
from tidelake.types import DataField, TypeRoot
from tidelake.types.predicate import Predicate

FILTER = "org.apache.spark.sql.sources.Filter"
_NARROW = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.SMALLINT, TypeRoot.TINYINT)
_EXACT_PARTITIONS = frozenset({*_NARROW, TypeRoot.BOOLEAN, TypeRoot.VARCHAR, TypeRoot.DECIMAL})
"""Types of partition columns whose filters Spark need not apply again."""


class RowsScanBuilder(Proxy, implements=(f"{READ}.SupportsPushDownRequiredColumns",)):
    """Plans a read of a system table.

    Parameters
    ----------
    rows : callable
        Maps the wanted columns to the DataFrame.
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

        def rows(*, exact: bool) -> DataFrame:  # noqa: ARG001  # no filter is taken
            return self._rows(self._columns)

        return FrameScan(self.gateway, rows, schema, f"tidelake {self._name}")


class LakeScanBuilder(
    Proxy,
    implements=(
        f"{READ}.SupportsPushDownRequiredColumns",
        f"{READ}.SupportsPushDownFilters",
        f"{READ}.SupportsPushDownLimit",
        f"{READ}.SupportsPushDownAggregates",
    ),
):
    """Plans a read of a table."""

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
        self._filters: JavaObject | None = None
        self._predicate: Predicate | None = None
        self._limit: int | None = None
        self._is_filtered = False
        self._answer: tuple[pa.Table, Aggregates, TableScan] | None = None
        self._asked: tuple[Aggregates, pa.Table | None, TableScan] | None = None

    def pruneColumns(self, schema: JavaObject) -> None:
        """Take the wanted columns; if there are none, the cheapest is read to count the rows."""
        self._columns = tuple(struct_of(schema).names) or (_cheapest(self._fields),)

    def pushFilters(self, filters: JavaObject) -> JavaObject:
        """Take filters to read less; returns those that Spark must apply too.

        Filters on partition columns alone choose whole partitions, so nothing is left of them.
        """
        self._filters = filters
        given = tuple(filters)
        self._predicate = from_java_filters(given, self._fields)
        keys = self._table.partition_keys
        exact = [f for f in self._fields if f.name in keys and f.type.root in _EXACT_PARTITIONS]
        # each value of a new array is a call to the JVM, and so is each question to a filter
        left = given
        if exact:
            left = tuple(one for one in given if from_java_filters([one], exact) is None)
        self._is_filtered = bool(left)
        return filters if len(left) == len(given) else self.gateway.array(FILTER, left)

    def pushedFilters(self) -> JavaObject:
        """For EXPLAIN."""
        return self.gateway.array(FILTER, ()) if self._filters is None else self._filters

    def pushLimit(self, limit: int) -> bool:
        """Take a limit: files beyond it are not read."""
        if self._is_filtered:
            return False
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        """Spark cuts to the limit itself."""
        return True

    def supportCompletePushDown(self, aggregation: JavaObject) -> bool:
        """Whether metadata gives the complete answer."""
        return self.pushAggregation(aggregation)

    def pushAggregation(self, aggregation: JavaObject) -> bool:
        """Take aggregates if metadata gives them."""
        types = {f.name: f.type for f in self._fields}
        asked = None
        if not self._is_filtered:
            asked = asked_aggregates(aggregation, types, self._table.partition_keys)
        self._answer = None
        if asked is None:
            return False
        if self._asked is None or self._asked[0] != asked:  # Spark asks twice
            scan = self._scan()
            self._asked = asked, asked.answer(scan), scan
        _, rows, scan = self._asked
        if rows is not None:
            self._answer = rows, asked, scan
        return rows is not None

    def _scan(self) -> TableScan:
        moment: dict[str, object] = dict(self._moment)
        own = {f.name for f in self._fields}
        return self._table.scan(
            columns=[c for c in self._columns if c in own],
            where=self._predicate,
            limit=self._limit,
            **moment,  # type: ignore[arg-type]
        )

    def build(self) -> JavaObject:
        """The plan."""
        shown = f"tidelake {self._name}"
        if self._answer is not None:
            rows, asked, scan = self._answer
            schema = spark_schema(asked.fields(scan.context), table=self._name)
            shown = f"{shown}, snapshot {scan.plan.snapshot_id}, answered by metadata"
            return AnswerScan(self.gateway, rows, schema, shown)
        scan = self._scan()
        plans = [part.plan for part in scan.parts]
        shown += "".join(f", snapshot {p.snapshot_id}, {p.files_read} files" for p in plans)
        columns, spark = self._columns, self.gateway.spark
        metadata = metadata_fields(scan.context.schema)
        wanted = [metadata.get(c) or scan.context.schema.field(c) for c in columns]
        all_fields = spark_schema(self._fields, table=self._name)
        schema = spark_schema(wanted, table=self._name)
        if not metadata.keys().isdisjoint(columns):
            for plan in plans:
                check_located(plan.splits, columns, table=self._name)

        def rows_of(*, exact: bool) -> DataFrame:
            return frame_of(spark, scan, table=self._name, columns=columns, exact=exact)

        return FrameScan(
            self.gateway,
            rows_of,
            schema,
            shown,
            row_count=sum(split.row_count for plan in plans for split in plan.splits),
            size_bytes=_share(sum(plan.bytes_read for plan in plans), schema, all_fields),
        )


def _share(size_bytes: int, wanted: st.StructType, fields: st.StructType) -> int:
    """The columns' share of the whole files' size, by Spark's widths of their types."""
    widths = [row_width(field.dataType for field in struct) for struct in (wanted, fields)]
    return size_bytes * widths[0] // widths[1]


def _cheapest(fields: Sequence[DataField]) -> str:
    """The column to read if none is wanted: it counts the rows."""
    for root in _NARROW:
        for field in fields:
            if field.type.root is root:
                return field.name
    return fields[0].name
