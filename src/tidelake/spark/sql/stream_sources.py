"""Reads tables as streams in a query, and rewrites the text of a query over streams.

In streaming mode every table of a query is a stream, except a table at a version or time, changes
between two of these, and a system table. A lookup, ``FOR SYSTEM_TIME AS OF PROCTIME()``, is read
again in each batch. A table's watermark applies to its time column, even if the query does not name
the column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from tidelake.engine.schemas import event_time
from tidelake.engine.streams import knows_old_rows
from tidelake.engine.tables import Catalog, Table
from tidelake.errors import UnsupportedError
from tidelake.options import declared
from tidelake.spark.expression.windows import SESSION
from tidelake.spark.read.changes_frame import INCREMENTAL, INCREMENTAL_TIMES, selected
from tidelake.spark.read.table_frame import in_session, table_frame
from tidelake.spark.sql.declared_stream import declared_stream
from tidelake.spark.sql.table_sources import LookedUp, TableSource, catalog_of, in_windows
from tidelake.spark.streams.connector.provider import offer_streams
from tidelake.spark.streams.kafka.declared_table import kafka_table
from tidelake.spark.streams.read.lookup import lookup_frame
from tidelake.spark.streams.read.opening import open_source, source_schema, stream_frame
from tidelake.sql.execution.leaving_rows import leaving_edits
from tidelake.sql.execution.session import ForeignTable, PathTable, SqlSession
from tidelake.sql.query.metadata_columns import metadata_column_exclusions
from tidelake.sql.query.query import ParsedQuery, TableReference
from tidelake.sql.query.row_kinds import ROW_KIND, KeptKinds, kept_kinds
from tidelake.sql.query.session_windows import session_replacements

FIRST_ROW = "first-row"
DISABLE_HINTS = "spark.sql.optimizer.disableHints"


@dataclass(frozen=True, slots=True)
class PathCatalog:
    """A temporary table as a catalog of one table, which Spark's calls find by its directory."""

    path_table: PathTable

    @property
    def uri(self) -> str:
        """The table's directory."""
        return self.path_table.uri

    def table(self, name: str) -> Table:
        """Open the table under any name."""
        del name
        return self.path_table.open()


class StreamSources:
    """The tables of one session as streams."""

    def __init__(self, spark: SparkSession, session: SqlSession) -> None:
        self.spark = spark
        self.session = session

    def of_table(
        self, reference: TableReference, found: Table, *, conf: Mapping[str, str] | None = None
    ) -> TableSource | None:
        """Read a table as a stream, or again in each batch; None for a table at one moment."""
        clause, function = reference.clause, reference.function
        if clause.version is not None or clause.timestamp is not None:
            return None
        if function is not None and function.incremental is not None:
            return None
        if not clause.options.keys().isdisjoint({INCREMENTAL, INCREMENTAL_TIMES}):
            return None
        name = str(reference.name)
        if is_remote():
            message = (
                "Through Spark Connect no statement reads streams: keep the mode 'batch', read the"
                " stream with spark.readStream.format('tidelake'), and write it with"
                " tl.write_stream."
            )
            raise UnsupportedError(message, kind="spark_connect", table=name)
        options: dict[str, object] = dict(clause.options)
        table = in_session(self.spark, found, dict(options), conf=conf)
        fields = table.table_schema.fields
        names = tuple(field.name for field in fields)
        if clause.lookup:
            return TableSource(
                names,
                fields,
                lambda columns, keep: self._lookup(table, columns, keep),
                looked_up=LookedUp(
                    table, at_each_batch=True, catalog=catalog_of(self.session, reference)
                ),
            )

        def frame(columns: list[str], row_filter: object) -> DataFrame:
            own = [c for c in columns if c in names]
            if knows_old_rows(table.handle):
                row_filter = None  # WHERE stands where it is, and tests each row by itself
            catalog = self._catalog(reference)
            rows = self._stream(catalog, table, own, row_filter, options)
            return in_windows(rows, reference, name)

        whole = not has_kinds(table) or knows_old_rows(table.handle)
        return TableSource(names, fields, frame, keys=() if whole else table.primary_keys)

    def of_kafka(self, reference: TableReference, found: ForeignTable) -> TableSource:
        """Read a topic as a stream, with the watermark that its table declares."""
        table = kafka_table(found.definition, reference.clause.options)

        def frame(columns: list[str], _: object) -> DataFrame:
            read = declared_stream(
                self.spark, self.session.catalog, found.definition, reference.clause.options
            )
            own = [c for c in columns if c in read.columns]
            return in_windows(of_rows(read, own), reference, table.name)

        return TableSource(tuple(f.name for f in table.fields), (), frame)

    def _catalog(self, reference: TableReference) -> Catalog:
        """Find the catalog of a table, whose streams Spark can open."""
        temporary = self.session.find_temporary(reference.name)
        if isinstance(temporary, PathTable):
            return cast("Catalog", PathCatalog(temporary))  # streams need no more of a catalog
        return self.session.catalog_named(self.session.resolve(reference.name).catalog_name)

    def _stream(
        self,
        catalog: Catalog,
        table: Table,
        columns: list[str],
        row_filter: object,
        options: Mapping[str, object],
    ) -> DataFrame:
        offer_streams(self.spark, catalog, source=open_source, schema=source_schema)
        time = event_time(table.table_schema.options, table=table.identifier)
        timed = [] if time is None or time.column in columns else [time.column]
        kinds = [ROW_KIND] if has_kinds(table) else []
        keys = [key for key in table.primary_keys if row_filter is not None and key not in columns]
        timed = [*timed, *(key for key in keys if key not in timed)]
        read = stream_frame(
            self.spark,
            catalog,
            table.identifier,
            columns=[*columns, *timed, *kinds],
            where=row_filter,
            options=options,
        )
        return selected(read, [*columns, *kinds])

    def _lookup(self, table: Table, columns: list[str], row_filter: object) -> DataFrame:
        """Read a table again in each batch, broadcast: a shuffle loses the order of a stream."""
        check_hints_count(self.spark)
        found = lookup_frame(
            self.spark,
            lambda: table_frame(
                self.spark,
                table,
                table.identifier,
                columns=columns,
                where=row_filter,
                exact=False,
            ),
            shown=f"lookup of {table.identifier}",
        )
        return F.broadcast(found)


def check_hints_count(spark: SparkSession) -> None:
    """Refuse a session in which no hint counts, where one keeps the order of a stream.

    Raises
    ------
    UnsupportedError
        Spark's own setting switches hints off.
    """
    if str(spark.conf.get(DISABLE_HINTS, "false")).lower() == "true":
        message = (
            f"'{DISABLE_HINTS}' is true, so that Spark may shuffle the rows of a stream that a"
            " table is joined to, and mix up the order of their changes. Set it to false for this"
            " query."
        )
        raise UnsupportedError(message, kind="sql_streaming")


def has_kinds(table: Table) -> bool:
    """Whether the rows of a table's stream are changes with kinds."""
    if not table.primary_keys or table.options.get(declared.READ_CHANGELOG) is False:
        return False
    return table.options.get(declared.MERGE_ENGINE) != FIRST_ROW


def row_columns(frame: DataFrame) -> list[str]:
    """List the columns of a query's rows, without the kinds of a stream of changes."""
    if not frame.isStreaming:
        return list(frame.columns)
    return [c for c in frame.columns if c != ROW_KIND]


def kinds_first(frame: DataFrame) -> DataFrame:
    """Move the kinds of a stream of changes to the first column, as in ``tl.changes``."""
    rows = row_columns(frame)
    if len(rows) == len(frame.columns) or len(set(rows)) < len(rows):
        return frame  # two columns of one name cannot be selected
    return selected(frame, [ROW_KIND, *rows])


def of_rows(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns of a query's rows, and the kinds of a stream of changes."""
    kinds = frame.columns[len(row_columns(frame)) :] and [ROW_KIND]
    return selected(frame, [*columns, *kinds])


def with_names(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rename the columns of a query's rows, except kinds."""
    rows = row_columns(frame)
    if len(rows) == len(frame.columns):
        return frame.toDF(*names)
    given = iter(names)
    return frame.toDF(*(c if c == ROW_KIND else next(given) for c in frame.columns))


def stream_texts(
    parsed: ParsedQuery,
    frames: Mapping[TableReference, DataFrame],
    hidden: Mapping[TableReference, tuple[str, ...]],
    *,
    is_stream: Callable[[TableReference], bool],
    spark: SparkSession,
    looked_up: Collection[TableReference] = (),
    keys: Mapping[TableReference, Sequence[str]] | None = None,
) -> tuple[dict[int, str], list[tuple[int, int, str]]]:
    """Find the edits of a query's text that make it a query over streams.

    Parameters
    ----------
    is_stream : callable
        Whether another table, one of Spark's own, is a stream.
    """
    streams = {r: f for r, f in frames.items() if f.isStreaming}
    changing = [r for r, f in streams.items() if ROW_KIND in f.columns]
    if not changing:
        kept = KeptKinds({})
    else:
        foreign = [r for r in parsed.references if r not in frames and r not in looked_up]
        others = [r for r in foreign if is_stream(r)]
        rows = [r for r in streams if r not in changing]
        kept = kept_kinds(parsed, changing, streaming=[*rows, *others], looked_up=looked_up)
        if kept.needs_broadcast:
            check_hints_count(spark)
    hidden = {**hidden, **{r: (*hidden.get(r, ()), ROW_KIND) for r in kept.hidden}}
    before = metadata_column_exclusions(parsed, hidden)
    for at, text in kept.insertions.items():
        before[at] = before.get(at, "") + text
    replaced: list[tuple[int, int, str]] = []
    for reference, own in (keys or {}).items():
        if reference in changing and reference not in kept.hidden:
            read = row_columns(streams[reference])
            replaced += leaving_edits(parsed, reference, own, read)
    for reference in streams:
        function = reference.function
        window = None if function is None else function.window
        if window is not None and window.kind == "SESSION":
            replaced += session_replacements(parsed, reference, SESSION)
    return before, replaced
