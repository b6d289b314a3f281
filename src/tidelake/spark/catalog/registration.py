"""Adds a catalog of ours to a Spark session.

Spark makes catalogs from class names in its settings (``spark.sql.catalog.<name>``), which a Python
object does not have. A session keeps its catalogs in a private map. Ours is put into that map by
reflection: Spark 4.3's ``DefaultCatalogManager.catalogs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.storage import sends_secrets
from tidelake.engine.tables import Catalog, open_catalog
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.callbacks.gateway import Gateway
from tidelake.spark.callbacks.refusal import let_refusals_through
from tidelake.spark.catalog.row_changes import install_row_changes
from tidelake.spark.catalog.scans.scan_rule import install_rule
from tidelake.spark.catalog.table_catalog import CATALOG_SHOWN, LakeCatalog
from tidelake.spark.jvm.java_class import PACKAGE
from tidelake.spark.streams.connector.named_sinks import install_named_sinks

RESERVED = frozenset({"spark_catalog", "system", "session", "builtin", "global_temp"})
MAP_FIELD = "catalogs"
CLASS_NAME = "TidelakeCatalog"
CATALOG_CLASS = f"{PACKAGE}.{CLASS_NAME}"
"""What a setting ``spark.sql.catalog.<name>`` of ours says."""


def put_catalog(
    spark: SparkSession,
    catalog: Catalog,
    *,
    name: str,
    runner_of: Callable[[Catalog], ProcedureRunner | None] | None = None,
) -> bool:
    """Make the tables of a warehouse known to ``spark.sql`` and ``spark.table``.

    Parameters
    ----------
    spark : SparkSession
        Of this session alone: ``newSession()`` does not know it, but by
        :mod:`tidelake.spark.catalog.named_catalog`.
    name : str
        Its name in statements. It replaces a warehouse that had the name before.
    runner_of : callable, optional
        Compacts the tables of a catalog; this process by default.

    Returns
    -------
    bool
        Whether it was added; never on Spark Connect, where there is no JVM.

    Raises
    ------
    InvalidInputError
        The name is Spark's, or that of a catalog in the session's settings.
    UnsupportedError
        This version of Spark keeps its catalogs elsewhere.
    """
    if is_remote() or not hasattr(spark, "_jsparkSession"):
        return False
    setting = f"spark.sql.catalog.{name}"
    if name.lower() in RESERVED or spark.conf.get(setting, None) not in (None, CATALOG_CLASS):
        owner = "Spark's own" if name.lower() in RESERVED else f"set by '{setting}'"
        message = (
            f"This session already has a catalog '{name}' ({owner}): choose another name,"
            f" attach(spark, warehouse, catalog='...'), or turn spark.sql off with"
            " spark_sql=False."
        )
        raise InvalidInputError(message, kind="catalog_name", name=name)
    made = _catalogs(spark)
    if made.get(name).isDefined() and not is_put(spark, name):
        message = (
            f"This session already has a catalog '{name}': choose another name,"
            f" attach(spark, warehouse, catalog='...'), or turn spark.sql off with"
            " spark_sql=False."
        )
        raise InvalidInputError(message, kind="catalog_name", name=name)
    made.put(name, made_catalog(spark, catalog, name=name, runner_of=runner_of))
    return True


def is_put(spark: SparkSession, name: str) -> bool:
    """Whether a session has a catalog of ours by this name."""
    if is_remote() or not hasattr(spark, "_jsparkSession"):
        return False
    known = _catalogs(spark).get(name)
    return bool(known.isDefined()) and str(known.get().toString()).startswith(CATALOG_SHOWN)


def made_catalog(
    spark: SparkSession,
    catalog: Catalog,
    *,
    name: str,
    runner_of: Callable[[Catalog], ProcedureRunner | None] | None = None,
) -> LakeCatalog:
    """A warehouse as a catalog of one session, which gets the rules of our scans."""
    ensure_callback_server_started(spark.sparkContext._gateway)
    let_refusals_through(spark)
    gateway = Gateway(spark)
    install_rule(gateway)
    install_row_changes(gateway)
    install_named_sinks(gateway)
    return LakeCatalog(gateway, catalog, name=name, runner_of=runner_of)


def opened_catalog(
    warehouse: str | Path | Catalog,
    *,
    options: Mapping[str, object] | None,
    storage: Mapping[str, object] | None,
    memory: int | str | None,
) -> Catalog:
    """Open a warehouse, or take a catalog that is open.

    Raises
    ------
    InvalidInputError
        Options, memory or keys of a storage are given for a catalog that is open.
    UnsupportedError
        Executors would not get the keys of its storage, because the session is one of Spark
        Connect.
    """
    if not isinstance(warehouse, Catalog):
        opened = open_catalog(warehouse, options=options, storage=storage, memory=memory)
        return _reachable(opened)
    if (options, storage, memory) != (None, None, None):
        message = (
            "attach() was given an opened catalog: give its options, memory and storage to"
            " tidelake.open()."
        )
        raise InvalidInputError(message, kind="bad_argument", argument="options")
    return _reachable(warehouse)


def _reachable(catalog: Catalog) -> Catalog:
    """A catalog whose storage executors can open."""
    if is_remote() and sends_secrets(catalog.fileio):
        message = (
            f"The keys of {catalog.uri} do not reach executors through Spark Connect: give none"
            " in storage=, and let its server and executors find keys of their own, in their"
            " environment or by their role."
        )
        raise UnsupportedError(message, kind="spark_connect")
    return catalog


def _catalogs(spark: SparkSession) -> Any:
    """The session's map of the catalogs that it has made."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    kind = manager.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if field.getName().endswith(MAP_FIELD):
                field.setAccessible(True)
                return field.get(manager)
        kind = kind.getSuperclass()
    message = (
        f"Spark {spark.version} keeps its catalogs in another way than 4.0 to 4.3: use tl.sql and"
        " tl.table, and attach(..., spark_sql=False)."
    )
    raise UnsupportedError(message, kind="spark_version")
