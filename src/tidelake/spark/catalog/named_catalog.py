"""A catalog of ours that Spark makes by itself, in every session of a JVM.

``attach`` puts a catalog into one session. The sessions of Spark Connect are made by its server,
one for each client, and again for a stream or a clone. So:

1. The setting ``spark.sql.catalog.<name>`` of Spark's context names a Java class of ours
   (``TidelakeCatalog``), which Spark makes in a session that asks for the name first.
2. The class asks one Python object of the JVM (:class:`CatalogMaker`) for that session's catalog,
   and passes all calls on to it.
3. The maker puts the rules of our scans into the session, too.

A batch of ``foreachBatch`` has a clone of the session that started its stream: with its settings,
but without its catalogs. So ``attach`` offers its catalog to the clones, by the same setting of its
session alone. A second setting tells apart what several sessions have attached by one name.

The class lies beside Spark's own, where the loaders of all sessions find it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NoReturn, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.errors import NotFoundError, UnsupportedError
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, Proxy
from tidelake.spark.catalog.registration import (
    CATALOG_CLASS,
    CLASS_NAME,
    made_catalog,
    put_catalog,
)
from tidelake.spark.catalog.table_catalog import LakeCatalog
from tidelake.spark.jvm.java_class import defined_class
from tidelake.spark.jvm.slower import warn_slower

RunnerOf: TypeAlias = Callable[[SparkSession, Catalog], ProcedureRunner | None]
_offered: dict[tuple[str, str | None], tuple[Catalog, RunnerOf]] = {}
"""By name, for all sessions of the JVM of this process; or for the clones of one of them."""
_OFFER = "spark.sql.catalog.{}.offer"
"""The setting that tells the offers to clones apart."""
_BY_TL = "spark.sql in foreachBatch knows no tables of Tidelake, and tl.merge is to be used there"
_numbers = count()
_makers: list[CatalogMaker] = []
"""The one of the JVM, once it is made."""


class CatalogMaker(Proxy, implements=("java.util.function.BiFunction",)):
    """Makes the catalogs of the sessions of a JVM."""

    def apply(self, name: str, session: JavaObject) -> LakeCatalog:
        """The catalog of a name, for a session."""
        spark = SparkSession(self.gateway.spark.sparkContext, session)
        offered = _offered.get((name, spark.conf.get(_OFFER.format(name), None)))
        if offered is None:
            message = (
                f"No warehouse has the name '{name}': give one to tidelake.spark.connect_server."
            )
            raise NotFoundError(message, kind="catalog_not_found", name=name)
        catalog, runner_of = offered
        return made_catalog(spark, catalog, name=name, runner_of=lambda of: runner_of(spark, of))

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Refuse, as nothing may follow it."""
        message = "The function that makes catalogs cannot be composed with others."
        raise UnsupportedError(message, kind="catalog_maker")


def offer_catalog(
    spark: SparkSession,
    catalog: Catalog,
    *,
    name: str,
    runner_of: RunnerOf,
) -> None:
    """Make the tables of a warehouse known to the sessions that Spark makes from now on.

    Parameters
    ----------
    spark : SparkSession
        A session of the JVM; its own catalogs stay as they are.
    runner_of : callable
        Compacts the tables of a catalog, on a session.
    """
    _put_maker(spark)
    _offered[name, None] = (catalog, runner_of)
    # sessions take the settings of the context when they are made
    spark.sparkContext._jsc.sc().conf().set(f"spark.sql.catalog.{name}", CATALOG_CLASS)


def register(spark: SparkSession, catalog: Catalog, *, name: str, runner_of: RunnerOf) -> bool:
    """Make the tables of a warehouse known to a session, and to clones: to batches of its streams.

    Where Spark does not take the class for clones, a warning says so.

    Parameters
    ----------
    name, runner_of
        As of :func:`offer_catalog`.

    Returns
    -------
    bool
        As of :func:`tidelake.spark.catalog.registration.put_catalog`, which raises its errors.
    """
    known = put_catalog(spark, catalog, name=name, runner_of=lambda of: runner_of(spark, of))
    if known:
        _offer_to_clones(spark, catalog, name=name, runner_of=runner_of)
    return known


def _offer_to_clones(
    spark: SparkSession, catalog: Catalog, *, name: str, runner_of: RunnerOf
) -> None:
    try:
        _put_maker(spark)
    except (Py4JError, TypeError) as error:  # py4j calls a class that is missing a package
        warn_slower(_BY_TL, spark.version, error)
        return
    key = _OFFER.format(name)
    number = spark.conf.get(key, None) or str(next(_numbers))
    _offered[name, number] = (catalog, runner_of)
    spark.conf.set(key, number)
    spark.conf.set(f"spark.sql.catalog.{name}", CATALOG_CLASS)


def _put_maker(spark: SparkSession) -> None:
    """Let the class ask this process; again when there is another context, of other sessions."""
    if _makers and _makers[0].gateway.spark.sparkContext is spark.sparkContext:
        return
    _offered.clear()
    maker = CatalogMaker(Gateway(spark))
    defined_class(spark, CLASS_NAME).getField("maker").set(None, maker)
    _makers[:] = [maker]
