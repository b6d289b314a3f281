"""Tables as sources of a Spark query: with a moment, options, changes or a window.

Each becomes a :class:`TableSource`: its columns, and a function from the columns and the filter of
a query to a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.engine.scan import ScanRequest, hidden_columns
from tidelake.engine.streams import planned_changes
from tidelake.engine.tables import AUDIT_LOG, Catalog, SystemTable, Table
from tidelake.errors import InvalidInputError
from tidelake.kafka.rows import KIND
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.windows import WINDOW_COLUMNS, windowed
from tidelake.spark.read.changes_frame import changes_frame
from tidelake.spark.read.table_frame import in_session, table_frame
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.spark.streams.kafka.slices_frame import batch_frame
from tidelake.sql.execution.session import ForeignTable, SqlSession
from tidelake.sql.execution.time_travel_clause import time_travel_arguments
from tidelake.sql.query.lookup import event_time_column
from tidelake.sql.query.query import TableReference
from tidelake.types import DataField

INCREMENTAL = declared.INCREMENTAL_BETWEEN.key
INCREMENTAL_TIMES = declared.INCREMENTAL_BETWEEN_TIMESTAMP.key
INCREMENTAL_MODE = declared.INCREMENTAL_BETWEEN_SCAN_MODE.key
ROW_KIND = "rowkind"


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A table of ``FOR SYSTEM_TIME AS OF PROCTIME()``.

    Parameters
    ----------
    at_each_batch : bool
        Whether it stands in a query over streams.
    catalog : Catalog, optional
        Where its query service finds it; None for a table of a path.
    """

    table: Table
    at_each_batch: bool
    catalog: Catalog | None


@dataclass(frozen=True, slots=True)
class TableSource:
    """The table that a reference of a query names.

    Parameters
    ----------
    fields : tuple of DataField
        Columns of a table into which a filter may be pushed.
    frame : callable
        From the columns wanted and the filter to the DataFrame.
    table : Table, optional
        The table whose rows these are, unchanged: for ``count(*)``.
    hidden : tuple of str
        Columns that a query gets only by name.
    keys : tuple of str
        The primary key of a stream whose changes have no old rows.
    """

    columns: tuple[str, ...]
    fields: tuple[DataField, ...]
    frame: Callable[[list[str], object], DataFrame]
    table: Table | None = None
    moment: Mapping[str, Any] | None = None
    hidden: tuple[str, ...] = ()
    looked_up: LookedUp | None = None
    keys: tuple[str, ...] = ()


class TableSources:
    """The tables of one session as sources of queries."""

    def __init__(self, spark: SparkSession, session: SqlSession) -> None:
        self.spark = spark
        self.session = session

    def of_table(
        self, reference: TableReference, found: Table, *, conf: Mapping[str, str] | None = None
    ) -> TableSource:
        """The rows of a table, or what changed between two moments.

        `conf` are the settings of Spark's session, where the caller has asked for them.
        """
        name = str(reference.name)
        options: dict[str, object] = dict(reference.clause.options)
        function = reference.function
        between = self._incremental(options, name)
        if function is not None and function.incremental is not None:
            given = function.incremental
            between = (given.start, given.end)
            if given.times:
                between = (self.session.time(given.start), self.session.time(given.end))
        if between is not None:
            return self._changes_source(found, between, options, name)
        moment = time_travel_arguments(reference.clause, found, self.session)
        table = self._timed(found, options, conf)
        fields = ScanRequest(**moment).fields(table.handle)

        def frame(columns: list[str], row_filter: object) -> DataFrame:
            # a window adds its columns to those of the table
            own = [c for c in columns if c not in WINDOW_COLUMNS or c in names]
            # the query has the WHERE that the filter came from
            read = table_frame(
                self.spark,
                table,
                name,
                columns=own,
                where=row_filter,
                moment=moment,
                exact=False,
            )
            return in_windows(read, reference, name)

        names = tuple(f.name for f in fields)
        plain = function is None
        hidden = hidden_columns(names, table.handle.schema.options) if plain else ()
        looked_up = None
        if reference.clause.lookup:
            looked_up = LookedUp(
                table, at_each_batch=False, catalog=catalog_of(self.session, reference)
            )
        return TableSource(
            names, fields, frame, table if plain else None, moment, hidden, looked_up
        )

    def of_kafka(self, reference: TableReference, found: ForeignTable) -> TableSource:
        """The messages of a topic, from its start mode to what is there."""
        table = kafka_table(found.definition, reference.clause.options)
        hidden = (KIND,) if table.has_changes else ()
        return TableSource(
            tuple(f.name for f in table.fields),
            (),
            lambda columns, _: batch_frame(self.spark, self.session.catalog, table, columns),
            hidden=hidden,
        )

    def _changes_source(
        self, found: Table, between: tuple[Any, Any], options: dict[str, object], name: str
    ) -> TableSource:
        """The changes that leave a row: a batch shows no deletes."""
        mode: Any = options.pop(INCREMENTAL_MODE, "auto")
        table = in_session(self.spark, found, options)
        fields = table.table_schema.fields

        def frame(columns: list[str], row_filter: object) -> DataFrame:
            changes = planned_changes(
                table.handle, *between, columns=columns, where=row_filter, mode=mode
            )
            rows = changes_frame(self.spark, changes, table=name)
            kept = rows.where(F.col("_row_kind").isin("+I", "+U"))
            return selected(kept, columns)

        return TableSource(tuple(f.name for f in fields), fields, frame)

    def _audit_source(
        self, found: Table, between: tuple[Any, Any], options: dict[str, object], name: str
    ) -> TableSource:
        """All changes with their kinds, as the audit log between two moments shows them."""
        mode: Any = options.pop(INCREMENTAL_MODE, "auto")
        table = in_session(self.spark, found, options)
        names = [f.name for f in table.table_schema.fields]

        def frame(columns: list[str], _: object) -> DataFrame:
            own = [c for c in columns if c != ROW_KIND] or names[:1]
            changes = planned_changes(table.handle, *between, columns=own, where=None, mode=mode)
            rows = changes_frame(self.spark, changes, table=name)
            return selected(rows.withColumnRenamed("_row_kind", ROW_KIND), columns)

        return TableSource((ROW_KIND, *names), (), frame)

    def of_system_table(
        self, reference: TableReference, found: SystemTable, table: Table | None
    ) -> TableSource:
        """The rows of a system table or a view."""
        name = str(reference.name)
        if table is not None:
            system = reference.name.parts[-1].rpartition("$")[2]
            options: dict[str, object] = dict(reference.clause.options)
            between = self._incremental(options, name) if system == AUDIT_LOG else None
            if between is not None:
                return self._audit_source(table, between, options, name)
            self._timed(table, options)
            found = table.with_options(options).system_table(system)
        moment = time_travel_arguments(reference.clause, found, self.session)
        return TableSource(
            tuple(found.schema.names),
            (),
            lambda columns, _: table_frame(self.spark, found, name, columns=columns, moment=moment),
        )

    def _timed(
        self, found: Table, options: dict[str, object], conf: Mapping[str, str] | None = None
    ) -> Table:
        """The table with the options of one use."""
        return in_session(self.spark, found, options, conf=conf)

    def _incremental(self, options: dict[str, object], name: str) -> tuple[Any, Any] | None:
        """Take the two moments of ``incremental-between`` out of a table's options."""
        ends = _two_ends(options, INCREMENTAL, "snapshots or tags: '3,7'", name)
        times = _two_ends(options, INCREMENTAL_TIMES, "times: '2026-11-21,2026-11-22'", name)
        if ends is not None and times is not None:
            message = f"Say '{INCREMENTAL}' or '{INCREMENTAL_TIMES}' of table '{name}', not both."
            raise InvalidInputError(message, kind="two_moments", table=name)
        if times is not None:
            return (self.session.time(times[0]), self.session.time(times[1]))
        if ends is None:
            return None
        return tuple(int(e) if e.isdecimal() else e for e in ends)  # type: ignore[return-value]


def catalog_of(session: SqlSession, reference: TableReference) -> Catalog | None:
    """The catalog of a table; None for a temporary table of a path."""
    if session.find_temporary(reference.name) is not None:
        return None
    return session.catalog_named(session.resolve(reference.name).catalog_name)


def in_windows(frame: DataFrame, reference: TableReference, name: str) -> DataFrame:
    """Rows with their windows, where a query names the table in a window function."""
    function = reference.function
    if function is None or function.window is None:
        return frame
    return windowed(frame, function.window, table=name, event_time=event_time_column(reference))


def selected(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Columns of a DataFrame, by names of any characters."""
    return frame.select(*(quoted(c) for c in columns))


def _two_ends(options: dict[str, object], key: str, what: str, name: str) -> tuple[str, str] | None:
    """Take an option that holds two ends out of a table's options."""
    between = options.pop(key, None)
    if between is None:
        return None
    first, comma, last = str(between).partition(",")
    if not comma or not first.strip() or not last.strip():
        message = f"'{key}' = '{between}' of table '{name}' must be two {what}."
        raise InvalidInputError(message, kind="option_value", table=name, option=key)
    return (first.strip(), last.strip())
