"""The service of ``tidelake serve --on spark``: a session of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tidelake.spark
from tidelake.cli.arguments import ServeArguments
from tidelake.cli.on_spark.quiet_session import quiet_session
from tidelake.cli.serve_command import Service, connection
from tidelake.engine.tables import open_catalog

APP = "tidelake serve"


@contextmanager
def service(arguments: ServeArguments) -> Iterator[Service]:
    """Start Spark and the service; Spark is stopped where the block is left.

    Raises
    ------
    TidelakeError
        Spark did not start, or the service would leave it no slot.
    """
    spark = quiet_session(APP, master=arguments.master, conf=arguments.conf)
    try:
        catalog = open_catalog(
            arguments.warehouse, catalog=arguments.catalog_options, memory=arguments.memory
        )
        lake = tidelake.spark.attach(spark, catalog, spark_sql=False)
        yield lake.serve(
            arguments.tables, parallelism=arguments.parallelism, **connection(arguments)
        )
    finally:
        spark.stop()
