"""The query service of local processes, as ``tidelake.serve`` starts it.

The address server runs in this process, in a few threads; each executor is a process of its own,
which is started again when it ends or hangs (:mod:`tidelake.service.local.supervisor`). When this
process is killed, executors end by themselves a few seconds later.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from typing import Protocol

from tidelake.engine.env import ProcessMark
from tidelake.engine.tables import Catalog
from tidelake.errors import StorageError
from tidelake.service.address.address_server import AddressServer
from tidelake.service.address.registry import SILENT_MS
from tidelake.service.local.serve_options import ServeOptions
from tidelake.service.local.supervisor import Supervisor
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

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


def serve_locally(catalog: Catalog, tables: Sequence[str], options: ServeOptions) -> QueryService:
    """Start the service; see :func:`tidelake.serve`."""
    options.check(tables)
    server = options.address_server(catalog, tables)
    try:
        supervisor = Supervisor(
            options.executors(server),
            server.registry.forget,
            server.liveness.hang,
            catalog.env.clock,
        )
    except BaseException:
        server.stop(wait_seconds=0)
        raise
    service = QueryService(server, supervisor)
    atexit.register(service.stop)  # a program that forgets it leaves no file behind
    return service


def _not_ready(status: pb.ServiceStatus) -> list[str]:
    missing = [f"table {t.table}: {t.problem}" for t in status.tables if t.problem]
    newest = {t.table: t.version for t in status.tables}
    reports = {e.index: {t.table: t for t in e.tables} for e in status.executors}
    silent = {e.index: e for e in status.executors if e.heartbeat_age_ms >= SILENT_MS}
    for index in range(status.executors_count):
        if index in silent:
            seconds = silent[index].heartbeat_age_ms / 1000
            missing.append(
                f"executor {index} (process {silent[index].process}) has not reported for"
                f" {seconds:.0f} s: another replaces it if it hangs"
            )
            continue
        for table, version in newest.items():
            report = reports.get(index, {}).get(table)
            if report is None:
                missing.append(f"executor {index} has not registered with table {table}")
            elif not report.ready or _is_older(report.version, version):
                missing.append(f"executor {index}, table {table}: {report.problem or 'building'}")
    return missing


def _is_older(one: pb.Version, other: pb.Version) -> bool:
    return (one.generation, one.snapshot) < (other.generation, other.snapshot)
