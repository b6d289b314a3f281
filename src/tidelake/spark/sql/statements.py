"""Runs statements on a Spark session.

A statement without a query runs on the catalog (:mod:`tidelake.sql.execution.execute`). A query
becomes a DataFrame (:mod:`tidelake.spark.sql.queries`), and writes take its rows
(:mod:`tidelake.spark.sql.writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.engine.tables import Catalog, Table
from tidelake.errors import InvalidInputError, TidelakeError, counted
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.catalog.named_catalog import register
from tidelake.spark.catalog.registration import is_put
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.errors.conditions import translate_conditions
from tidelake.spark.expression.types import fields_from_spark
from tidelake.spark.sessions.cancellation import interruptible
from tidelake.spark.sessions.paimon_settings import check_paimon_setting
from tidelake.spark.sessions.time_zone import session_zone
from tidelake.spark.sql.expressions import StatementExpressions
from tidelake.spark.sql.merge_builder import MergeBuilder
from tidelake.spark.sql.queries import Args, StatementQueries
from tidelake.spark.sql.stream_sources import kinds_first, row_columns, with_names
from tidelake.spark.sql.streams import StatementStreams
from tidelake.spark.sql.writes import StatementWrites
from tidelake.spark.streams.jobs import JobRegistry
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.sql.execution.error_position import positioned_errors
from tidelake.sql.execution.execute import execute, is_known_setting
from tidelake.sql.execution.max_pt import replace_max_pt_in_text
from tidelake.sql.execution.session import SqlSession, is_foreign
from tidelake.sql.parser.identifier_clause import with_plain_names
from tidelake.sql.parser.parse import parse, statement_text
from tidelake.sql.syntax.ast import (
    CreateTable,
    CreateView,
    Delete,
    Insert,
    Merge,
    Query,
    SetProperty,
    ShowJobs,
    Statement,
    StatementSet,
    StopJob,
    Update,
    WithQueries,
)
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.parameters import bind_parameters


class Statements:
    """The statements of one session.

    Parameters
    ----------
    session : SqlSession
        Catalogs, temporary tables and views; its time zone is Spark's.
    jobs : JobRegistry, optional
        Keeps the jobs that statements start; one of its own by default.
    """

    def __init__(
        self, spark: SparkSession, session: SqlSession, jobs: JobRegistry | None = None
    ) -> None:
        self.spark = spark
        self.session = session
        self.queries = StatementQueries(spark, session)
        self.writes = StatementWrites(spark, session, self.queries)
        self.jobs = jobs or JobRegistry(spark, session.catalog.env.clock)
        self.streams = StatementStreams(spark, session, self.writes, self.jobs)

    @classmethod
    def on(
        cls,
        spark: SparkSession,
        catalog: Catalog,
        *,
        catalog_name: str,
        runner_of: Callable[[Catalog], ProcedureRunner],
        jobs: JobRegistry,
    ) -> Statements:
        """Make the statements of a new session.

        Parameters
        ----------
        catalog : Catalog
            The first catalog.
        runner_of : callable
            Returns what compacts a catalog's tables on the executors.
        """
        session = SqlSession(
            catalog,
            name=catalog_name,
            runner_of=runner_of,
            time_zone=lambda: session_zone(spark),
        )
        return cls(spark, session, jobs)

    def run(self, text: str, args: Args = None) -> DataFrame:
        """Run all statements of a text; see :meth:`tidelake.spark.Lake.sql`."""
        text, args = with_plain_names(text, args)
        statements = parse(text)
        if args and len(statements) > 1:
            message = "args= need one statement: run several one by one."
            raise InvalidInputError(message, kind="sql_args")
        answer: DataFrame | None = None
        for statement in statements:
            answer = self.answer(statement, text, args)
        return self._nothing() if answer is None else answer

    def answer(self, statement: Statement, text: str, args: Args = None) -> DataFrame:
        """Run one statement of a text; errors show the position in the text."""
        if isinstance(statement, Delete | Merge | Update | WithQueries):
            # Spark gets their expressions one by one, not as a query with parameters
            own = statement_text(text, statement)
            given = replace_max_pt_in_text(
                bind_parameters(own, args) if args else own, self.session
            )
            if given != own:
                (statement,), text, args = parse(given), given, None
        with positioned_errors(text, statement), translate_conditions():
            if isinstance(statement, Query | SetProperty):
                return self._run(statement, args, text)
            return interruptible(self.spark, lambda: self._run(statement, args, text))

    def merge(
        self,
        table: Table,
        source: DataFrame,
        on: str | Column | Sequence[str],
        *,
        alias: str,
        source_alias: str,
    ) -> MergeBuilder:
        """Begin a merge; see :meth:`tidelake.spark.Lake.merge`."""

        def expressions() -> StatementExpressions:
            return StatementExpressions(
                self.spark, self.queries.subqueries, self.session.catalog.env.ids
            )

        return MergeBuilder(self.spark, table, source, on, alias, source_alias, expressions)

    def _run(self, statement: Statement, args: Args, text: str) -> DataFrame:
        if isinstance(statement, Query):
            return kinds_first(self.queries.frame(statement, args))
        if isinstance(statement, Insert | StatementSet):
            started = self.streams.insert(statement, args)
            return self._nothing() if started is None else started
        if isinstance(statement, ShowJobs):
            return self.streams.show()
        if isinstance(statement, StopJob):
            self.streams.stop(statement.job)
            return self._nothing()
        if isinstance(statement, WithQueries):
            return self._with(statement, args, text)
        if isinstance(statement, Delete | Merge | Update):
            self.streams.check_mode(statement)
            if isinstance(statement, Delete):
                self.writes.delete(statement, text)
            elif isinstance(statement, Update):
                self.writes.update(statement, text)
            else:
                self.writes.merge(statement, text)
            return self._nothing()
        if isinstance(statement, CreateTable) and statement.query is not None:
            with translate_analysis_errors(statement.query):
                self.writes.create_as(statement, statement.query, args)
            return self._nothing()
        if isinstance(statement, CreateTable) and is_foreign(statement):
            kafka_table(statement)  # refuses what is wrong now, and not when it is read
        if isinstance(statement, CreateView) and statement.kept_as is not None:
            self._keep_view(statement, statement.kept_as)
            return self._nothing()
        if isinstance(statement, CreateView):
            self._check_view(statement)
        if isinstance(statement, SetProperty) and not is_known_setting(statement):
            return self._set(statement)
        return self._frame_of(self._executed(statement))

    def _with(self, statement: WithQueries, args: Args, text: str) -> DataFrame:
        """Run a statement with WITH; each query sees those before it."""
        with self.queries.with_scope() as name:
            for query in statement.queries:
                self._check_columns(query.name, query.columns, self.queries.frame(query.query))
                name(query)
            return self._run(statement.statement, args, text)

    def _nothing(self) -> DataFrame:
        return self.spark.createDataFrame([], st.StructType([]))

    def _frame_of(self, answer: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(answer) if answer.num_columns else self._nothing()

    def _set(self, statement: SetProperty) -> DataFrame:
        """SET and RESET of Spark's own settings, and of ``spark.tidelake.<option>``."""
        key, value = statement.key, statement.value
        if key is None:
            if statement.is_reset:
                execute(statement, self.session)
                return self._nothing()
            return self.spark.sql("SET")
        if statement.is_reset:
            self.spark.conf.unset(key)
            return self._nothing()
        if value is not None:
            check_paimon_setting(key)
            with translate_analysis_errors(Query(key, 0, len(key))):
                self.spark.conf.set(key, value)
        shown = self.spark.conf.get(key, "<undefined>") if value is None else value
        return self.spark.createDataFrame([(key, shown)], "key string, value string")

    def _executed(self, statement: Statement) -> pa.Table:
        """Run a statement on the catalogs; those that it adds are known to ``spark.sql``."""
        catalogs = self.session.catalogs
        known = set(catalogs)
        answer = execute(statement, self.session)
        for name in catalogs.keys() - known:
            try:
                self._register(name, catalogs[name])
            except TidelakeError:
                del catalogs[name]
                raise
        return answer

    def _register(self, name: str, catalog: Catalog) -> None:
        """Make a catalog known to plain ``spark.sql``, if that knows the one of ``attach``."""
        if is_put(self.spark, next(iter(self.session.catalogs))):
            runner_of = self.session.runner_of
            register(self.spark, catalog, name=name, runner_of=lambda _, of: runner_of(of))

    def _keep_view(self, statement: CreateView, name: TableName) -> None:
        """Run the query for its columns, and let the catalog keep the view."""
        resolved = self.session.resolve(name)
        catalog = self.session.catalog_named(resolved.catalog_name)
        session = self.session.in_database(resolved.catalog_name, resolved.database)
        frame = StatementQueries(self.spark, session).frame(statement.query)
        self._check_columns(statement.name, statement.columns, frame)
        if statement.columns:
            frame = with_names(frame, statement.columns)
        catalog.create_view(
            resolved.identifier,
            statement.query.sql.strip(),
            fields_from_spark(frame.schema, table=resolved.identifier),
            comment=statement.comment,
            if_exists=statement.if_exists,
        )

    def _check_view(self, statement: CreateView) -> None:
        frame = self.queries.frame(statement.query)
        self._check_columns(statement.name, statement.columns, frame)

    def _check_columns(self, name: str, columns: Sequence[str], frame: DataFrame) -> None:
        given = row_columns(frame)
        if columns and len(columns) != len(given):
            listed = counted(len(columns), "column")
            message = f"View '{name}' lists {listed}, but its query has {len(given)}."
            raise InvalidInputError(message, kind="column_count", name=name)
