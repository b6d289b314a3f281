"""A catalog of ours that Spark makes by itself, in every session of a JVM.

``attach`` puts a catalog into one session. The sessions of Spark Connect are made by its server,
one for each client, and again for a stream or a clone. So:

1. The setting ``spark.sql.catalog.<name>`` of Spark's context names a Java class of ours
   (``TidelakeCatalog``), which Spark makes in a session that asks for the name first.
2. The class asks one Python object of the JVM (:class:`CatalogMaker`) for that session's catalog,
   and passes all calls on to it.
3. The maker puts the rules of our scans into the session, too.

The class lies beside Spark's own, where the loaders of all sessions find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeAlias

from pyspark.sql import SparkSession

from tidelake.engine.tables import Catalog
from tidelake.errors import NotFoundError, UnsupportedError
from tidelake.maintenance.procedure import ProcedureRunner
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, Proxy
from tidelake.spark.catalog.registration import CATALOG_CLASS, CLASS_NAME, made_catalog
from tidelake.spark.catalog.table_catalog import LakeCatalog
from tidelake.spark.jvm.java_class import defined_class

RunnerOf: TypeAlias = Callable[[SparkSession, Catalog], ProcedureRunner]
_offered: dict[str, tuple[Catalog, RunnerOf]] = {}
"""By name, for the JVM of this process."""


class CatalogMaker(Proxy, implements=("java.util.function.BiFunction",)):
    """Makes the catalogs of the sessions of a JVM."""

    def apply(self, name: str, session: JavaObject) -> LakeCatalog:
        """The catalog of a name, for a session."""
        if name not in _offered:
            message = (
                f"No warehouse has the name '{name}': give one to tidelake.spark.connect_server."
            )
            raise NotFoundError(message, kind="catalog_not_found", name=name)
        catalog, runner_of = _offered[name]
        spark = SparkSession(self.gateway.spark.sparkContext, session)
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
    _offered[name] = (catalog, runner_of)
    maker = CatalogMaker(Gateway(spark))
    defined_class(spark, CLASS_NAME).getField("maker").set(None, maker)
    # sessions take the settings of the context when they are made
    spark.sparkContext._jsc.sc().conf().set(f"spark.sql.catalog.{name}", CATALOG_CLASS)
