"""Runs queries: each table becomes a DataFrame, and Spark runs the rewritten text.

:mod:`tidelake.sql.query.query` parses a query. Names are resolved here: a query of WITH, a
temporary view, a table or system table, or a name of Spark's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from functools import cache
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelake.engine.tables import SystemTable, Table
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.spark.catalog.scans.aggregate import COUNT, Aggregates
from tidelake.spark.errors.analysis_errors import translate_analysis_errors
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.sessions.session import settings
from tidelake.spark.sql.expressions import Reading
from tidelake.spark.sql.lookups import QueryLookups
from tidelake.spark.sql.spark_parser import parsed_by_spark
from tidelake.spark.sql.stream_sources import (
    StreamSources,
    in_windows,
    of_rows,
    row_columns,
    stream_texts,
    with_names,
)
from tidelake.spark.sql.table_sources import TableSource, TableSources
from tidelake.sql.execution.error_position import is_file_format, unknown_table_error
from tidelake.sql.execution.kernel_query import plain_aggregates
from tidelake.sql.execution.max_pt import replace_max_pt
from tidelake.sql.execution.session import ForeignTable, SqlSession, View
from tidelake.sql.execution.stream_settings import StreamSettings
from tidelake.sql.query.lookup import check_lookups
from tidelake.sql.query.merge_terms import SOURCE_HEAD
from tidelake.sql.query.metadata_columns import named_metadata_columns
from tidelake.sql.query.pushdown import complete_filter, pushed_filter
from tidelake.sql.query.query import HEAD_POSITION, ParsedQuery, TableReference, parse_query
from tidelake.sql.syntax.ast import NamedQuery, Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.table_clause import Clause
from tidelake.sql.syntax.tokens import error_at
from tidelake.types import TypeRoot

Args: TypeAlias = "Mapping[str, object] | Sequence[object] | None"

_MARK = "\x00"
_NARROW = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.SMALLINT, TypeRoot.TINYINT)
VIEWS_DEEP_MAX = 32


class _With(threading.local):
    """The WITH queries of the statement that a thread runs."""

    def __init__(self) -> None:
        self.named: dict[str, NamedQuery] = {}


class StatementQueries:
    """The queries of one session; threads may share it."""

    def __init__(self, spark: SparkSession, session: SqlSession) -> None:
        self.spark = spark
        self.session = session
        self._tables = TableSources(spark, session)
        self._streams = StreamSources(spark, session)
        self._with = _With()

    def frame(
        self,
        query: Query,
        args: Args = None,
        *,
        depth: int = 0,
        head: str = "",
        names: frozenset[str] | None = None,
    ) -> DataFrame:
        """Return the rows of a query.

        Parameters
        ----------
        names : frozenset of str, optional
            Folded names of the only columns to read, if the query is a plain table.

        Returns
        -------
        DataFrame
            Planned, not run.
        """
        query = replace_max_pt(query, self.session)
        try:
            parsed = parse_query(query, head=head)
        except InvalidInputError:
            handed_over = None if head else self._handed_over(query, args, depth)
            if handed_over is None:
                raise
            return handed_over
        ours = self._sources(parsed, query, depth)
        if not query.explain:
            counted = self._answer_from_metadata(parsed, ours)
            if counted is not None:
                return counted
        relations: dict[TableReference, str] = {}
        frames: dict[str, DataFrame] = {}
        hidden = {r: named_metadata_columns(parsed, r, s.hidden) for r, s in ours.items()}
        reads = _reads(parsed, ours, names, hidden, zone=self._zone_for(ours))
        lookups = QueryLookups(self.spark, parsed, _MARK)
        candidates = lookups.candidates(ours, hidden)
        streams = {r: read() for r, read in reads.items() if r not in candidates}
        lookups.add(candidates, ours, streams)
        streams |= {r: reads[r]() for r in candidates if r not in lookups.joins}
        for number, (reference, frame) in enumerate(streams.items()):
            frames[f"tl_{number}"] = frame
            relations[reference] = f"{_MARK}tl_{number}{_MARK}"
        before, replaced = stream_texts(
            parsed,
            streams,
            hidden,
            is_stream=self._is_stream,
            spark=self.spark,
            looked_up=lookups.joins,
            keys={r: s.keys for r, s in ours.items() if s.keys},
        )
        rewritten = parsed.rewrite(
            relations,
            before=before,
            replacements=[*replaced, *lookups.hints],
            joins=lookups.joins,
        )
        frames |= lookups.frames
        columns = [c for s in ours.values() for c in s.columns]
        with lookups.known(), translate_analysis_errors(query, columns):
            return lookups.held(self._planned(query.explain + head + rewritten, args, frames))

    def _planned(self, text: str, args: Args, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Let Spark plan a text in which marks stand for DataFrames."""
        if frames:
            text = text.replace("{", "{{").replace("}", "}}")
            for name in frames:
                text = text.replace(f"{_MARK}{name}{_MARK}", "{" + name + "}")
        given: Any = args if args is None or isinstance(args, Mapping) else list(args)
        return self.spark.sql(text, given, **frames)

    def _handed_over(self, query: Query, args: Args, depth: int) -> DataFrame | None:
        """Give a query that cannot be parsed here to Spark as it stands, if Spark can.

        Every column of its tables is read, because nothing is known of their use.
        """
        parsed = None
        if not StreamSettings.of(self.session.settings).is_streaming:
            parsed = parsed_by_spark(self.spark, query)
        if parsed is None:
            return None
        ours = self._sources(parsed, query, depth)
        if any(self._is_stream(r) for r in parsed.references if r not in ours):
            return None
        frames: dict[str, DataFrame] = {}
        relations: dict[TableReference, str] = {}
        columns: list[str] = []
        for number, (reference, source) in enumerate(ours.items()):
            frames[f"tl_{number}"] = source.frame(list(source.columns), None)
            relations[reference] = f"{_MARK}tl_{number}{_MARK}"
            columns += source.columns
        with translate_analysis_errors(query, columns):
            return self._planned(query.explain + parsed.rewrite(relations), args, frames)

    def _sources(
        self, parsed: ParsedQuery, query: Query, depth: int = 0
    ) -> dict[TableReference, TableSource]:
        """Resolve the references of a query, except Spark's own tables."""
        # once: each table of a join would fetch all settings of Spark
        conf = cache(lambda: settings(self.spark))
        references = [r for r in parsed.references if r.start != HEAD_POSITION]
        every = StreamSettings.of(self.session.settings).is_streaming
        # a lookup beside a stream is one whatever the mode: a batch would read it once
        beside = every or any(r.clause.stream is not None for r in references)
        sources = {
            r: self._source(
                r,
                query,
                depth,
                conf,
                is_stream=every or r.clause.stream is not None or bool(beside and r.clause.lookup),
            )
            for r in references
        }
        found = {r: s for r, s in sources.items() if s is not None}
        check_lookups(query, {r: s.columns for r, s in found.items()})
        return found

    def merge_source(self, source: Query, names: frozenset[str] | None) -> DataFrame:
        """Return the rows of a merge's source; for a plain table only these columns."""
        rows = self.frame(source, head=SOURCE_HEAD, names=names)
        if rows.isStreaming:
            message = (
                "MERGE cannot take a stream: INSERT INTO a table with a primary key starts a job"
                " that upserts, or tl.merge in foreachBatch takes each batch."
            )
            raise UnsupportedError(message, kind="sql_streaming")
        return rows

    @contextmanager
    def with_scope(self) -> Iterator[Callable[[NamedQuery], None]]:
        """Open a scope for the queries of WITH, each of which sees those before it."""

        def name(query: NamedQuery) -> None:
            self._with.named[query.name.casefold()] = query

        try:
            yield name
        finally:
            self._with.named.clear()

    def subqueries(self, parsed: ParsedQuery) -> dict[TableReference, Reading]:
        """Return readers of the tables in an expression's subqueries."""
        sources = self._sources(parsed, parsed.query)
        return _reads(parsed, sources, zone=self._zone_for(sources))

    def _zone_for(self, sources: Mapping[TableReference, TableSource]) -> tzinfo | None:
        """Session time zone for filters; None if no table has instants."""
        fields = (f for source in sources.values() for f in source.fields)
        has_instants = any(f.type.root is TypeRoot.TIMESTAMP_LTZ for f in fields)
        return self.session.zone() if has_instants else None

    def _answer_from_metadata(
        self, parsed: ParsedQuery, ours: Mapping[TableReference, TableSource]
    ) -> DataFrame | None:
        """Answer ``SELECT count(*), min(a) ... FROM t`` from metadata, if possible."""
        if len(ours) != 1 or len(parsed.references) != 1:
            return None
        ((reference, source),) = ours.items()
        asked = None
        if source.table is not None:
            asked = plain_aggregates(parsed, reference, source.columns)
        if asked is None or source.table is None:
            return None
        row_filter = None
        if parsed.tree.args.get("where"):
            keys = [f for f in source.fields if f.name in source.table.partition_keys]
            row_filter = complete_filter(parsed, reference, keys)
            if row_filter is None:
                return None
        aggregates = Aggregates((), tuple((one.function, one.column) for one in asked))
        if not aggregates.can_be_known({f.name: f.type for f in source.fields}):
            return None
        scan = source.table.scan(where=row_filter, **(source.moment or {}))
        answer = aggregates.answer(scan)
        if answer is None:
            return None
        names = [one.name for one in asked]
        if aggregates.asked == ((COUNT, None),):
            # a literal: collecting local rows would run a job
            count = answer.column(0)[0].as_py()
            return self.spark.sql(f"SELECT * FROM VALUES ({count}L) AS t({quoted(names[0])})")
        schema = spark_schema(aggregates.fields(scan.context))
        return self.spark.createDataFrame(answer, schema).toDF(*names)

    def _source(
        self,
        reference: TableReference,
        query: Query,
        depth: int,
        conf: Callable[[], Mapping[str, str]],
        *,
        is_stream: bool,
    ) -> TableSource | None:
        """Resolve a reference, as a stream or not; None for Spark's own tables."""
        name, clause = reference.name, reference.clause
        named = self._with.named.get(name.parts[0].casefold()) if len(name.parts) == 1 else None
        if named is not None:
            self._refuse_clauses(clause, query, reference, "A query that WITH names")
            self._refuse_function(query, reference, "a query that WITH names")
            return self._with_source(named)
        temporary = self.session.find_temporary(name)
        if isinstance(temporary, ForeignTable):
            return self._topic(temporary, query, reference, is_stream=is_stream)
        if isinstance(temporary, View):
            self._refuse_clauses(clause, query, reference, "A view")
            if reference.function is not None and reference.function.window is None:
                self._refuse_function(query, reference, "a view")
            return self._view(temporary, depth, reference)
        found = self._open(reference, query)
        if found is None:
            return None
        if isinstance(found, View):
            self._refuse_clauses(clause, query, reference, "A view")
            return self._view(found, depth, reference)
        if isinstance(found, Table):
            if is_stream:
                stream = self._streams.of_table(reference, found, conf=conf())
                if stream is not None:
                    return stream
                self._refuse_stream(query, reference, "A table at a moment")
            return self._tables.of_table(reference, found, conf=conf())
        self._refuse_stream(query, reference, "A system table")
        self._refuse_function(query, reference, "a system table")
        return self._tables.of_system_table(reference, found, self._base_table(reference, query))

    def _topic(
        self, found: ForeignTable, query: Query, reference: TableReference, *, is_stream: bool
    ) -> TableSource:
        """Messages of Kafka, which take options, and windows where they are a stream."""
        clause, refused = reference.clause, None
        if clause.lookup:
            refused = (
                f"Table '{reference.name}' is of Kafka, which cannot be looked up at a row's time"
                " (FOR SYSTEM_TIME AS OF): write it into a table with a primary key by a stream,"
                " and look that one up."
            )
        elif clause.version is not None or clause.timestamp is not None:
            refused = (
                f"Table '{reference.name}' is of Kafka, which has no snapshots to travel to: say"
                " where to begin by /*+ OPTIONS('scan.startup.mode'='timestamp', ...) */."
            )
        if refused is not None:
            raise error_at(
                query.text, reference.start, refused, kind="sql_clause", error=UnsupportedError
            )
        function = reference.function
        if function is not None and (function.window is None or not is_stream):
            self._refuse_function(query, reference, "a table of Kafka")
        sources = self._streams if is_stream else self._tables
        return sources.of_kafka(reference, found)

    def _base_table(self, reference: TableReference, query: Query) -> Table | None:
        """Return the base table of a system table with options in the query."""
        if not reference.clause.options:
            return None
        *places, last = reference.name.parts
        base = last.rsplit("$", 1)[0]  # it may name a branch
        table = self.session.table(TableName((*places, base), reference.start), use="read")
        if isinstance(table, Table):
            return table
        self._refuse_clauses(reference.clause, query, reference, "A table of the catalog")
        return None

    def _refuse_clauses(
        self, clause: Clause, query: Query, reference: TableReference, what: str
    ) -> None:
        if clause.lookup:
            message = (
                f"{what} is not looked up at a row's time (FOR SYSTEM_TIME AS OF): name a table."
            )
            raise error_at(
                query.text, reference.start, message, kind="sql_clause", error=UnsupportedError
            )
        self._refuse_stream(query, reference, what)
        if clause.options or clause.version is not None or clause.timestamp is not None:
            message = f"{what} takes no options and no time travel: write them on its table."
            raise error_at(
                query.text, reference.start, message, kind="sql_clause", error=UnsupportedError
            )

    def _refuse_stream(self, query: Query, reference: TableReference, what: str) -> None:
        if reference.clause.stream is not None:
            message = f"{what} cannot be read as a STREAM: name a table."
            raise error_at(
                query.text, reference.start, message, kind="sql_clause", error=UnsupportedError
            )

    def _refuse_function(self, query: Query, reference: TableReference, what: str) -> None:
        if reference.function is not None:
            message = f"Table functions do not support {what}: name a table."
            raise error_at(
                query.text, reference.start, message, kind="sql_function", error=UnsupportedError
            )

    def _open(self, reference: TableReference, query: Query) -> Table | SystemTable | View | None:
        """Find the table of a name, unless a view of Spark's session hides it."""
        name = reference.name
        base = TableName((*name.parts[:-1], name.parts[-1].partition("$")[0]), name.start)
        in_path = self.session.find_temporary(base) is not None
        written = ".".join(quoted(p) for p in name.parts)
        try:
            found = self.session.table(name, use="read")
        except (NotFoundError, InvalidInputError) as error:
            if is_file_format(name):
                return None
            if isinstance(error, InvalidInputError):
                raise
            if self._exists_in_spark(written):
                return None
            kept = self.session.kept_view(name)
            if kept is not None:
                return kept
            raise unknown_table_error(error, reference.name, query.text, self.session) from error
        if len(name.parts) == 1 and not in_path and self._exists_in_spark(written):
            shown = self.spark.catalog.getTable(written)
            if shown.isTemporary:
                return None
        return found

    def _exists_in_spark(self, written: str) -> bool:
        try:
            return bool(self.spark.catalog.tableExists(written))
        except PySparkException:
            return False  # an unknown catalog, or an invalid name

    def _is_stream(self, reference: TableReference) -> bool:
        """Check if a table of Spark's own is a stream."""
        if reference.start == HEAD_POSITION:
            return False
        written = ".".join(quoted(p) for p in reference.name.parts)
        try:
            return bool(self.spark.table(written).isStreaming)
        except PySparkException:
            return False  # Spark refuses the query for it

    def _view(self, view: View, depth: int, reference: TableReference) -> TableSource:
        if depth > VIEWS_DEEP_MAX:
            message = (
                f"View '{view.definition.name}' refers to itself, or is nested too deeply: create"
                " it from fewer views."
            )
            raise InvalidInputError(message, kind="view", name=view.definition.name)
        # its names are resolved in its own database, outside of any WITH
        session = self.session.in_database(view.catalog_name, view.database)
        frame = StatementQueries(self.spark, session).frame(view.definition.query, depth=depth + 1)
        if view.definition.columns:
            frame = with_names(frame, view.definition.columns)
        columns = tuple(row_columns(frame))
        name = view.definition.name
        return TableSource(
            columns, (), lambda wanted, _: in_windows(of_rows(frame, wanted), reference, name)
        )

    def _with_source(self, named: NamedQuery) -> TableSource:
        """A query of WITH; it sees the queries before it."""

        def rows() -> DataFrame:
            every, before = self._with.named, {}
            for key, query in every.items():
                if query is named:
                    break
                before[key] = query
            self._with.named = before
            try:
                frame = self.frame(named.query)
            finally:
                self._with.named = every
            return with_names(frame, named.columns) if named.columns else frame

        columns = tuple(row_columns(rows()))
        return TableSource(columns, (), lambda wanted, _: of_rows(rows(), wanted))


def _reads(
    parsed: ParsedQuery,
    sources: Mapping[TableReference, TableSource],
    names: frozenset[str] | None = None,
    hidden: Mapping[TableReference, tuple[str, ...]] | None = None,
    *,
    zone: tzinfo | None = None,
) -> dict[TableReference, Reading]:
    """Return a reader per reference, with the used columns and the pushed filter.

    `names` restricts the columns of a plain table, `hidden` lists metadata columns to read, `zone`
    applies to instants in filters.
    """
    columns = {r: s.columns for r, s in sources.items()}

    def reading(reference: TableReference, source: TableSource) -> Reading:
        wanted = parsed.used_columns(reference, source.columns)
        if names is not None and _is_plain_table(parsed, reference):
            wanted = [c for c in wanted if c.casefold() in names]
        wanted = [*wanted, *(hidden or {}).get(reference, ())] or [_smallest_column(source)]
        known = None
        if source.fields:
            known = pushed_filter(parsed, reference, source.fields, columns, zone=zone)
        return lambda: source.frame(wanted, known)

    return {reference: reading(reference, source) for reference, source in sources.items()}


def _is_plain_table(parsed: ParsedQuery, reference: TableReference) -> bool:
    """True if a query's rows are a table's, with its column names."""
    node = reference.node
    alias = node.args.get("alias")
    return (
        parsed.tree.args["from_"].this is node
        and not node.args.get("pivots")
        and not (alias is not None and alias.args.get("columns"))
    )


def _smallest_column(source: TableSource) -> str:
    """A small column to read for ``count(*)``."""
    for root in _NARROW:
        for field in source.fields:
            if field.type.root is root:
                return field.name
    return source.columns[0]
