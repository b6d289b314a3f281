"""A table as a sink of Spark's micro-batches: ``writeStream.format(STREAM)``.

``start()`` names the table by options. ``toTable("catalog.database.table")`` finds the table
(:mod:`tidelake.spark.streams.connector.named_sinks`); where Spark does not take the class for that,
it gives the sink only its directory. Then:

1. Spark calls :func:`open_sink` once for each query, before it starts. It refuses a table, an
   output mode and a checkpoint that do not fit.
2. :meth:`TableSink.addBatch` writes each micro-batch on the query's own thread, by the sink of
   ``tl.write_stream`` (:mod:`tidelake.spark.streams.write.batch_sink`). Spark's plan of the batch
   computes its rows once.

The columns are unknown before the first batch. A batch that lacks a column fails and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidelake.engine.storage import SCHEMES
from tidelake.engine.tables import Table, table_at_directory
from tidelake.engine.write import check_writable
from tidelake.errors import InvalidInputError
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.jvm.logical_rdd import logical_rdd
from tidelake.spark.read.table_frame import in_session
from tidelake.spark.streams.connector.provider import StreamCall, StreamWarehouse
from tidelake.spark.streams.connector.stream_options import SINK_KEYS, stream_options
from tidelake.spark.streams.write.batch_sink import BatchSink
from tidelake.spark.streams.write.checkpoint import Checkpoint, check_mark
from tidelake.spark.streams.write.kept_changes import check_changes_of_plan, removes_at_delete
from tidelake.spark.streams.write.start import check_mode, sink_mark

CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
"""Spark's setting for the checkpoint location of named queries."""
_DATABASE_SUFFIX = ".db"


class TableSink(Proxy, implements=("org.apache.spark.sql.execution.streaming.Sink",)):
    """A table as the sink of one query."""

    def __init__(self, gateway: Gateway, sink: BatchSink) -> None:
        super().__init__(gateway)
        self._sink = sink
        self._is_checked = False

    def toString(self) -> str:
        """Return the text that Spark's progress shows."""
        return f"tidelake[{self._sink.handle.identifier}]"

    def addBatch(self, batch_id: int, data: JavaObject) -> None:
        """Write a micro-batch, unless it was written before."""
        if not self._is_checked:
            self._check(data)
        self._sink(self._rows(data), batch_id)

    def _check(self, _batch: JavaObject) -> None:
        """Refuse a query that loses changes, before its first batch."""
        handle = self._sink.handle
        running = self.gateway.spark._jsparkSession.sharedState().activeStreamingQueries()
        query = running.get(self.gateway.java("java.util.UUID").fromString(self._sink.user))
        if query is not None:
            keys = handle.schema.primary_keys
            plan = query.analyzedPlan()
            check_changes_of_plan(
                plan,
                handle.identifier,
                keys,
                takes_kinds=bool(keys),
                at_delete=removes_at_delete(handle),
            )
        self._is_checked = True

    def _rows(self, data: JavaObject) -> DataFrame:
        """Make a frame of the rows that is not a stream, with the plan of the batch."""
        plan = logical_rdd(self.gateway.spark, data.queryExecution().toRdd(), data)
        session = data.sparkSession()
        dataset = self.gateway.java("org.apache.spark.sql.classic.Dataset").ofRows(session, plan)
        return DataFrame(dataset, SparkSession(self.gateway.spark.sparkContext, session))

    # ---- methods of Spark's tables, which Spark does not call on a sink

    def name(self) -> str:
        """Return the name for display."""
        return self.toString()

    def id(self) -> None:
        """Return None: the name identifies it."""

    def version(self) -> None:
        """Return None."""

    def schema(self) -> JavaObject:
        """Return no columns: each batch has its own."""
        return self.gateway.schema(StructType([]))

    def columns(self) -> JavaObject:
        """Return no columns, as :meth:`schema`."""
        return self.gateway.array(f"{CONNECTOR}.catalog.Column", ())

    def partitioning(self) -> JavaObject:
        """Return none that Spark handles."""
        return self.gateway.array(f"{CONNECTOR}.expressions.Transform", ())

    def properties(self) -> JavaObject:
        """Return None."""
        return self.gateway.mapping({})

    def constraints(self) -> JavaObject:
        """Return none that Spark handles."""
        return self.gateway.array(f"{CONNECTOR}.catalog.constraints.Constraint", ())

    def capabilities(self) -> JavaObject:
        """Return none: it is a sink of the older interface."""
        return self.gateway.set(())


def open_sink(call: StreamCall) -> TableSink:
    """Open the sink of one query.

    Raises
    ------
    InvalidInputError
        The table or checkpoint does not exist, or does not fit the query.
    """
    assert call.session is not None, "a session asks"
    warehouse, name = _target(call)
    found = warehouse.catalog.table(name)
    if not isinstance(found, Table):
        message = f"'{name}' is a system table, which is read-only: streams write to tables."
        raise InvalidInputError(message, kind="system_table", table=name)
    _check_partitions(found, call.partitions)
    spark = SparkSession(warehouse.spark.sparkContext, call.session)
    return TableSink(Gateway(spark), sink_of(spark, found, call.options, mode=str(call.how)))


def sink_of(
    spark: SparkSession, table: Table, options: Mapping[str, str], *, mode: str
) -> BatchSink:
    """Check a query into a table, and make what writes its batches.

    Parameters
    ----------
    options : mapping of str to str
        Options of the query, with keys in lower case.
    mode : str
        Spark's output mode.
    """
    handle = in_session(spark, table, stream_options(options, SINK_KEYS)).handle
    mode = mode.lower()
    check_writable(handle)
    check_mode(handle, mode)
    checkpoint = Checkpoint.of(
        _checkpoint(spark, options), table=table.identifier, spark=spark, may_rename=False
    )
    checkpoint.query_id()  # says what Spark would say with a stack of Java's
    mark = check_mark(checkpoint, sink_mark(handle, mode))
    checkpoint.remove_torn_start()
    return BatchSink(handle, checkpoint, mark, handle.env.ids.uuid(), spark=spark)


def _check_partitions(table: Table, given: tuple[str, ...]) -> None:
    """Refuse partitions that are not the table's own."""
    own = tuple(key.casefold() for key in table.partition_keys)
    if not given or tuple(key.casefold() for key in given) == own:
        return
    message = (
        f"partitionBy({', '.join(given)}) of a stream into table '{table.identifier}' does not fit:"
        f" its partition columns are ({', '.join(table.partition_keys)}). Leave partitionBy out."
    )
    raise InvalidInputError(message, kind="stream_provider", table=table.identifier)


def _checkpoint(spark: SparkSession, options: Mapping[str, str]) -> str | None:
    """Find the checkpoint folder: the option, else the query's name under Spark's setting."""
    own, query = options.get("checkpointlocation"), options.get("queryname")
    shared = spark.conf.get(CHECKPOINTS, None)
    if own is not None or shared is None or query is None:
        return own
    return f"{str(shared).rstrip('/')}/{query}"


def _target(call: StreamCall) -> tuple[StreamWarehouse, str]:
    """Find the warehouse and the table of a query, by directory or name."""
    path, name = call.options.get("path"), call.options.get("table")
    if (path is None) == (name is None):
        message = (
            "A stream into a table of Tidelake must name it once:"
            " toTable('tidelake.database.table'), or option('table', 'database.table') and"
            " start()."
        )
        raise InvalidInputError(message, kind="stream_provider")
    if name is None:
        assert path is not None, "one of the two is given"
        return _at(call, path)
    place = call.options.get("warehouse")
    if place is not None:
        return _warehouse_at(call, place), name
    first, _, rest = name.partition(".")
    named = [one for one in call.warehouses.values() if one.name == first]
    if "." in rest and named:
        return named[-1], rest
    if len(call.warehouses) > 1:
        message = (
            f"Several warehouses are attached, and '{name}' may be a table of each: name it with"
            " its catalog, as in 'tidelake.database.table', or give option('warehouse', ...):"
            f" {', '.join(sorted(call.warehouses))}."
        )
        raise InvalidInputError(message, kind="stream_provider", table=name)
    return next(iter(call.warehouses.values())), name


def _at(call: StreamCall, path: str) -> tuple[StreamWarehouse, str]:
    """Find the table, or the branch, of a directory."""
    directory, branch = table_at_directory(_plain(path))
    above, _, table = directory.rpartition("/")
    warehouse, _, database = above.rpartition("/")
    if not database.endswith(_DATABASE_SUFFIX):
        message = (
            f"'{path}' is not the directory of a table, which is <warehouse>/<database>.db/<table>."
        )
        raise InvalidInputError(message, kind="source_path", path=path)
    name = f"{database.removesuffix(_DATABASE_SUFFIX)}.{table}{branch}"
    return _warehouse_at(call, warehouse or "/"), name


def _warehouse_at(call: StreamCall, place: str) -> StreamWarehouse:
    """Find the warehouse of a directory."""
    wanted = _plain(place)
    for one in call.warehouses.values():
        if _plain(one.catalog.uri) == wanted:
            return one
    message = (
        f"No warehouse {place} is attached: attach it, tl = tidelake.spark.attach(spark,"
        f" '{place}')."
    )
    raise InvalidInputError(message, kind="stream_provider", path=place)


def _plain(place: str) -> str:
    """Spell a path or URI in one way: ``file:`` has no scheme, ``s3a://`` is ``s3://``."""
    scheme, parted, rest = place.partition("://")
    known = SCHEMES.get(scheme, scheme)
    if parted and known != "file":
        return f"{known}://{rest}".rstrip("/")
    parts = urlsplit(place)
    path = unquote(parts.path) if parts.scheme == "file" else place
    return path.rstrip("/")
