"""Tables as sources of a Spark query: with a moment, options, changes or a window.

Each becomes a :class:`TableSource`: its columns, and a function from the columns and the filter of
a query to a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.scan import ScanRequest, hidden_columns
from tidelake.engine.tables import AUDIT_LOG, Catalog, SystemTable, Table
from tidelake.kafka.rows import KIND
from tidelake.spark.expression.windows import WINDOW_COLUMNS, windowed
from tidelake.spark.read.changes_frame import ROW_KIND, ChangesBetween, two_moments
from tidelake.spark.read.table_frame import in_session, table_frame
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.spark.streams.kafka.slices_frame import batch_frame
from tidelake.sql.execution.session import ForeignTable, SqlSession
from tidelake.sql.execution.time_travel_clause import time_travel_arguments
from tidelake.sql.query.lookup import event_time_column
from tidelake.sql.query.query import TableReference
from tidelake.types import DataField


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
        between = two_moments(options, name, time=self.session.time)
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
        changes = ChangesBetween(self.spark, found, between, options, name)
        return TableSource(tuple(f.name for f in changes.fields), changes.fields, changes.rows)

    def _audit_source(
        self, found: Table, between: tuple[Any, Any], options: dict[str, object], name: str
    ) -> TableSource:
        """All changes with their kinds, as the audit log between two moments shows them."""
        changes = ChangesBetween(self.spark, found, between, options, name)
        names = tuple(f.name for f in changes.fields)
        return TableSource((ROW_KIND, *names), (), lambda columns, _: changes.audit_log(columns))

    def of_system_table(
        self, reference: TableReference, found: SystemTable, table: Table | None
    ) -> TableSource:
        """The rows of a system table or a view."""
        name = str(reference.name)
        if table is not None:
            system = reference.name.parts[-1].rpartition("$")[2]
            options: dict[str, object] = dict(reference.clause.options)
            between = None
            if system == AUDIT_LOG:
                between = two_moments(options, name, time=self.session.time)
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
