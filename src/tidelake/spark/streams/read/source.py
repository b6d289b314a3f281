"""A table as a source of Spark's micro-batches.

:mod:`tidelake.spark.streams.connector.source` implements Spark's interface. This module adds the
offsets of a table (:mod:`tidelake.spark.streams.read.cursor`) and the rows between two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.scan import KIND_FIELD
from tidelake.engine.streams import ChangeFilter, StreamOffset, StreamParts, UpdateFilter
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.filter import to_column
from tidelake.spark.expression.java_filter import from_java_filters, without_old_times
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.read.changes_frame import changes_frame, kinds_left
from tidelake.spark.read.native_changes import is_state, plain_units
from tidelake.spark.read.native_storage import native_storage
from tidelake.spark.read.shares import packed_splits, tasks_asked
from tidelake.spark.sessions.query_life import QueryLife
from tidelake.spark.streams.connector.relation import BatchRows
from tidelake.spark.streams.connector.source import MicroBatchSource
from tidelake.spark.streams.read.cursor import StreamCursor
from tidelake.spark.streams.read.file_rows import FileRows, may_read
from tidelake.spark.streams.read.hold import HoldName, SourceHold
from tidelake.spark.streams.read.request import Kinds, StreamRequest, delete_error, keeps_order
from tidelake.spark.streams.read.stream_end import StreamEnd
from tidelake.types import DataField, RowKind, TypeRoot
from tidelake.types.predicate import Predicate, bind

_FILTER = "org.apache.spark.sql.sources.Filter"
_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIMESTAMP_LTZ})


def stream_schema(request: StreamRequest) -> st.StructType:
    """The columns of a stream's frame."""
    plan = request.plan
    own = spark_schema(plan.fields, table=plan.table)
    kind = st.StructField(ROW_KIND_COLUMN, st.StringType())
    fields = [kind if name == ROW_KIND_COLUMN else own[name] for name in request.names]
    return st.StructType(fields)


class StreamSource(MicroBatchSource):
    """A table as the source of one query.

    Parameters
    ----------
    query_id : str, optional
        Id of the query, if known.
    """

    def __init__(
        self,
        gateway: Gateway,
        request: StreamRequest,
        *,
        query_id: str | None,
        folder: str | None,
    ) -> None:
        super().__init__(gateway, gateway.schema(stream_schema(request)), named="Tidelake")
        self._plan = request.plan
        name = HoldName.of(query_id, folder, otherwise=request.plan.handle.env.ids.uuid())
        life = QueryLife(
            gateway.spark, None
        )  # the query may belong to another session, which calls stop()
        self._own = StreamCursor(request.plan, SourceHold(request.plan, name, life.has_ended))
        self._kinds = request.kinds
        self._leaving = request.leaving
        self._files = FileRows(gateway)
        self._end = StreamEnd(gateway, query_id, self._own.number)

    def toString(self) -> str:
        """Return the text that Spark's progress shows."""
        return f"tidelake[{self._plan.table}]"

    def commit(self, offset: JavaObject) -> None:
        """Release the snapshots before an offset: Spark does not read them again."""
        self._own.done_before(str(offset.json()))

    def stop(self) -> None:
        """The query ends."""
        super().stop()
        self._end.close()

    def _cursor(self) -> StreamCursor:
        return self._own

    def _check(self, text: str) -> None:
        self._plan.offset(text)

    def _rest(self, at: str) -> None:
        """Handle a look without new rows; report the end of a stream that has ended."""
        if self._own.is_ended(at):
            self._end.reach()

    def _behind(self, at: str) -> Mapping[str, str]:
        lag = self._plan.lag(self._plan.offset(at))
        return {
            "snapshotsBehind": str(lag.snapshots),
            "rowsBehind": str(lag.rows),
            "bytesBehind": str(lag.bytes),
        }

    def _batch(self, start: str | None, end: str) -> tuple[BatchRows, str]:
        first, last = self._own.between(start, end)

        def rows(columns: Sequence[str], filters: JavaObject | None) -> DataFrame | JavaObject:
            return self._rows(first, last, columns, filters)

        return rows, f"tidelake {self._plan.table} {_shown(first)} to {_shown(last)}"

    def _rows(
        self,
        first: StreamOffset,
        last: StreamOffset,
        columns: Sequence[str],
        filters: JavaObject | None,
    ) -> DataFrame | JavaObject:
        """Plan the rows of a batch: the columns that Spark needs, perhaps more rows than needed."""
        plan = self._plan
        self._own.hold_from(first)
        wanted = [name for name in columns if name != ROW_KIND_COLUMN]
        wanted = wanted or [plan.fields[0].name]
        leaving = self._leaving
        predicate = self._predicate(filters) if leaving is None else None
        changes = plan.parts(
            first, last, columns=wanted, predicate=predicate, leaving=leaving
        ).once()
        parts = list(changes.parts())
        kinds_matter = self._kinds in {Kinds.UPSERTS, Kinds.CHECKED} and not all(
            map(is_state, parts)  # all rows of a state are +I
        )
        if not changes.span_buckets(parts):  # else rows are read by key
            plain = self._plain_rows(changes, columns or wanted, filters, kinds_matter=kinds_matter)
            if plain is not None:
                return plain
        frame = changes_frame(
            self.gateway.spark,
            changes,
            table=plan.table,
            ordered=keeps_order(plan.handle),
            with_kinds=kinds_matter or ROW_KIND_COLUMN in columns,
            exact=leaving is not None,
        )
        if kinds_matter:
            frame = frame.filter(self._is_kept(F.col(ROW_KIND_COLUMN), str))
        return frame.select(*(F.col(quoted(name)) for name in columns or wanted))

    def _plain_rows(
        self,
        changes: StreamParts,
        columns: Sequence[str],
        filters: JavaObject | None,
        *,
        kinds_matter: bool,
    ) -> JavaObject | None:
        """Give the rows of files that are only read, without a plan of Spark; None for others."""
        spark, handle = self.gateway.spark, self._plan.handle
        context, keyed = changes.rows.context, bool(handle.schema.primary_keys)
        leaving, names = self._leaving, changes.rows.columns
        if isinstance(leaving, UpdateFilter):  # needs the rows of a file in order
            return None
        has_kinds = kinds_matter or ROW_KIND_COLUMN in columns or leaving is not None
        if (has_kinds and not keyed) or tasks_asked(spark, handle.options) is not None:
            return None
        if leaving is not None:
            names = tuple(dict.fromkeys((*names, *leaving.columns)))
        fields = context.fields(names)
        units = plain_units(
            context,
            changes.parts(),
            fields,
            case_sensitive=spark.conf.get("spark.sql.caseSensitive", "false") == "true",
            ordered=keeps_order(handle),
            storage=native_storage(spark, context, chain.from_iterable(changes.parts())),
        )
        if not units or not may_read(units):
            return None
        wanted = None if leaving is None else to_column(leaving.predicate, fields)
        if leaving is not None and wanted is None:  # Spark has no such condition
            return None
        tasks = packed_splits(spark, context, units) if len(units) > 1 else [units]
        own = (*fields, KIND_FIELD) if has_kinds else fields
        schema = spark_schema(own, table=self._plan.table)
        rows = self._files.rows(schema, self._readers(filters), tasks)
        if not has_kinds:
            return rows
        make = partial(
            self._with_kinds,
            columns,
            leaving,
            fields=fields,
            kinds_matter=kinds_matter,
            wanted=wanted,
        )
        return self._files.through(rows, schema, make, key=(*columns, kinds_matter))

    def _with_kinds(
        self,
        columns: Sequence[str],
        leaving: ChangeFilter | None,
        frame: DataFrame,
        *,
        fields: Sequence[DataField],
        kinds_matter: bool,
        wanted: Column | None,
    ) -> DataFrame:
        """Select what is shown of rows that have their kinds as bytes."""
        if leaving is not None and wanted is not None:
            if leaving.of_keys is not None:
                frame = frame.filter(to_column(leaving.of_keys, fields))
            kinds = kinds_left(F.col(KIND_FIELD.name), wanted, int)
            frame = frame.withColumn(KIND_FIELD.name, kinds)
        if kinds_matter:
            frame = frame.filter(self._is_kept(F.col(KIND_FIELD.name), int))
        return frame.selectExpr(*map(_shown_as, columns))

    def _predicate(self, filters: JavaObject | None) -> Predicate | None:
        """Translate Spark's filters to prune files and rows; Spark applies them once more."""
        if filters is None:
            return None
        fields = self._plan.fields
        found = from_java_filters(list(filters), fields)
        return None if found is None else bind(found, fields)

    def _readers(self, filters: JavaObject | None) -> JavaObject | None:
        """The filters by which Spark's reader of Parquet may leave out row groups."""
        if filters is None or _TIMES.isdisjoint(f.type.root for f in self._plan.fields):
            return filters
        given = tuple(filters)
        left = without_old_times(given)
        return filters if len(left) == len(given) else self.gateway.array(_FILTER, left)

    def _is_kept(self, kind: Column, written: Callable[[RowKind], object]) -> Column:
        """Select the rows that a frame without kinds shows, by its column of kinds."""
        kept = kind.isin(written(RowKind.INSERT), written(RowKind.UPDATE_AFTER))
        if self._kinds is Kinds.UPSERTS:
            return kept
        fails = F.raise_error(F.lit(delete_error(self._plan.table))).cast("boolean")
        return F.when(kind == written(RowKind.DELETE), fails).otherwise(kept)


def _shown_as(column: str) -> str:
    """Write a column of a file with kinds in SQL."""
    if column != ROW_KIND_COLUMN:
        return quoted(column)
    names = " ".join(f"WHEN {int(kind)} THEN '{kind}'" for kind in RowKind)
    return f"CASE {KIND_FIELD.name} {names} END AS {quoted(ROW_KIND_COLUMN)}"


def _shown(offset: StreamOffset) -> str:
    return f"{offset.phase} {offset.snapshot}.{offset.index}"
