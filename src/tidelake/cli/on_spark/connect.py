"""The server of ``tidelake connect``: a session of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tidelake.spark
from tidelake.cli.arguments import ConnectArguments
from tidelake.cli.on_spark.quiet_session import quiet_session
from tidelake.engine.tables import Catalog

APP = "tidelake connect"


@contextmanager
def connect(
    given: ConnectArguments, catalog: Catalog, *, token: str | None
) -> Iterator[tidelake.spark.ConnectServer]:
    """Start Spark and the server; both end where the block is left.

    Raises
    ------
    TidelakeError
        Spark did not start, or the port is in use.
    """
    spark = quiet_session(APP, master=given.master, conf=given.conf)
    try:
        lake = tidelake.spark.attach(spark, catalog, catalog=given.catalog)
        with tidelake.spark.connect_server(lake, port=given.port, token=token) as server:
            yield server
    finally:
        spark.stop()
