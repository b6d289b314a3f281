"""Serves Spark Connect out of this process; each client's session has a warehouse as a catalog.

1. A classic session is started, or that of a :class:`~tidelake.spark.lake.Lake` is taken.
2. The warehouse is offered to the sessions that Spark makes from now on
   (:mod:`tidelake.spark.catalog.named_catalog`).
3. Spark Connect's own service starts in this JVM, on this machine's own address, with a token. Its
   settings are those of Spark's context, which it reads when it starts.

Any client plans nothing of ours: it needs PySpark alone. Its statements, tasks and streams run here
and on this session's executors.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.engine.tables import Catalog
from tidelake.errors import AlreadyExistsError, InvalidInputError, StorageError, UnsupportedError
from tidelake.spark.catalog.named_catalog import offer_catalog
from tidelake.spark.lake import DEFAULT_CATALOG, Lake, attach
from tidelake.spark.sessions.session import is_running, is_stopped, session

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_HOST = "127.0.0.1"
PORT_MAX = 65_535
TOKEN_BYTES, TOKEN_LENGTH_MIN = 32, 16
_TOKEN = re.compile(rf"[\w.~-]{{{TOKEN_LENGTH_MIN},}}", re.ASCII)
_IN_USE = "BindException"


class ConnectServer:
    """A running server of Spark Connect; made by :func:`connect_server`.

    Attributes
    ----------
    lake : Lake
        The warehouse in this process.
    port : int
        Where clients connect, on this machine's own address.
    token : str
        What they must say.
    """

    def __init__(self, lake: Lake, service: Any, *, token: str, owns_session: bool) -> None:
        self.lake = lake
        self.port = int(service.localPort())
        self.token = token
        self._service = service
        self._owns_session = owns_session
        self._is_stopped = False

    def __repr__(self) -> str:
        state = "stopped" if self._is_stopped else f"port {self.port}"
        return f"ConnectServer({state}, '{self.lake.catalog.uri}')"

    @property
    def url(self) -> str:
        """For ``SparkSession.builder.remote``; it contains the token.

        The name ``localhost`` tells clients to send the token without TLS.
        """
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def is_running(self) -> bool:
        """False once it has ended, or Spark has."""
        return not self._is_stopped and not is_stopped(self.lake._spark)

    def stop(self) -> None:
        """End the clients' sessions, their statements and streams, and a session of its own.

        Does nothing twice.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        spark = self.lake._spark
        if is_stopped(spark):
            return
        none = spark.sparkContext._gateway.jvm.scala.Option.empty()
        self._service.stop(none, none)
        if self._owns_session:
            spark.stop()

    def __enter__(self) -> ConnectServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def connect_server(
    warehouse: str | Path | Catalog | Lake,
    *,
    port: int = 0,
    token: str | None = None,
    catalog: str = DEFAULT_CATALOG,
    master: str | None = None,
    conf: Mapping[str, object] | None = None,
) -> ConnectServer:
    """Serve a warehouse to clients of Spark Connect on this machine.

    Parameters
    ----------
    warehouse : str, Path, Catalog or Lake
        As of :func:`attach`; or what it gave, whose session then runs the clients' statements.
    port : int
        Where clients connect; a free one by default.
    token : str, optional
        What clients must say; a new one by default.
    catalog : str
        The warehouse's name in the clients' statements; that of the `Lake`, if one is given.
    master, conf
        As of :func:`session`.

    Returns
    -------
    ConnectServer
        Its ``url`` is for clients; its ``stop()`` ends it, as does the end of a ``with``.

    Raises
    ------
    InvalidInputError
        The port or the token cannot be one.
    AlreadyExistsError
        This process serves Spark Connect already.
    StorageError
        The port is in use.
    """
    _check(port, token)
    owns_session = False
    if isinstance(warehouse, Lake):
        lake = warehouse
    else:
        owns_session = not is_running()
        spark = session("tidelake connect", master=master, conf=conf)
        lake = attach(spark, warehouse, catalog=catalog)
    spark = lake.spark
    if is_remote():
        message = (
            "connect_server needs a session with a JVM of its own, and this one is a client of"
            " Spark Connect: start it in a process without SPARK_REMOTE."
        )
        raise UnsupportedError(message, kind="spark_connect")
    given = token if token is not None else secrets.token_urlsafe(TOKEN_BYTES)
    try:
        offer_catalog(spark, lake.catalog, name=lake.catalog_name, runner_of=Lake)
        service = _start(spark, port=port, token=given)
    except BaseException:
        if owns_session:
            spark.stop()
        raise
    return ConnectServer(lake, service, token=given, owns_session=owns_session)


def _check(port: int, token: str | None) -> None:
    """Refuse what cannot be a port or a token."""
    if not 0 <= port <= PORT_MAX:
        message = f"{port} cannot be a port: give one from 1 to {PORT_MAX}, or 0 for a free one."
        raise InvalidInputError(message, kind="bad_argument", argument="port")
    if token is not None and not _TOKEN.fullmatch(token):
        message = (
            "The token of a server of Spark Connect stands in its URL: give at least"
            f" {TOKEN_LENGTH_MIN} letters, digits, '-', '_', '.' or '~', or none for a new one."
        )
        raise InvalidInputError(message, kind="bad_argument", argument="token")


def _start(spark: SparkSession, *, port: int, token: str) -> Any:
    """Start the service of Spark Connect in the JVM of a session."""
    gateway = spark.sparkContext._gateway
    context = spark.sparkContext._jsc.sc()
    service = getattr(getattr(gateway.jvm, _SERVICE), "MODULE$")
    if service.started():
        message = (
            f"This process serves Spark Connect on port {service.localPort()} already: stop that"
            " server first."
        )
        raise AlreadyExistsError(message, kind="connect_server")
    conf = context.conf()
    conf.set("spark.connect.grpc.binding.address", _HOST)
    conf.set("spark.connect.grpc.binding.port", str(port))
    conf.set("spark.connect.authenticate.token", token)
    try:
        service.start(context)
    except Py4JError as error:
        text = str(error)
        if _IN_USE not in text:
            raise
        message = f"Port {port} of {_HOST} is in use: choose another one, or 0 for a free one."
        raise StorageError(message, kind="address_in_use", port=port) from error
    return service
