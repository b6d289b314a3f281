"""Runs queries: each table of ours in one becomes a DataFrame, and Spark runs the text with them.

A query is looked into (:mod:`tidelake.sql.query.query`). What a name in it means is decided here: a
query that WITH names, a temporary view, a table or system table of ours, or something that Spark
knows.
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

from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.spark.errors.analysis_errors import in_our_words
from tidelake.spark.expression.expression import quoted
from tidelake.spark.sessions.session import settings
from tidelake.spark.sql.expressions import Reading
from tidelake.spark.sql.table_sources import Source, TableSources, selected
from tidelake.sql.execution.error_position import is_file_format, unknown_table_error
from tidelake.sql.execution.kernel_query import count_star_name
from tidelake.sql.execution.max_pt import replace_max_pt
from tidelake.sql.execution.session import ForeignTable, SqlSession, View
from tidelake.sql.query.merge_terms import SOURCE_HEAD
from tidelake.sql.query.metadata_columns import metadata_column_exclusions, named_metadata_columns
from tidelake.sql.query.pushdown import pushed_filter
from tidelake.sql.query.query import HEAD_POSITION, ParsedQuery, TableReference, parse_query
from tidelake.sql.syntax.ast import NamedQuery, Query
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.table_clause import Clause
from tidelake.sql.syntax.tokens import error_at
from tidelake.table import SystemTable, Table
from tidelake.types import TypeRoot

__all__ = ["Args", "StatementQueries"]

Args: TypeAlias = "Mapping[str, object] | Sequence[object] | None"

_MARK = "\x00"
_NARROW = (TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.SMALLINT, TypeRoot.TINYINT)
VIEWS_DEEP_MAX = 32


class _With(threading.local):
    """The queries that WITH names in the statement that a thread runs."""

    def __init__(self) -> None:
        self.named: dict[str, NamedQuery] = {}


class StatementQueries:
    """The queries of one session; threads may share it.

    Parameters
    ----------
    spark : SparkSession
        Where they run.
    session : SqlSession
        Catalogs, and what is temporary.
    """

    def __init__(self, spark: SparkSession, session: SqlSession) -> None:
        self.spark = spark
        self.session = session
        self._tables = TableSources(spark, session)
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
        """The rows of a query.

        Parameters
        ----------
        query : Query
            As it was written.
        args : sequence or mapping, optional
            Of its parameters.
        depth : int
            How many views it is in.
        head : str
            What makes a query of the words.
        names : frozenset of str, optional
            Folded names: of a table whose rows are the query's own only these are read.

        Returns
        -------
        DataFrame
            Of Spark, planned and not run.
        """
        query = replace_max_pt(query, self.session)
        parsed = parse_query(query, head=head)
        ours = self._sources(parsed, query, depth)
        if not query.explain:
            counted = self._counted(parsed, ours)
            if counted is not None:
                return counted
        relations: dict[TableReference, str] = {}
        frames: dict[str, DataFrame] = {}
        hidden = {r: named_metadata_columns(parsed, r, s.hidden) for r, s in ours.items()}
        reads = _reads(parsed, ours, names, hidden, zone=self._zone_for(ours))
        for number, (reference, read) in enumerate(reads.items()):
            frames[f"tl_{number}"] = read()
            relations[reference] = f"{_MARK}tl_{number}{_MARK}"
        text = (
            query.explain
            + head
            + parsed.rewrite(relations, before=metadata_column_exclusions(parsed, hidden))
        )
        if frames:
            text = text.replace("{", "{{").replace("}", "}}")
            for name in frames:
                text = text.replace(f"{_MARK}{name}{_MARK}", "{" + name + "}")
        with in_our_words(query, [c for s in ours.values() for c in s.columns]):
            given: Any = args if args is None or isinstance(args, Mapping) else list(args)
            return self.spark.sql(text, given, **frames)

    def _sources(
        self, parsed: ParsedQuery, query: Query, depth: int = 0
    ) -> dict[TableReference, Source]:
        """What the references in a text are, without those that only Spark knows."""
        # asked for once: each table of a join would ask Spark for all of its settings
        conf = cache(lambda: settings(self.spark))
        references = [r for r in parsed.references if r.start != HEAD_POSITION]
        sources = {r: self._source(r, query, depth, conf) for r in references}
        return {r: s for r, s in sources.items() if s is not None}

    def merge_source(self, words: Query, names: frozenset[str] | None) -> DataFrame:
        """The rows of a source; of a table alone the columns of these names."""
        return self.frame(words, head=SOURCE_HEAD, names=names)

    @contextmanager
    def naming(self) -> Iterator[Callable[[NamedQuery], None]]:
        """Where queries are named, each of which sees those before it; later they are forgotten."""

        def name(query: NamedQuery) -> None:
            self._with.named[query.name.casefold()] = query

        try:
            yield name
        finally:
            self._with.named.clear()

    def subqueries(self, parsed: ParsedQuery) -> dict[TableReference, Reading]:
        """How the tables in an expression's subqueries are read."""
        sources = self._sources(parsed, parsed.query)
        return _reads(parsed, sources, zone=self._zone_for(sources))

    def _zone_for(self, sources: Mapping[TableReference, Source]) -> tzinfo | None:
        """The zone of instants in filters, where a table has instants."""
        fields = (f for source in sources.values() for f in source.fields)
        has_instants = any(f.type.root is TypeRoot.TIMESTAMP_LTZ for f in fields)
        return self.session.zone() if has_instants else None

    def _counted(
        self, parsed: ParsedQuery, ours: Mapping[TableReference, Source]
    ) -> DataFrame | None:
        """The answer of ``SELECT count(*) FROM t``, where metadata alone gives it."""
        name = count_star_name(parsed.tree)
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
        # literals: rows that are handed to Spark are a job to collect
        return self.spark.sql(f"SELECT * FROM VALUES ({scan.count()}L) AS t({quoted(name)})")

    def _source(
        self,
        reference: TableReference,
        query: Query,
        depth: int,
        conf: Callable[[], Mapping[str, str]],
    ) -> Source | None:
        """What a reference is; None for what Spark knows and we do not."""
        name, clause = reference.name, reference.clause
        named = self._with.named.get(name.parts[0].casefold()) if len(name.parts) == 1 else None
        if named is not None:
            self._no_clause(clause, query, reference, "A query that WITH names")
            self._no_function(query, reference, "a query that WITH names")
            return self._named_source(named)
        temporary = self.session.find_temporary(name)
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
            return self._tables.of_table(reference, found, conf=conf())
        self._no_function(query, reference, "a system table")
        return self._tables.of_system_table(reference, found, self._whose(reference, query))

    def _whose(self, reference: TableReference, query: Query) -> Table | None:
        """The table that a system table is of, where the query gives it options."""
        if not reference.clause.options:
            return None
        *places, last = reference.name.parts
        base, _, _ = last.partition("$")
        table = self.session.table(TableName((*places, base), reference.start), use="read")
        if isinstance(table, Table):
            return table
        self._no_clause(reference.clause, query, reference, "A table of the catalog")
        return None

    def _no_clause(
        self, clause: Clause, query: Query, reference: TableReference, what: str
    ) -> None:
        if clause.options or clause.version is not None or clause.timestamp is not None:
            message = f"{what} takes no options and no moment: say them of the table in it."
            raise error_at(
                query.text, reference.start, message, kind="sql_clause", error=UnsupportedError
            )

    def _no_function(self, query: Query, reference: TableReference, what: str) -> None:
        if reference.function is not None:
            message = f"A function of tables is not supported over {what}: name a table of rows."
            raise error_at(
                query.text, reference.start, message, kind="sql_function", error=UnsupportedError
            )

    def _found(self, reference: TableReference, query: Query) -> Table | SystemTable | None:
        """Our table of that name, where no view of Spark's session hides it."""
        name = reference.name
        base = TableName((*name.parts[:-1], name.parts[-1].partition("$")[0]), name.start)
        in_path = self.session.find_temporary(base) is not None
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
            raise unknown_table_error(error, reference.name, query.text, self.session) from error
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

    def _view(self, view: View, depth: int) -> Source:
        if depth > VIEWS_DEEP_MAX:
            message = f"View '{view.definition.name}' is made of itself, or of too many others."
            raise InvalidInputError(message, kind="view", name=view.definition.name)
        # names in it belong to its own database, and to no WITH around it
        place = self.session.in_database(view.catalog_name, view.database)
        frame = StatementQueries(self.spark, place).frame(view.definition.query, depth=depth + 1)
        if view.definition.columns:
            frame = frame.toDF(*view.definition.columns)
        return Source(tuple(frame.columns), (), lambda columns, _: selected(frame, columns))

    def _named_source(self, named: NamedQuery) -> Source:
        """What WITH names; it sees the queries before it."""

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
            return frame.toDF(*named.columns) if named.columns else frame

        columns = tuple(rows().columns)
        return Source(columns, (), lambda wanted, _: selected(rows(), wanted))


def _reads(
    parsed: ParsedQuery,
    sources: Mapping[TableReference, Source],
    names: frozenset[str] | None = None,
    hidden: Mapping[TableReference, tuple[str, ...]] | None = None,
    *,
    zone: tzinfo | None = None,
) -> dict[TableReference, Reading]:
    """Reads of what a query looks at and its filters leave.

    With `names` nobody looks at other columns of a table whose rows are the query's own.
    Of `hidden` columns those are read that are given. Instants in filters are in `zone`.
    """
    columns = {r: s.columns for r, s in sources.items()}

    def reading(reference: TableReference, source: Source) -> Reading:
        wanted = parsed.used_columns(reference, source.columns)
        if names is not None and _is_alone(parsed, reference):
            wanted = [c for c in wanted if c.casefold() in names]
        wanted = [*wanted, *(hidden or {}).get(reference, ())] or [_cheapest(source)]
        known = None
        if source.fields:
            known = pushed_filter(parsed, reference, source.fields, columns, zone=zone)
        return lambda: source.frame(wanted, known)

    return {reference: reading(reference, source) for reference, source in sources.items()}


def _is_alone(parsed: ParsedQuery, reference: TableReference) -> bool:
    """Whether a query's rows are those of a table, under the table's names."""
    node = reference.node
    alias = node.args.get("alias")
    return (
        parsed.tree.args["from_"].this is node
        and not node.args.get("pivots")
        and not (alias is not None and alias.args.get("columns"))
    )


def _cheapest(source: Source) -> str:
    """A column to read where none is looked at: rows are counted by it."""
    for root in _NARROW:
        for field in source.fields:
            if field.type.root is root:
                return field.name
    return source.columns[0]
