"""The query service of local processes, as ``tidelake.serve`` starts it.

The address server runs in this process, in a few threads; each executor is a process of its own,
which is started again when it ends (:mod:`tidelake.service.local.supervisor`). When this process is
killed, executors end by themselves a few seconds later.
"""

from __future__ import annotations

import atexit
import secrets
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tidelake.catalog import Catalog
from tidelake.errors import InvalidInputError, StorageError
from tidelake.service.address.address_server import AddressServer
from tidelake.service.address.security import LOOPBACK, Security, host_of
from tidelake.service.executor.config import ExecutorConfig, Limits
from tidelake.service.local.supervisor import Supervisor
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.telemetry import ProcessMark

__all__ = ["SECRET_BYTES", "Executors", "QueryService", "check_arguments", "serve_locally"]

PARALLELISM_MAX = 1_024
SECRET_BYTES = 32
READY_LOOK_MS = 20


class Executors(Protocol):
    """What runs the executors: processes here, tasks on Spark."""

    @property
    def is_running(self) -> bool:
        """Whether any runs or will be started again."""
        ...

    @property
    def restarts_count(self) -> int:
        """How often one was started again."""
        ...

    def stop(self, *, timeout_s: float = 5.0) -> bool:
        """Start none again and wait for those that run; whether nothing runs any more."""
        ...


class QueryService:
    """A running query service; ends with :meth:`stop`, or a ``with`` block.

    Made by :func:`tidelake.serve`. Not picklable, and not carried over a fork.

    Parameters
    ----------
    server : AddressServer
        Its address server.
    executors : Executors
        What runs its executors.
    """

    def __init__(self, server: AddressServer, executors: Executors) -> None:
        self._server = server
        self._executors = executors
        self._mark = ProcessMark()
        self._lock = threading.Lock()
        self._is_stopped = False

    def __repr__(self) -> str:
        state = "stopped" if self._is_stopped else f"at {self.address}"
        return f"QueryService({self.tables}, {state})"

    @property
    def address(self) -> str:
        """``host:port`` of the address server, where clients begin."""
        return self._server.address

    @property
    def service_id(self) -> str:
        """Unique for each start of a service."""
        return self._server.service_id

    @property
    def tables(self) -> list[str]:
        """The tables that it serves."""
        return self._server.names()

    @property
    def is_running(self) -> bool:
        """Whether it has neither been stopped nor ended, and no operator asked it to stop."""
        if self._is_stopped or self._server.stop_asked.is_set():
            return False
        return self._executors.is_running

    @property
    def executor_pids(self) -> dict[int, int]:
        """Process ids of the executors that have registered, by index."""
        return {e.index: e.process for e in self.status().executors}

    @property
    def restarts_count(self) -> int:
        """How often an executor was started again."""
        return self._executors.restarts_count

    def status(self) -> pb.ServiceStatus:
        """Tables and executors: versions, files, rates; the message of the protocol."""
        return self._server.status()

    def add(self, table: str) -> None:
        """Serve one more table; does nothing if it is served already.

        Raises
        ------
        ConflictError
            Another service serves it.
        NotFoundError, InvalidInputError
            It does not exist, or cannot be read by key.
        """
        self._mark.check("The query service")
        self._server.add(table)

    def remove(self, table: str) -> None:
        """Serve a table no more.

        Raises
        ------
        NotFoundError
            It is not served.
        """
        self._mark.check("The query service")
        self._server.remove(table)

    def wait_ready(self, timeout_seconds: float = 60.0) -> None:
        """Wait until all executors answer for all tables at their newest snapshots.

        Raises
        ------
        StorageError
            Not all do in time; the message says which and why.
        """
        clock = self._server.catalog.env.clock
        end = clock.monotonic_seconds() + timeout_seconds
        while True:
            missing = _not_ready(self.status())
            if not missing:
                return
            if clock.monotonic_seconds() >= end:
                message = (
                    f"The query service is not ready after {timeout_seconds:g} s:"
                    f" {'; '.join(missing[:5])}."
                )
                raise StorageError(message, kind="service_not_ready")
            clock.sleep_ms(READY_LOOK_MS)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until an operator asks the service to stop; whether one did."""
        return self._server.stop_asked.wait(timeout_seconds)

    def stop(self) -> None:
        """Stop executors, remove the service files that are its own; more than once is fine."""
        if not self._mark.is_here:
            return
        with self._lock:
            if self._is_stopped:
                return
            self._is_stopped = True
        atexit.unregister(self.stop)
        self._server.tell_stop()
        self._executors.stop()
        self._server.stop(wait_seconds=0)

    def __enter__(self) -> QueryService:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve_locally(
    catalog: Catalog,
    tables: Sequence[str],
    *,
    parallelism: int = 2,
    bind: str = LOOPBACK,
    security: Security | None = None,
    limits: Limits | None = None,
    directory: str | Path | None = None,
    memory: int | str | None = None,
) -> QueryService:
    """Start the service; see :func:`tidelake.serve`."""
    security, limits = security or Security(), limits or Limits()
    check_arguments(tables, parallelism)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    server = AddressServer(
        catalog, tables, executors_count=parallelism, secret=secret, bind=bind, security=security
    )
    config = ExecutorConfig(
        address=server.address,
        service_id=server.service_id,
        secret=secret,
        warehouse=catalog.warehouse,
        index=0,
        executors_count=parallelism,
        bind=host_of(bind),
        security=security,
        limits=limits,
        directory=None if directory is None else str(Path(directory).absolute()),
        memory=memory,
    )
    try:
        supervisor = Supervisor(config, server.registry.forget, catalog.env.clock)
    except BaseException:
        server.stop(wait_seconds=0)
        raise
    service = QueryService(server, supervisor)
    atexit.register(service.stop)  # a program that forgets it leaves no file behind
    return service


def check_arguments(tables: object, parallelism: object) -> None:
    """Refuse tables that are not a list, and a number of executors out of range.

    Raises
    ------
    InvalidInputError
        One of the two is wrong.
    """
    is_number = isinstance(parallelism, int) and not isinstance(parallelism, bool)
    if not is_number or not 1 <= parallelism <= PARALLELISM_MAX:  # type: ignore[operator]
        message = f"parallelism is {parallelism!r} but must be from 1 to {PARALLELISM_MAX}."
        raise InvalidInputError(message, kind="service_parallelism")
    if isinstance(tables, str) or not isinstance(tables, Sequence):
        message = f"Give the tables as a list of names, such as ['db.t'], not {tables!r}."
        raise InvalidInputError(message, kind="service_table")


def _not_ready(status: pb.ServiceStatus) -> list[str]:
    missing = [f"table {t.table}: {t.problem}" for t in status.tables if t.problem]
    newest = {t.table: t.version for t in status.tables}
    reports = {e.index: {t.table: t for t in e.tables} for e in status.executors}
    for index in range(status.executors_count):
        for table, version in newest.items():
            report = reports.get(index, {}).get(table)
            if report is None:
                missing.append(f"executor {index} has not registered with table {table}")
            elif not report.ready or _is_older(report.version, version):
                missing.append(f"executor {index}, table {table}: {report.problem or 'building'}")
    return missing


def _is_older(one: pb.Version, other: pb.Version) -> bool:
    return (one.generation, one.snapshot) < (other.generation, other.snapshot)
