"""Runs statements on a Spark session.

A statement without a query is carried out on the catalog (:mod:`tidelake.sql.execute`). A query is
looked into (:mod:`tidelake.sql.query`); each of our tables in it becomes a DataFrame of the columns
that the query looks at and the rows that its filters leave; Spark runs the text with these
DataFrames where the tables stood. INSERT writes what the query gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.catalog import Catalog
from tidelake.errors import (
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from tidelake.maintenance.procedure import Runner
from tidelake.options import declared
from tidelake.spark.changes import changes_frame
from tidelake.spark.expression import quoted
from tidelake.spark.merge_builder import MergeBuilder
from tidelake.spark.paimon_settings import check_paimon_setting
from tidelake.spark.spark_errors import in_our_words
from tidelake.spark.statement_expressions import Reading, StatementExpressions
from tidelake.spark.statement_writes import Args, StatementWrites
from tidelake.spark.table_frame import in_session, table_frame
from tidelake.spark.windows import WINDOW_COLUMNS, windowed
from tidelake.sql.clause import Clause
from tidelake.sql.execute import execute, is_known_setting
from tidelake.sql.kernel_query import count_alone
from tidelake.sql.merge_terms import SOURCE_HEAD
from tidelake.sql.moment import TIME_ZONE, moment_of, named_zone
from tidelake.sql.name import TableName
from tidelake.sql.parse import parse
from tidelake.sql.placed import is_file_format, placed, unknown_table
from tidelake.sql.pushdown import pushed
from tidelake.sql.query import BEFORE, ParsedQuery, Reference, read_query
from tidelake.sql.session import ForeignTable, SqlSession, View
from tidelake.sql.statement import (
    CreateTable,
    CreateView,
    Delete,
    Insert,
    Merge,
    NamedQuery,
    Query,
    SetOption,
    Statement,
    Update,
    WithQueries,
)
from tidelake.sql.words import fault
from tidelake.table import SystemTable, Table
from tidelake.table.changes_range import planned_changes
from tidelake.table.row_view import AUDIT_LOG
from tidelake.table.time_travel import option_moment
from tidelake.types import DataField, TypeRoot

__all__ = ["Statements"]

INCREMENTAL = declared.INCREMENTAL_BETWEEN.key
INCREMENTAL_TIMES = declared.INCREMENTAL_BETWEEN_TIMESTAMP.key
INCREMENTAL_MODE = declared.INCREMENTAL_BETWEEN_SCAN_MODE.key
ROW_KIND = "rowkind"
_MARK = "\x00"
_NARROW = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.SMALLINT, TypeRoot.TINYINT)
VIEWS_DEEP_MAX = 32


@dataclass(frozen=True, slots=True)
class _Source:
    """What a reference of a query turned out to be.

    Parameters
    ----------
    columns : tuple of str
        All that it has.
    fields : tuple of DataField
        Of a table of ours, where a filter may be pushed.
    frame : callable
        From the columns wanted and the filter to the DataFrame.
    table : Table, optional
        Whose rows these are, as they are: what ``count(*)`` asks.
    """

    columns: tuple[str, ...]
    fields: tuple[DataField, ...]
    frame: Callable[[list[str], object], DataFrame]
    table: Table | None = None
    moment: Mapping[str, Any] | None = None


def _reads(
    parsed: ParsedQuery,
    sources: Mapping[Reference, _Source],
    names: frozenset[str] | None = None,
) -> dict[Reference, Reading]:
    """Reads of what a query looks at and its filters leave.

    With `names` nobody looks at other columns of a table whose rows are the query's own.
    """
    columns = {r: s.columns for r, s in sources.items()}

    def reading(reference: Reference, source: _Source) -> Reading:
        wanted = parsed.needed(reference, source.columns)
        if names is not None and _is_alone(parsed, reference):
            wanted = [c for c in wanted if c.casefold() in names]
        wanted = wanted or [_cheapest(source)]
        known = pushed(parsed, reference, source.fields, columns) if source.fields else None
        return lambda: source.frame(wanted, known)

    return {reference: reading(reference, source) for reference, source in sources.items()}


def _is_alone(parsed: ParsedQuery, reference: Reference) -> bool:
    """Whether a query's rows are those of a table, under the table's names."""
    node = reference.node
    alias = node.args.get("alias")
    return (
        parsed.tree.args["from_"].this is node
        and not node.args.get("pivots")
        and not (alias is not None and alias.args.get("columns"))
    )


class Statements:
    """The statements of one session.

    Parameters
    ----------
    spark : SparkSession
        Where queries run.
    session : SqlSession
        Catalogs, and what is temporary; its time zone is Spark's.
    """

    def __init__(self, spark: SparkSession, session: SqlSession) -> None:
        self.spark = spark
        self.session = session
        self._named: dict[str, NamedQuery] = {}
        self.writes = StatementWrites(spark, session, self._query, self.subqueries, self._merged)

    @classmethod
    def on(
        cls,
        spark: SparkSession,
        catalog: Catalog,
        *,
        catalog_name: str,
        runner_of: Callable[[Catalog], Runner],
    ) -> Statements:
        """The statements of a session that begins.

        Parameters
        ----------
        spark : SparkSession
            Where queries run.
        catalog : Catalog
            The first catalog.
        catalog_name : str
            Its name.
        runner_of : callable
            What compacts the tables of a catalog on the executors.
        """
        session = SqlSession(
            catalog,
            name=catalog_name,
            runner_of=runner_of,
            time_zone=lambda: named_zone(str(spark.conf.get(TIME_ZONE))),
        )
        return cls(spark, session)

    def run(self, text: str, args: Args = None) -> DataFrame:
        """Run all statements of a text; see :meth:`tidelake.spark.Lake.sql`."""
        answer = self._nothing()
        statements = parse(text)
        if args and len(statements) > 1:
            message = "args= go with one statement: run them one after the other."
            raise InvalidInputError(message, kind="sql_args")
        for statement in statements:
            answer = self.answer(statement, text, args)
        return answer

    def answer(self, statement: Statement, text: str, args: Args = None) -> DataFrame:
        """Run one statement of a text; errors show where in the text it is."""
        with placed(text, statement):
            return self._run(statement, args, text)

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
            return StatementExpressions(self.spark, self.subqueries)

        return MergeBuilder(self.spark, table, source, on, alias, source_alias, expressions)

    def _run(self, statement: Statement, args: Args, text: str) -> DataFrame:
        if isinstance(statement, Query):
            return self._query(statement, args)
        if isinstance(statement, Insert):
            with in_our_words(statement.query):
                self.writes.insert(statement, args)
            return self._nothing()
        if isinstance(statement, WithQueries):
            return self._with(statement, args, text)
        if isinstance(statement, Delete | Merge | Update):
            if isinstance(statement, Delete):
                self.writes.delete(statement, text)
            elif isinstance(statement, Update):
                self.writes.update(statement, text)
            else:
                self.writes.merge(statement, text)
            return self._nothing()
        if isinstance(statement, CreateTable) and statement.query is not None:
            with in_our_words(statement.query):
                self.writes.create_as(statement, statement.query, args)
            return self._nothing()
        if isinstance(statement, CreateView):
            self._check_view(statement)
        if isinstance(statement, SetOption) and not is_known_setting(statement):
            return self._set(statement)
        return self._frame_of(execute(statement, self.session))

    def _with(self, statement: WithQueries, args: Args, text: str) -> DataFrame:
        """A statement that names queries first: each sees those before it."""
        try:
            for query in statement.queries:
                self._check_columns(query.name, query.columns, self._query(query.query, None))
                self._named[query.name.casefold()] = query
            return self._run(statement.statement, args, text)
        finally:
            self._named.clear()

    def _nothing(self) -> DataFrame:
        return self.spark.createDataFrame([], st.StructType([]))

    def _frame_of(self, answer: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(answer) if answer.num_columns else self._nothing()

    def _set(self, statement: SetOption) -> DataFrame:
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
            with in_our_words(Query(key, 0, len(key))):
                self.spark.conf.set(key, value)
        shown = self.spark.conf.get(key, "<undefined>") if value is None else value
        return self.spark.createDataFrame([(key, shown)], "key string, value string")

    # ---- queries

    def _query(
        self,
        query: Query,
        args: Args,
        *,
        depth: int = 0,
        head: str = "",
        names: frozenset[str] | None = None,
    ) -> DataFrame:
        parsed = read_query(query, head=head)
        ours = self._sources(parsed, query, depth)
        if not query.explain:
            counted = self._counted(parsed, ours)
            if counted is not None:
                return counted
        relations: dict[Reference, str] = {}
        frames: dict[str, DataFrame] = {}
        for number, (reference, read) in enumerate(_reads(parsed, ours, names).items()):
            frames[f"tl_{number}"] = read()
            relations[reference] = f"{_MARK}tl_{number}{_MARK}"
        text = query.explain + head + parsed.rewritten(relations)
        if frames:
            text = text.replace("{", "{{").replace("}", "}}")
            for name in frames:
                text = text.replace(f"{_MARK}{name}{_MARK}", "{" + name + "}")
        with in_our_words(query, [c for s in ours.values() for c in s.columns]):
            given: Any = args if args is None or isinstance(args, Mapping) else list(args)
            return self.spark.sql(text, given, **frames)

    def _sources(
        self, parsed: ParsedQuery, query: Query, depth: int = 0
    ) -> dict[Reference, _Source]:
        """What the references in a text are, without those that only Spark knows."""
        sources = {r: self._source(r, query, depth) for r in parsed.references if r.start != BEFORE}
        return {r: s for r, s in sources.items() if s is not None}

    def _merged(self, words: Query, names: frozenset[str] | None) -> DataFrame:
        """The rows of a source; of a table alone the columns of these names."""
        return self._query(words, None, head=SOURCE_HEAD, names=names)

    def subqueries(self, parsed: ParsedQuery) -> dict[Reference, Reading]:
        """How the tables in an expression's subqueries are read."""
        return _reads(parsed, self._sources(parsed, parsed.query))

    def _counted(self, parsed: ParsedQuery, ours: Mapping[Reference, _Source]) -> DataFrame | None:
        """The answer of ``SELECT count(*) FROM t``, where metadata alone gives it."""
        name = count_alone(parsed.tree)
        if name is None or len(ours) != 1 or len(parsed.references) != 1:
            return None
        (source,) = ours.values()
        if source.table is None:
            return None
        scan = source.table.scan(**(source.moment or {}))
        if not scan.plan.raw_rows_exact or any(
            not split.raw or split.live_row_count is None for split in scan.plan.splits
        ):
            return None
        schema = st.StructType([st.StructField(name, st.LongType(), nullable=False)])
        return self.spark.createDataFrame([(scan.count(),)], schema)

    def _source(self, reference: Reference, query: Query, depth: int) -> _Source | None:
        """What a reference is; None for what Spark knows and we do not."""
        name, clause = reference.name, reference.clause
        named = self._named.get(name.parts[0].casefold()) if len(name.parts) == 1 else None
        if named is not None:
            self._no_clause(clause, query, reference, "A query that WITH names")
            self._no_function(query, reference, "a query that WITH names")
            return self._named_source(named)
        temporary = self.session.temporary_of(name)
        if isinstance(temporary, ForeignTable):
            self.session.table(name, use="read")  # refuses, with the reason
        if isinstance(temporary, View):
            self._no_clause(clause, query, reference, "A view")
            self._no_function(query, reference, "a view")
            return self._view(temporary, depth)
        found = self._found(reference, query)
        if found is None:
            return None
        if isinstance(found, Table):
            return self._table_source(reference, found)
        self._no_function(query, reference, "a system table")
        return self._system_source(reference, found, query)

    def _no_clause(self, clause: Clause, query: Query, reference: Reference, what: str) -> None:
        if clause.options or clause.version is not None or clause.timestamp is not None:
            message = f"{what} takes no options and no moment: say them of the table in it."
            raise fault(
                query.text, reference.start, message, kind="sql_clause", error=UnsupportedError
            )

    def _no_function(self, query: Query, reference: Reference, what: str) -> None:
        if reference.function is not None:
            message = f"A function of tables is not covered over {what}: name a table of rows."
            raise fault(
                query.text, reference.start, message, kind="sql_function", error=UnsupportedError
            )

    def _found(self, reference: Reference, query: Query) -> Table | SystemTable | None:
        """Our table of that name, where no view of Spark's session hides it."""
        name = reference.name
        base = TableName((*name.parts[:-1], name.parts[-1].partition("$")[0]), name.start)
        in_path = self.session.temporary_of(base) is not None
        written = ".".join(quoted(p) for p in name.parts)
        try:
            found = self.session.table(name, use="read")
        except (NotFoundError, InvalidInputError) as error:
            if is_file_format(name):
                return None  # a path is no name of a table
            if isinstance(error, InvalidInputError):
                raise
            if self._spark_knows(written):
                return None
            raise unknown_table(error, reference.name, query.text, self.session) from error
        if len(name.parts) == 1 and not in_path and self._spark_knows(written):
            shown = self.spark.catalog.getTable(written)
            if shown.isTemporary:
                return None
        return found

    def _spark_knows(self, written: str) -> bool:
        try:
            return bool(self.spark.catalog.tableExists(written))
        except PySparkException:
            return False  # a catalog that Spark has not, a name that it does not take

    def _view(self, view: View, depth: int) -> _Source:
        if depth > VIEWS_DEEP_MAX:
            message = f"View '{view.definition.name}' is made of itself, or of too many others."
            raise InvalidInputError(message, kind="view", name=view.definition.name)
        catalog_name, database = self.session.catalog_name, self.session.database
        self.session.catalog_name, self.session.database = view.catalog_name, view.database
        try:
            frame = self._query(view.definition.query, None, depth=depth + 1)
        finally:
            self.session.catalog_name, self.session.database = catalog_name, database
        if view.definition.columns:
            frame = frame.toDF(*view.definition.columns)
        return _Source(tuple(frame.columns), (), lambda columns, _: _selected(frame, columns))

    def _named_source(self, named: NamedQuery) -> _Source:
        """What WITH names; it sees the queries before it."""

        def rows() -> DataFrame:
            every, before = self._named, {}
            for key, query in every.items():
                if query is named:
                    break
                before[key] = query
            self._named = before
            try:
                frame = self._query(named.query, None)
            finally:
                self._named = every
            return frame.toDF(*named.columns) if named.columns else frame

        columns = tuple(rows().columns)
        return _Source(columns, (), lambda wanted, _: _selected(rows(), wanted))

    def _check_view(self, statement: CreateView) -> None:
        frame = self._query(statement.query, None)
        self._check_columns(statement.name, statement.columns, frame)

    def _check_columns(self, name: str, columns: Sequence[str], frame: DataFrame) -> None:
        if columns and len(columns) != len(frame.columns):
            message = (
                f"View '{name}' names {len(columns)} columns, its query gives {len(frame.columns)}."
            )
            raise InvalidInputError(message, kind="column_count", name=name)

    # ---- sources

    def _table_source(self, reference: Reference, found: Table) -> _Source:
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
        moment = moment_of(reference.clause, found, self.session)
        table = self._timed(found, options)
        fields = _fields_at(table, moment)

        def frame(columns: list[str], row_filter: object) -> DataFrame:
            # a window adds its columns to those of the table
            own = [c for c in columns if c not in WINDOW_COLUMNS or c in names]
            read = table_frame(
                self.spark,
                found,
                name,
                columns=own,
                filter=row_filter,
                moment=moment,
                options=options,
            )
            if function is not None and function.window is not None:
                return windowed(read, function.window, table=name)
            return read

        names = tuple(f.name for f in fields)
        plain = function is None
        return _Source(names, fields, frame, table if plain else None, moment)

    def _changes_source(
        self, found: Table, between: tuple[Any, Any], options: dict[str, object], name: str
    ) -> _Source:
        """What changed and is there: a batch shows no deletes."""
        mode: Any = options.pop(INCREMENTAL_MODE, "auto")
        table = in_session(self.spark, found, options)
        fields = table.table_schema.fields

        def frame(columns: list[str], row_filter: object) -> DataFrame:
            changes = planned_changes(
                table.handle, *between, columns=columns, filter=row_filter, mode=mode
            )
            rows = changes_frame(self.spark, changes, table=name)
            kept = rows.where(F.col("_row_kind").isin("+I", "+U"))
            return _selected(kept, columns)

        return _Source(tuple(f.name for f in fields), fields, frame)

    def _audit_source(
        self, found: Table, between: tuple[Any, Any], options: dict[str, object], name: str
    ) -> _Source:
        """All changes with their kinds, as the audit log between two moments shows them."""
        mode: Any = options.pop(INCREMENTAL_MODE, "auto")
        table = in_session(self.spark, found, options)
        names = [f.name for f in table.table_schema.fields]

        def frame(columns: list[str], _: object) -> DataFrame:
            own = [c for c in columns if c != ROW_KIND] or names[:1]
            changes = planned_changes(table.handle, *between, columns=own, filter=None, mode=mode)
            rows = changes_frame(self.spark, changes, table=name)
            return _selected(rows.withColumnRenamed("_row_kind", ROW_KIND), columns)

        return _Source((ROW_KIND, *names), (), frame)

    def _system_source(self, reference: Reference, found: SystemTable, query: Query) -> _Source:
        name = str(reference.name)
        if reference.clause.options:
            *places, last = reference.name.parts
            base, _, system = last.partition("$")
            table = self.session.table(TableName((*places, base), reference.start), use="read")
            if not isinstance(table, Table):
                self._no_clause(reference.clause, query, reference, "A table of the catalog")
            else:
                options: dict[str, object] = dict(reference.clause.options)
                between = self._incremental(options, name) if system == AUDIT_LOG else None
                if between is not None:
                    return self._audit_source(table, between, options, name)
                self._timed(table, options)
                found = table.with_options(options).system_table(system)
        moment = moment_of(reference.clause, found, self.session)
        return _Source(
            tuple(found.schema.names),
            (),
            lambda columns, _: table_frame(self.spark, found, name, columns=columns, moment=moment),
        )

    def _timed(self, found: Table, options: dict[str, object]) -> Table:
        """The table with the options of one use; a time among them says its zone from now on."""
        table = in_session(self.spark, found, options)
        time = table.options.get(declared.SCAN_TIMESTAMP)
        if time is None:
            return table
        options[declared.SCAN_TIMESTAMP.key] = self.session.time(time).isoformat()
        return table.with_options(options)

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


def _selected(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    return frame.select(*(quoted(c) for c in columns))


def _cheapest(source: _Source) -> str:
    """A column to read where none is looked at: rows are counted by it."""
    for root in _NARROW:
        for field in source.fields:
            if field.type.root is root:
                return field.name
    return source.columns[0]


def _fields_at(table: Table, moment: Mapping[str, Any]) -> tuple[DataField, ...]:
    """The columns that a read of a moment has."""
    travels = bool(moment) or bool(option_moment(table.options, table=table.identifier))
    if not travels:
        return table.table_schema.fields
    snapshot = table.handle.time_travel.resolve(**moment, default=table.options)
    return table.handle.read_context(snapshot).schema.fields


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
