"""The class by whose name Spark finds streams of ours, made without a jar.

``spark.readStream.table`` and ``FROM STREAM t`` fall back to Spark's older interface where a table
offers a ``CatalogTable``; that names a class, which Spark makes by reflection. No Python object has
such a name. So:

1. Twenty lines of Java implement ``StreamSourceProvider`` and ``StreamSinkProvider``, and hand each
   call to one object of Python's.
2. They are compiled and defined where Spark looks for classes
   (:mod:`tidelake.spark.catalog.streams.java_class`).
3. The object of Python's (:class:`StreamOpener`) is one per JVM. It knows the warehouses that are
   attached, and hands on to what opens sources and sinks.

Only the driver needs the class. Private names of Spark 4.3 are
used; another minor version is refused by name, and so is a patch that lacks one of them
(:func:`provider_class`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tidelake.catalog import Catalog
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.catalog.gateway import Gateway, JavaObject, Proxy
from tidelake.spark.catalog.refusal import let_refusals_through
from tidelake.spark.catalog.streams.java_class import BESIDE, PACKAGE, defined_class

__all__ = [
    "PROVIDER_CLASS",
    "SCHEMA",
    "TABLE",
    "WAREHOUSE",
    "StreamCall",
    "StreamWarehouse",
    "fallback_table",
    "offer_streams",
    "provider_class",
    "ready_class",
]

_NAME = "TidelakeStreams"
PROVIDER_CLASS = f"{PACKAGE}.{_NAME}"
"""What ``readStream.format(...)`` and ``writeStream.format(...)`` name."""
SINK = "sink"
"""What the class asks for where a query writes."""
_NEEDED = (
    "org.apache.spark.sql.execution.streaming.Source",
    "org.apache.spark.sql.execution.streaming.Sink",
    "org.apache.spark.sql.execution.streaming.runtime.SerializedOffset",
    "org.apache.spark.sql.classic.Dataset",
    "org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback",
    "org.apache.spark.sql.catalyst.FileSourceOptions",
    "org.apache.spark.paths.SparkPath",
    f"{PACKAGE}.FileScanRDD",
    f"{PACKAGE}.PartitionedFile",
    f"{PACKAGE}.parquet.ParquetFileFormat",
    BESIDE,
)
SPARK_MINOR = "4.3"
"""The version of which private names are known; its later patches keep them."""
WAREHOUSE, TABLE, SCHEMA = "tidelake.warehouse", "tidelake.table", "tidelake.schema"
"""Options of a source: the warehouse's directory, the table, and the schema that was seen."""

_JAVA = f"""
package {PACKAGE};

public final class {_NAME} implements
    org.apache.spark.sql.sources.StreamSourceProvider,
    org.apache.spark.sql.sources.StreamSinkProvider {{

  public static volatile java.util.function.BiFunction opener;

  private static Object open(String what, Object[] given) {{ return opener.apply(what, given); }}

  public scala.Tuple2 sourceSchema(org.apache.spark.sql.SQLContext context, scala.Option schema,
      String name, scala.collection.immutable.Map options) {{
    return new scala.Tuple2("tidelake",
        open("schema", new Object[] {{ context, null, schema, options }}));
  }}
  public org.apache.spark.sql.execution.streaming.Source createSource(
      org.apache.spark.sql.SQLContext context, String path, scala.Option schema, String name,
      scala.collection.immutable.Map options) {{
    return (org.apache.spark.sql.execution.streaming.Source)
        open("source", new Object[] {{ context, path, schema, options }});
  }}
  public org.apache.spark.sql.execution.streaming.Sink createSink(
      org.apache.spark.sql.SQLContext context, scala.collection.immutable.Map options,
      scala.collection.immutable.Seq partitions,
      org.apache.spark.sql.streaming.OutputMode mode) {{
    return (org.apache.spark.sql.execution.streaming.Sink)
        open("sink", new Object[] {{ context, mode, partitions, options }});
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class StreamWarehouse:
    """A warehouse that streams are opened of.

    Parameters
    ----------
    spark : SparkSession
        Where it is attached.
    catalog : Catalog
        The warehouse.
    name : str
        What the session calls it, as in ``<name>.<database>.<table>``; empty for no name.
    """

    spark: SparkSession
    catalog: Catalog
    name: str = ""


@dataclass(frozen=True, slots=True)
class StreamCall:
    """What Spark asks to open.

    Parameters
    ----------
    warehouses : mapping of str to StreamWarehouse
        Those attached to the session, or to another of this process, by directory.
    options : mapping of str to str
        Of the stream; Spark gives their keys in lower case.
    schema : JavaObject, optional
        The columns that the DataFrame has, of a source.
    how : JavaObject or str, optional
        Of a source its folder in the checkpoint; of a sink the output mode.
    partitions : tuple of str
        What ``partitionBy`` says of a sink.
    session : JavaObject, optional
        The session that asks.
    """

    warehouses: Mapping[str, StreamWarehouse]
    options: Mapping[str, str]
    schema: JavaObject | None
    how: JavaObject | str | None
    partitions: tuple[str, ...] = ()
    session: JavaObject | None = None


class Opens(Protocol):
    """What opens a source or a sink, or says a source's columns."""

    def __call__(self, call: StreamCall) -> JavaObject:
        """The proxy, or the Java schema."""
        ...


class _Warehouses:
    """The warehouses that are attached, by session; of all sessions of this process."""

    def __init__(self) -> None:
        self._known: list[StreamWarehouse] = []
        self._lock = threading.Lock()

    def add(self, added: StreamWarehouse) -> None:
        """Have streams of a warehouse opened; what is attached later wins, a name stays."""
        with self._lock:
            for one in self._known:
                if one.spark is added.spark and _directory(one) == _directory(added):
                    added = replace(added, name=added.name or one.name)
            self._known = [
                one
                for one in self._known
                if one.spark.sparkContext._jsc is not None
                and (one.spark is not added.spark or _directory(one) != _directory(added))
            ]
            self._known.append(added)

    def of(self, java_session: JavaObject) -> dict[str, StreamWarehouse]:
        """Those of a session; of other sessions where it has none, such as a clone of one."""
        with self._lock:
            known = list(self._known)
        own = {
            _directory(one): one for one in known if one.spark._jsparkSession.equals(java_session)
        }
        return {_directory(one): one for one in known} | own


def _directory(warehouse: StreamWarehouse) -> str:
    return str(warehouse.catalog.warehouse)


_warehouses = _Warehouses()
_opening = threading.Lock()


class StreamOpener(Proxy, implements=("java.util.function.BiFunction",)):
    """Opens what the Java class is asked for; one for all sessions of this process."""

    def apply(self, what: str, given: JavaObject) -> JavaObject:
        """Open a source or a sink, or say a source's columns."""
        context, how, third, options = given
        session = context.sparkSession()
        known = _warehouses.of(session)
        if what not in _opens or not known:
            message = (
                f"No warehouse is attached to this session, so it has no {what} of a stream: attach"
                " one, tl = tidelake.spark.attach(spark, warehouse)."
            )
            raise InvalidInputError(message, kind="stream_provider")
        if what == SINK:
            partitions = tuple(str(third.apply(i)) for i in range(third.size()))
            call = StreamCall(known, _options(options), None, how, partitions, session)
        else:
            frozen = third.get() if third is not None and third.isDefined() else None
            call = StreamCall(known, _options(options), frozen, how, session=session)
        return _opens[what](call)

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Nothing is done after it."""
        message = "What opens streams is not put together with other functions."
        raise UnsupportedError(message, kind="stream_provider")


_opens: dict[str, Opens] = {}


def offer_streams(spark: SparkSession, catalog: Catalog, *, name: str = "", **opens: Opens) -> None:
    """Have streams of a warehouse's tables opened in a session, once they are asked for.

    Parameters
    ----------
    spark : SparkSession
        A classic one, to which the warehouse is attached.
    catalog : Catalog
        The warehouse.
    name : str
        What the session calls it.
    **opens : callable
        What opens a ``source`` and a ``sink``, and says the ``schema`` of a source.
    """
    _warehouses.add(StreamWarehouse(spark, catalog, name))
    _opens.update(opens)


def provider_class(gateway: Gateway) -> str:
    """The name of the class, which is defined where this JVM has none yet.

    Raises
    ------
    UnsupportedError
        This is another minor version of Spark, or does not have what a stream needs.
    """
    _check_minor(gateway.spark.version)
    ensure_callback_server_started(gateway.spark.sparkContext._gateway)
    let_refusals_through(gateway.spark)
    find = gateway.java("java.lang.Class").forName
    for name in _NEEDED:
        try:
            find(name)
        except Py4JError as error:
            message = (
                f"Spark {gateway.spark.version} has no {name}, which a stream of Tidelake needs:"
                " use Spark 4.3, or read the table in batches (tl.table, tl.changes)."
            )
            raise UnsupportedError(message, kind="spark_version") from error
    with _opening:
        field = defined_class(gateway, _NAME, _JAVA).getField("opener")
        if field.get(None) is None:
            field.set(None, StreamOpener(gateway))
    return PROVIDER_CLASS


def _check_minor(version: str) -> None:
    """Refuse a version whose private names are other ones, though all of these were there."""
    if version.split(".")[:2] != SPARK_MINOR.split("."):
        message = (
            f"Streams of Tidelake are for Spark {SPARK_MINOR}, and this is Spark {version}: use"
            f" Spark {SPARK_MINOR}, or read the table in batches (tl.table, tl.changes)."
        )
        raise UnsupportedError(message, kind="spark_version")


def ready_class(spark: SparkSession) -> None:
    """Define the class for those who name it themselves; a version that lacks something waits.

    It is refused once a stream is asked for.
    """
    with contextlib.suppress(UnsupportedError):
        provider_class(Gateway(spark))


def fallback_table(
    gateway: Gateway,
    location: str,
    schema: JavaObject,
    options: Mapping[str, str],
    *,
    catalog: str,
) -> JavaObject:
    """A ``CatalogTable`` that names the class: what a table gives Spark to open streams of it.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    location : str
        The table's directory; a sink gets no more than this.
    schema : JavaObject
        The columns of a source.
    options : mapping of str to str
        What a source gets beside the user's options: :data:`WAREHOUSE`, :data:`TABLE` and
        :data:`SCHEMA`.
    catalog : str
        What statements call the warehouse: after each batch into the table Spark refreshes what it
        cached of it, by its whole name.
    """
    kind = "org.apache.spark.sql.catalyst.catalog"
    some = gateway.java("scala.Some")
    kept = getattr(gateway.java("scala.collection.immutable.Map$"), "MODULE$").empty()
    for key, value in options.items():
        kept = kept.updated(key, value)
    none = gateway.java(f"{kind}.CatalogStorageFormat").empty()
    place = some(gateway.java("java.net.URI").create(quote(f"file:{location}", safe="/:")))
    storage = none.copy(
        place,
        none.inputFormat(),
        none.outputFormat(),
        none.serde(),
        False,
        kept,
        none.serdeName(),
    )
    database, _, name = options[TABLE].partition(".")
    named = gateway.java("org.apache.spark.sql.catalyst.TableIdentifier")
    identifier = named(name, some(database), some(catalog))
    table = gateway.java(f"{kind}.CatalogTable")
    external = gateway.java(f"{kind}.CatalogTableType").EXTERNAL()
    provider = some(provider_class(gateway))
    rest = [getattr(table, f"apply$default${n}")() for n in range(6, _PARTS_OF_A_TABLE + 1)]
    return table(identifier, external, storage, schema, provider, *rest)


_PARTS_OF_A_TABLE = 22


def _options(given: JavaObject) -> dict[str, str]:
    """A Scala map of strings, with keys in lower case, as Spark gives most of them."""
    said = {}
    pairs = given.iterator()
    while pairs.hasNext():
        pair = pairs.next()
        said[str(pair._1()).lower()] = str(pair._2())
    return said
