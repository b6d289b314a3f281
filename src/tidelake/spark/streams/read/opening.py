"""Makes a streaming DataFrame from a table's name, and opens its source for Spark.

:func:`stream_frame` makes the frame. Spark calls :func:`open_source` once for each query that reads
the frame, so each query has a source of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from tidelake.engine.schemas import check_event_time, event_time
from tidelake.engine.streams import change_filter
from tidelake.engine.tables import Catalog, Table, known_columns
from tidelake.engine.write import ROW_KIND_COLUMN
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.options import declared
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, struct_of
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.filter import to_column
from tidelake.spark.read.table_frame import in_session
from tidelake.spark.streams.connector.provider import (
    FILTER,
    SCHEMA,
    TABLE,
    WAREHOUSE,
    StreamCall,
    provider_class,
)
from tidelake.spark.streams.connector.stream_options import stream_options
from tidelake.spark.streams.read.event_time import with_event_time
from tidelake.spark.streams.read.request import StreamRequest, stream_table
from tidelake.spark.streams.read.source import StreamSource, stream_schema
from tidelake.spark.streams.write.kept_changes import CHANGES, changes_text
from tidelake.types.predicate import Predicate, bind, parse_filter

_FILTERS: dict[str, Predicate] = {}
"""Filters that sources apply, by the text that an option carries. Frames outlive calls, so they
stay: a few hundred bytes for each different filter of a process."""


def stream_frame(
    spark: SparkSession,
    catalog: Catalog,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    where: object = None,
    options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Make a streaming DataFrame of a table; see :meth:`tidelake.spark.Lake.read_stream`."""
    if is_remote():
        message = (
            "Through Spark Connect streams are read with spark.readStream.format('tidelake')"
            ".option('warehouse', ...).option('table', ...).load()."
        )
        raise UnsupportedError(message, kind="spark_connect")
    given = dict(options or {})
    table = in_session(spark, stream_table(catalog.table(name), name), given)
    own = table.table_schema.field_names
    shows_kinds = bool(table.primary_keys)
    if (asked := table.options.get(declared.READ_CHANGELOG)) is not None:
        shows_kinds = asked
    if columns is not None and ROW_KIND_COLUMN in columns:
        shows_kinds = True
    names = [ROW_KIND_COLUMN, *own] if shows_kinds else list(own)
    request = StreamRequest.of(table, table.table_schema.id, names)
    gateway = Gateway(spark)
    reader = spark.readStream.format(provider_class(gateway)).schema(stream_schema(request))
    texts = _texts(given) | {
        WAREHOUSE: catalog.uri,
        TABLE: table.identifier,
        SCHEMA: str(table.table_schema.id),
        CHANGES: changes_text(table.handle),
    }
    condition = None if where is None else _condition(table, where)
    if _is_left(table, names, columns, where):
        texts[FILTER] = _kept_filter(table, where)
        condition = None  # the source applies it
    frame = reader.options(**texts).load()
    declares = event_time(table.table_schema.options, table=table.identifier)
    if declares is not None and (columns is None or declares.column in columns):
        timed = table.table_schema.field(declares.column)
        check_event_time(timed.type, column=timed.name, table=table.identifier)
        frame = with_event_time(gateway, frame, declares)
    if condition is not None:
        frame = frame.where(condition)
    if columns is not None:
        wanted = known_columns(columns, [ROW_KIND_COLUMN, *own], table=name)
        if shows_kinds and ROW_KIND_COLUMN not in wanted:
            wanted = (ROW_KIND_COLUMN, *wanted)
        frame = frame.select(*(F.col(quoted(one)) for one in wanted))
    return frame


def open_source(call: StreamCall) -> StreamSource:
    """Open the source of one query."""
    spark, table = _table(call)
    assert call.schema is not None, "frames of ours have their columns"
    names = struct_of(call.schema).names
    schema_id = int(call.options.get(SCHEMA, table.table_schema.id))
    predicate = _FILTERS.get(call.options.get(FILTER, ""))
    request = StreamRequest.of(table, schema_id, names, predicate=predicate)
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    folder = None if call.how is None else str(call.how)
    return StreamSource(Gateway(spark), request, query_id=query_id, folder=folder)


def source_schema(call: StreamCall) -> JavaObject:
    """Find the columns of a source: those of the request for the frame, else the table's."""
    if call.schema is not None:
        return call.schema
    spark, table = _table(call)
    request = StreamRequest.of(table, table.table_schema.id, table.table_schema.field_names)
    return Gateway(spark).schema(stream_schema(request))


def _table(call: StreamCall) -> tuple[SparkSession, Table]:
    """Open the table of a call, with the options of the session and the stream."""
    place, name = call.options.get(WAREHOUSE), call.options.get(TABLE)
    warehouse = call.warehouses.get(place or "")
    if warehouse is None or name is None:
        message = (
            "A stream of Tidelake is made by tl.read_stream(name), by"
            " spark.readStream.table('tidelake.<database>.<table>'), or by format('tidelake')."
        )
        raise InvalidInputError(message, kind="stream_provider")
    found = stream_table(warehouse.catalog.table(name), name)
    return warehouse.spark, in_session(warehouse.spark, found, stream_options(call.options))


def _is_left(
    table: Table, names: Sequence[str], columns: Sequence[str] | None, where: object
) -> bool:
    """Whether a stream with kinds has a filter which rows leave unseen, so that it needs more.

    Raises
    ------
    UnsupportedError
        The columns wanted lack the primary key.
    """
    parsed = parse_filter(where)
    if parsed is None or ROW_KIND_COLUMN not in names:
        return False
    handle = table.handle
    wanted = handle.schema.field_names if columns is None else columns
    return change_filter(handle, bind(parsed, handle.schema.fields), wanted) is not None


def _kept_filter(table: Table, where: object) -> str:
    """Keep a filter for the source that Spark opens in this process; return its name."""
    parsed = parse_filter(where)
    assert parsed is not None
    predicate = bind(parsed, table.table_schema.fields)
    name = repr(predicate)
    _FILTERS[name] = predicate
    return name


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    """Write options as the texts that Spark's reader takes."""
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


def _condition(table: Table, where: object) -> object:
    """Write a filter as Spark's condition, which Spark passes to the source."""
    parsed = parse_filter(where)
    if parsed is None:
        return F.lit(True)
    fields = table.table_schema.fields
    condition = to_column(bind(parsed, fields), fields)
    if condition is None:
        message = (
            f"The filter of the stream of table '{table.identifier}' has no counterpart in Spark:"
            " leave it out, and filter the frame with where()."
        )
        raise UnsupportedError(message, kind="spark_filter", table=table.identifier)
    return condition
