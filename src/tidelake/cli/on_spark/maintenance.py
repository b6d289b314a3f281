"""The workers of ``tidelake compact --on spark``: a session of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tidelake.spark
from tidelake.cli.on_spark.quiet_session import quiet_session
from tidelake.cli.upkeep.arguments import CompactArguments
from tidelake.engine.jobs import MaintenanceRound, TablePlan
from tidelake.engine.tables import Catalog, open_catalog
from tidelake.engine.write import WriteResult
from tidelake.errors import TidelakeError
from tidelake.spark import Lake

APP = "tidelake compact"


@contextmanager
def maintainer(arguments: CompactArguments) -> Iterator[SparkMaintainer]:
    """Start Spark; it is stopped where the block is left.

    Raises
    ------
    TidelakeError
        Spark did not start.
    """
    spark = quiet_session(APP, master=arguments.master, conf=arguments.conf)
    try:
        catalog = open_catalog(
            arguments.warehouse, catalog=arguments.catalog_options, memory=arguments.memory
        )
        yield SparkMaintainer(tidelake.spark.attach(spark, catalog, spark_sql=False))
    finally:
        spark.stop()


class SparkMaintainer:
    """The executors of a session."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @property
    def catalog(self) -> Catalog:
        """The catalog whose tables it works on."""
        return self._lake.catalog

    def maintain(self, *tables: str, **job: Any) -> MaintenanceRound | tuple[TablePlan, ...]:
        """Keep tables healthy."""
        return self._lake.maintain(*tables, **job)

    def compact_all(
        self, tables: tuple[str, ...], *, full: bool, options: Mapping[str, str]
    ) -> Iterator[tuple[str, WriteResult | TidelakeError]]:
        """Compact tables, one after the other."""
        for name in self._lake.catalog.maintenance_job(*tables).tables():
            try:
                yield name, self._lake.compact(name, full=full, options=options)
            except TidelakeError as error:
                yield name, error
