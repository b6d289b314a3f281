"""Defines, without a jar, the class by which Spark finds our streams.

``spark.readStream.table`` and ``FROM STREAM t`` fall back to Spark's older interface if a table
offers a ``CatalogTable``. It names a class, which Spark creates by reflection. A Python object has
no such name. So:

1. Twenty lines of Java implement ``StreamSourceProvider`` and ``StreamSinkProvider``, and pass each
   call to one Python object.
2. :mod:`tidelake.spark.jvm.java_class` compiles them and defines the class where Spark looks for
   it.
3. There is one Python object (:class:`StreamOpener`) for each JVM. It knows the attached warehouses
   and calls the functions that open sources and sinks.

Only the driver needs the class. It uses private names of Spark. A version that lacks one of those
that its minor version has is refused (:func:`provider_class`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol
from urllib.parse import quote

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, Proxy
from tidelake.spark.callbacks.refusal import let_refusals_through
from tidelake.spark.jvm.java_class import BESIDE, PACKAGE, defined_class
from tidelake.spark.jvm.private_names import names_of
from tidelake.spark.versions import check_supported, minor_of

_NAME = "TidelakeStreams"
PROVIDER_CLASS = f"{PACKAGE}.{_NAME}"
"""The name for ``readStream.format(...)`` and ``writeStream.format(...)``."""
SINK = "sink"
"""The class's request for a sink."""
_USERS = (
    *(_NAME, "TidelakeBatch", "TidelakeFiles", "streams.connector.source"),
    *("streams.connector.sink", "streams.connector.provider", "catalog.table"),
)
WAREHOUSE, TABLE, SCHEMA = "tidelake.warehouse", "tidelake.table", "tidelake.schema"
"""Options of a source: the warehouse's URI, the table, and the schema of the frame."""
FILTER = "tidelake.filter"
"""Option of a source: names a filter that the source applies by itself."""


@dataclass(frozen=True, slots=True)
class StreamWarehouse:
    """A warehouse whose streams can be opened.

    Parameters
    ----------
    name : str
        Its name in the session, as in ``<name>.<database>.<table>``; empty without one.
    """

    spark: SparkSession
    catalog: Catalog
    name: str = ""


@dataclass(frozen=True, slots=True)
class StreamCall:
    """Spark's request to open a source or sink.

    Parameters
    ----------
    options : mapping of str to str
        Options of the stream, with keys in lower case.
    how : JavaObject or str, optional
        For a source: its folder in the checkpoint; for a sink: the output mode.
    partitions : tuple of str
        For a sink: the columns of ``partitionBy``.
    """

    warehouses: Mapping[str, StreamWarehouse]
    options: Mapping[str, str]
    schema: JavaObject | None
    how: JavaObject | str | None
    partitions: tuple[str, ...] = ()
    session: JavaObject | None = None


class Opens(Protocol):
    """Opens a source or a sink, or finds a source's columns."""

    def __call__(self, call: StreamCall) -> JavaObject:
        """Return the proxy, or the Java schema."""
        ...


class _Warehouses:
    """The attached warehouses of all sessions of this process."""

    def __init__(self) -> None:
        self._known: list[StreamWarehouse] = []
        self._lock = threading.Lock()

    def add(self, added: StreamWarehouse) -> None:
        """Add a warehouse; one attached later replaces it, but keeps its name."""
        with self._lock:
            for one in self._known:
                if one.spark is added.spark and _uri(one) == _uri(added):
                    added = replace(added, name=added.name or one.name)
            self._known = [
                one
                for one in self._known
                if one.spark.sparkContext._jsc is not None
                and (one.spark is not added.spark or _uri(one) != _uri(added))
            ]
            self._known.append(added)

    def of(self, java_session: JavaObject) -> dict[str, StreamWarehouse]:
        """Find a session's warehouses; those of others if it has none, such as a cloned session."""
        with self._lock:
            known = list(self._known)
        own = {_uri(one): one for one in known if one.spark._jsparkSession.equals(java_session)}
        return {_uri(one): one for one in known} | own


def _uri(warehouse: StreamWarehouse) -> str:
    return warehouse.catalog.uri


_warehouses = _Warehouses()
_opening = threading.Lock()


class StreamOpener(Proxy, implements=("java.util.function.BiFunction",)):
    """Handles the requests of the Java class; one for all sessions of this process."""

    def apply(self, what: str, given: JavaObject) -> JavaObject:
        """Open a source or a sink, or find a source's columns."""
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
            call = StreamCall(known, string_options(options), None, how, partitions, session)
        else:
            frozen = third.get() if third is not None and third.isDefined() else None
            call = StreamCall(known, string_options(options), frozen, how, session=session)
        return _opens[what](call)

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Refuse, as nothing may follow it."""
        message = "The function that opens streams cannot be composed with others."
        raise UnsupportedError(message, kind="stream_provider")


_opens: dict[str, Opens] = {}


def offer_streams(spark: SparkSession, catalog: Catalog, *, name: str = "", **opens: Opens) -> None:
    """Make the streams of a warehouse's tables available in a session.

    Parameters
    ----------
    **opens : callable
        Functions that open a ``source`` and a ``sink``, and find the ``schema`` of a source.
    """
    _warehouses.add(StreamWarehouse(spark, catalog, name))
    _opens.update(opens)


def provider_class(gateway: Gateway) -> str:
    """Return the name of the class; define it if this JVM lacks it.

    Raises
    ------
    UnsupportedError
        Spark is too old or too new, lacks a name that streams need, or does not take the class.
    """
    version = gateway.spark.version
    check_supported(version)
    needed = needed_names(minor_of(version))
    ensure_callback_server_started(gateway.spark.sparkContext._gateway)
    let_refusals_through(gateway.spark)
    gateway.kept(needed, lambda: _check_names(gateway, needed))
    try:
        with _opening:
            field = defined_class(gateway.spark, _NAME).getField("opener")
            if field.get(None) is None:
                field.set(None, StreamOpener(gateway))
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        message = (
            f"Spark {version} does not take a Java class of Tidelake that streams need: {error}."
            " Read the table in batches (tl.table, tl.changes)."
        )
        raise UnsupportedError(message, kind="spark_version") from error
    return PROVIDER_CLASS


def needed_names(minor: str) -> tuple[str, ...]:
    """The private names that streams need of a minor version of Spark."""
    return (BESIDE, *names_of(*_USERS, minor=minor))


def _check_names(gateway: Gateway, needed: Sequence[str]) -> bool:
    """Refuse a patch version of Spark that lacks a name."""
    find = gateway.java("java.lang.Class").forName
    for name in needed:
        try:
            find(name)
        except Py4JError as error:
            message = (
                f"Spark {gateway.spark.version} has no {name}, which a stream of Tidelake needs:"
                " use a later patch version, or read the table in batches (tl.table, tl.changes)."
            )
            raise UnsupportedError(message, kind="spark_version") from error
    return True


def ready_class(spark: SparkSession) -> None:
    """Define the class for users who name it; do nothing on an unsupported version.

    Such a version is refused when a stream is opened.
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
    """Make the ``CatalogTable`` that names the class, with which Spark opens a table's streams.

    Parameters
    ----------
    location : str
        The URI of the directory of the table, or of its branch; a sink gets only this.
    options : mapping of str to str
        Options of a source besides the user's: :data:`WAREHOUSE`, :data:`TABLE` and :data:`SCHEMA`.
    catalog : str
        The warehouse's name in statements: after each batch Spark refreshes its cache of the table
        by the full name.
    """
    kind = "org.apache.spark.sql.catalyst.catalog"
    some = gateway.java("scala.Some")
    kept = getattr(gateway.java("scala.collection.immutable.Map$"), "MODULE$").empty()
    for key, value in options.items():
        kept = kept.updated(key, value)
    none = gateway.java(f"{kind}.CatalogStorageFormat").empty()
    parts = _PARTS_OF_A_TABLE[minor_of(gateway.spark.version)]
    place = some(gateway.java("java.net.URI").create(quote(_with_scheme(location), safe="/:")))
    storage = none.copy(
        place,
        none.inputFormat(),
        none.outputFormat(),
        none.serde(),
        False,
        kept,
        *([none.serdeName()] if parts > _PARTS_BEFORE else []),
    )
    database, _, name = options[TABLE].partition(".")
    named = gateway.java("org.apache.spark.sql.catalyst.TableIdentifier")
    identifier = named(name, some(database), some(catalog))
    table = gateway.java(f"{kind}.CatalogTable")
    external = gateway.java(f"{kind}.CatalogTableType").EXTERNAL()
    provider = some(provider_class(gateway))
    rest = [getattr(table, f"apply$default${n}")() for n in range(6, parts + 1)]
    return table(identifier, external, storage, schema, provider, *rest)


_PARTS_BEFORE = 21
_PARTS_OF_A_TABLE = {"4.0": _PARTS_BEFORE, "4.1": _PARTS_BEFORE, "4.2": 22, "4.3": 22}
"""Arguments of a ``CatalogTable`` by minor version; the storage's grew by one with them."""


def _with_scheme(location: str) -> str:
    return location if "://" in location else f"file:{location}"


def string_options(given: JavaObject) -> dict[str, str]:
    """Convert a Scala map of strings, with keys in lower case, as Spark passes most of them."""
    said = {}
    pairs = given.iterator()
    while pairs.hasNext():
        pair = pairs.next()
        said[str(pair._1()).lower()] = str(pair._2())
    return said
