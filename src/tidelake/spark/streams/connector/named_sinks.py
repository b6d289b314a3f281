"""``writeStream.toTable("catalog.database.table")`` without a format of its own.

Spark starts a stream into a table of a catalog by that table's streaming write, whose tasks send
commit messages to the driver. That has no place for a table's buckets, and Spark asks for it when
the first batch runs: by then the query has written into the checkpoint, which may be that of
another query. So:

1. A rule of the session's analyzer (``TidelakeNamedSinks``) sees each stream before Spark starts
   it. An existing session takes no such rule, so it is put in front of the others by reflection.
2. The rule asks the table for a sink (:func:`named_sink`), and gives that to the query in the
   table's place. Here the table, the output mode and the checkpoint are checked.
3. From there on it is a stream into a sink of Spark's older interface, as
   :mod:`tidelake.spark.streams.connector.sink` has it.

Spark shows the rule no options of the query: those come with its first batch. Columns of
``partitionBy`` count only when ``toTable`` makes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError

from tidelake.engine.tables import Table
from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.jvm.java_class import PACKAGE, defined_class
from tidelake.spark.jvm.slower import warn_slower
from tidelake.spark.streams.connector.provider import string_options
from tidelake.spark.streams.connector.sink import TableSink, sink_of
from tidelake.spark.streams.write.batch_sink import BatchSink

_NAME = "TidelakeNamedSinks"
_BY_FORMAT = "writeStream.toTable needs .format(tidelake.spark.STREAM)"


def install_named_sinks(gateway: Gateway) -> None:
    """Add the rule to the session, or say once that it cannot have it."""
    try:
        defined_class(gateway.spark, _NAME)
        gateway.java(f"{PACKAGE}.{_NAME}").install(gateway.spark._jsparkSession)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        warn_slower(_BY_FORMAT, gateway.spark.version, error)
        return
    gateway.writes_streams = True


def named_sink(
    gateway: Gateway, table: Table, stream: JavaObject, *, is_continuous: bool
) -> TableSink:
    """Open the sink of a query, before it starts.

    Parameters
    ----------
    stream : JavaObject
        Spark's ``WriteToStreamStatement``.
    is_continuous : bool
        Whether its trigger is, so that it has no batches.

    Raises
    ------
    UnsupportedError
        The trigger is continuous.
    InvalidInputError
        The table, the output mode or the checkpoint does not fit the query.
    """
    if is_continuous:
        message = (
            f"A stream into table '{table.identifier}' is written batch by batch, and"
            " trigger(continuous=...) has none: use trigger(processingTime='10 seconds') or"
            " trigger(availableNow=True)."
        )
        raise UnsupportedError(message, kind="bad_trigger", table=table.identifier)
    given = {
        "checkpointlocation": stream.userSpecifiedCheckpointLocation(),
        "queryname": stream.userSpecifiedName(),
    }
    known = {key: str(one.get()) for key, one in given.items() if one.isDefined()}
    mode = str(stream.outputMode())

    def sink(options: Mapping[str, str]) -> BatchSink:
        return sink_of(gateway.spark, table, options, mode=mode)

    return NamedSink(gateway, sink(known), sink)


class NamedSink(TableSink, implements=TableSink.Java.implements):
    """The sink of one query that gets its options with the first batch.

    Parameters
    ----------
    sink : BatchSink
        Of the query without its options.
    with_options : callable
        Gives the one of its options.
    """

    def __init__(
        self,
        gateway: Gateway,
        sink: BatchSink,
        with_options: Callable[[Mapping[str, str]], BatchSink],
    ) -> None:
        super().__init__(gateway, sink)
        self._with_options = with_options

    def _check(self, batch: JavaObject) -> None:
        options = string_options(batch.queryExecution().logical().writeOptions())
        self._sink = self._with_options(options)
        super()._check(batch)
