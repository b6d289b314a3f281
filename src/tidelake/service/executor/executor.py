"""A query executor: registers, pulls changes, builds lookup files, answers, stops when asked to.

1. It listens, then reports to the address server. A report is registration and heartbeat; the
   answer names the tables and the newest version of each, and says when to stop.
2. A table that is behind is updated by one of :data:`UPDATE_THREADS` threads: ask for the changes,
   build the files, swap. A caller that wants a newer snapshot asks for an update at once.
3. The health service says SERVING for a table once it is open, and for ``""`` once all are.
4. It stops by itself after :data:`MISSED_MAX` heartbeats in a row and :data:`LOST_SECONDS` without
   an answer, so a service that was killed leaves no processes. Before that it looks into the
   service files of its tables, and joins an address server of the same service that has started
   elsewhere.
5. It stops at once when another instance has its index.

Nothing here knows of Spark: a task of Spark calls :func:`run_executor`, a local process runs
``python -m tidelake.service.executor``.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tidelake.engine.tables import Catalog, open_catalog
from tidelake.errors import TidelakeError
from tidelake.service.address.access import Access
from tidelake.service.address.listener import Listener
from tidelake.service.address.messages import version_from, version_message
from tidelake.service.address.security import host_of
from tidelake.service.address.token_file import TokenFile
from tidelake.service.executor.config import ExecutorConfig
from tidelake.service.executor.frame_listener import FrameListener
from tidelake.service.executor.in_flight import InFlight
from tidelake.service.executor.lookup import Lookups
from tidelake.service.executor.meter import Meter
from tidelake.service.executor.owned_table import OwnedTable, OwnedTables
from tidelake.service.executor.servicer import ExecutorHealth, TableQueryServicer
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol import tidelake_query_v1_pb2_grpc as rpc
from tidelake.service.protocol.reasons import PROTOCOL, TOKEN_KEY, bearer
from tidelake.service.protocol.service_file import read_service_file

_LOG = logging.getLogger("tidelake.service")

HEARTBEAT_MS = 200
HEARTBEAT_TIMEOUT_SECONDS = 1.0
CHANGES_TIMEOUT_SECONDS = 30.0
MISSED_MAX = 5
LOST_SECONDS = 5.0
UPDATE_THREADS = 2
SLACK_CALLS = 16
"""Calls beyond the limits (of calls, of sessions, and of calls whose message has not come) that
still get a refusal with a reason. Each has a thread, made when it is needed."""
RETRY_MS_MAX = 2_000
STOP_GRACE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ExecutorSummary:
    """What an executor did, said when it ends. Picklable.

    Parameters
    ----------
    reason : str
        Why it ended: ``"stopped"`` with its service, ``"superseded"``, ``"lost"`` (no address
        server), or ``"asked"`` by its process.
    """

    index: int
    attempt: int
    instance: str
    address: str
    process: int
    reason: str
    requests: int = 0
    keys: int = 0
    found: int = 0
    refused: int = 0


@dataclass
class _Update:
    """The update of a table that is wanted or under way."""

    is_running: bool = False
    is_wanted: bool = False
    failures: int = 0
    not_before: float = 0.0


class QueryExecutor:
    """One executor; must be closed.

    Parameters
    ----------
    catalog : Catalog, optional
        The warehouse as it is opened already.

    Raises
    ------
    InvalidInputError
        It may not, or cannot, listen at the address of its settings.
    """

    def __init__(self, config: ExecutorConfig, catalog: Catalog | None = None) -> None:
        self._config = config
        self._catalog = catalog or open_catalog(
            config.warehouse,
            catalog=config.catalog_options,
            storage=config.storage,
            memory=config.memory,
        )
        self._address_server = config.address
        self.instance = self._catalog.env.ids.uuid()
        self.tables = OwnedTables()
        limits, clock = config.limits, self._catalog.env.clock
        self._now = clock.monotonic_seconds
        self.in_flight = InFlight(limits, clock.monotonic_seconds)
        tokens = config.security.tokens
        access = Access(config.secret, TokenFile(tokens, clock) if tokens else None, clock)
        self._listener = Listener(
            config.bind,
            config.security,
            threads=3 * limits.calls + SLACK_CALLS,
            concurrent_max=3 * limits.calls + SLACK_CALLS,
            waiting_max=limits.calls,
            clock=clock,
            access=access,
            request_bytes_max=limits.request_bytes,
        )
        self.address = self._listener.address
        server = self._listener.server
        lookups = Lookups(self.tables, limits, self._poke, clock)
        servicer = TableQueryServicer(lookups, self.in_flight, access)
        rpc.add_TableQueryServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
        self._frames = FrameListener(
            host_of(config.bind),
            servicer,
            limits,
            now=self._now,
            context=config.security.server_context(),
        )
        self.frames_address = f"{self.address.rpartition(':')[0]}:{self._frames.port}"
        self._health = ExecutorHealth()
        self._health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self._healthy: dict[str, bool] = {}
        self._epoch = 0
        self._updates: dict[str, _Update] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._updaters = ThreadPoolExecutor(UPDATE_THREADS, thread_name_prefix="tidelake-update")
        self._channel = config.security.channel(self._address_server)
        self._stub = self._new_stub()

    # ---- life

    def run(self, stop: threading.Event | None = None) -> ExecutorSummary:
        """Work until asked to stop; close in any case."""
        stop = stop or threading.Event()
        self._listener.start()
        self._frames.start()
        _LOG.info("executor %d listens at %s", self._config.index, self.address)
        reason = "asked"
        try:
            reason = self._beat(stop)
        finally:
            meters = [table.meter for table in self.tables.all()]
            self.close(leaving=reason != "lost")
        return self._summary(reason, meters)

    def close(self, *, leaving: bool = True) -> None:
        """Answer no more, say so, and let go of all files."""
        self._health.enter_graceful_shutdown()
        if leaving:
            try:
                self._report(leaving=True)
            except grpc.RpcError:
                _LOG.debug("the address server did not hear that executor leaves")
        self._frames.stop()
        self._listener.stop(STOP_GRACE_SECONDS)
        self._updaters.shutdown(wait=True, cancel_futures=True)
        self.tables.keep(set(), self._table)
        self._channel.close()

    def _beat(self, stop: threading.Event) -> str:
        """Report until there is a reason to stop."""
        missed, heard = 0, self._now()
        wait_ms = HEARTBEAT_MS
        while not stop.is_set():
            try:
                directive = self._report()
            except grpc.RpcError as error:
                missed += 1
                _LOG.info("no answer of the address server: %s", _code(error))
                if missed >= MISSED_MAX and self._now() - heard >= LOST_SECONDS:
                    return "lost"
                self._look_elsewhere()
            else:
                missed, heard = 0, self._now()
                if directive.superseded:
                    return "superseded"
                if directive.stop:
                    return "stopped"
                wait_ms = directive.heartbeat_ms or HEARTBEAT_MS
                self._take(directive)
            self.in_flight.end_slow()
            self._frames.end_late()
            self._wake.wait(wait_ms / 1000)
            self._wake.clear()
        return "asked"

    def _report(self, *, leaving: bool = False) -> pb.Directive:
        config = self._config
        report = pb.ExecutorReport(
            protocol=PROTOCOL,
            service_id=config.service_id,
            index=config.index,
            attempt=config.attempt,
            instance=self.instance,
            address=self.address,
            epoch=self._epoch,
            process=os.getpid(),
            tables=[self._table_report(table) for table in self.tables.all()],
            leaving=leaving,
            host=socket.gethostname(),
            frames=self.frames_address,
        )
        return self._stub.Register(
            report, timeout=HEARTBEAT_TIMEOUT_SECONDS, metadata=self._metadata()
        )

    def _look_elsewhere(self) -> None:
        """Take the address server of this service that a table's file names, if it is another."""
        for table in self.tables.all():
            location, fileio = table.location, table.fileio
            if location is None or fileio is None:
                continue
            try:
                found = read_service_file(fileio, location)
            except TidelakeError:
                continue
            if found is None or found.service_id != self._config.service_id:
                continue
            if found.address != self._address_server:
                _LOG.info("the address server is at %s now", found.address)
                before = self._channel
                self._address_server = found.address
                self._channel = self._config.security.channel(found.address)
                self._stub = self._new_stub()
                before.close()
            return

    # ---- tables

    def _take(self, directive: pb.Directive) -> None:
        """Have the tables that the directive names, and update those that are behind."""
        self._epoch = directive.epoch
        locations = {served.table: served.location for served in directive.tables}
        self.tables.keep(set(locations), self._table)
        for name in set(self._updates) - set(locations):
            del self._updates[name]
        for served in directive.tables:
            table = self.tables.find(served.table)
            if table is None:
                continue
            table.location = served.location
            wanted = version_from(served.version)
            version = table.version
            if version is None or version < wanted:
                self._start_update(table)
            else:
                table.note_use()
        self._tell_health()

    def _table(self, name: str) -> OwnedTable:
        config = self._config
        return OwnedTable(
            self._catalog,
            name,
            index=config.index,
            executors_count=config.executors_count,
            directory=config.directory,
        )

    def _poke(self, table: OwnedTable) -> None:
        """A caller waits for a newer snapshot."""
        self._start_update(table, is_asked=True)

    def _start_update(self, table: OwnedTable, *, is_asked: bool = False) -> None:
        with self._lock:
            update = self._updates.setdefault(table.name, _Update())
            if update.is_running:
                update.is_wanted = update.is_wanted or is_asked
                return
            if self._now() < update.not_before:
                return
            update.is_running, update.is_wanted = True, False
        try:
            future = self._updaters.submit(self._update_once, table)
        except RuntimeError:  # it is closing
            update.is_running = False
        else:
            future.add_done_callback(partial(self._updated, table, update))

    def _updated(self, table: OwnedTable, update: _Update, future: Future[None]) -> None:
        """An update has ended, well or not."""
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            self._update_failed(table, update, error)
        else:
            update.failures, update.not_before = 0, 0.0
        with self._lock:
            update.is_running = False
            again = update.is_wanted
        if again:
            self._start_update(table)
        self._wake.set()

    def _update_once(self, table: OwnedTable) -> None:
        request = pb.ChangesRequest(
            protocol=PROTOCOL,
            table=table.name,
            index=self._config.index,
            since=version_message(table.since),
        )
        reply = self._stub.Changes(
            request, timeout=CHANGES_TIMEOUT_SECONDS, metadata=self._metadata()
        )
        table.update(reply)

    def _update_failed(self, table: OwnedTable, update: _Update, error: BaseException) -> None:
        update.failures += 1
        wait_ms = min(RETRY_MS_MAX, 50 * 2**update.failures)
        update.not_before = self._now() + wait_ms / 1000
        said = error.details() if isinstance(error, grpc.Call) else str(error)
        if table.problem != said:
            is_expected = isinstance(error, (TidelakeError, grpc.RpcError))
            _LOG.warning(
                "table %s: no update: %s", table.name, said, exc_info=None if is_expected else error
            )
        table.problem = said or type(error).__name__

    # ---- what others see

    def _tell_health(self) -> None:
        serving = health_pb2.HealthCheckResponse.SERVING
        not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
        now = {table.name: table.version is not None for table in self.tables.all()}
        now[""] = all(now.values())
        for name in set(now) | set(self._healthy):
            if self._healthy.get(name) != now.get(name):
                self._health.set(name, serving if now.get(name) else not_serving)
        self._healthy = now

    def _table_report(self, table: OwnedTable) -> pb.TableReport:
        meter, rates = table.meter, table.meter.rates()
        version, stats = table.version, table.stats()
        return pb.TableReport(
            table=table.name,
            ready=version is not None,
            version=None if version is None else version_message(version),
            buckets_count=table.buckets_count,
            requests=meter.requests,
            keys=meter.keys,
            found=meter.found,
            refused=meter.refused,
            files=0 if stats is None else stats.files_count,
            mapped_bytes=0 if stats is None else stats.mapped_bytes,
            disk_bytes=0 if stats is None else stats.disk_bytes,
            files_built=0 if stats is None else stats.builds,
            p50_us=rates.p50_us,
            p99_us=rates.p99_us,
            problem=table.problem,
            keys_per_second=rates.keys_per_second,
        )

    def _summary(self, reason: str, meters: list[Meter]) -> ExecutorSummary:
        return ExecutorSummary(
            self._config.index,
            self._config.attempt,
            self.instance,
            self.address,
            os.getpid(),
            reason,
            requests=sum(m.requests for m in meters),
            keys=sum(m.keys for m in meters),
            found=sum(m.found for m in meters),
            refused=sum(m.refused for m in meters),
        )

    def _new_stub(self) -> Any:
        return rpc.AddressStub(self._channel)  # type: ignore[no-untyped-call]  # generated

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return ((TOKEN_KEY, bearer(self._config.secret)),)


def run_executor(
    config: ExecutorConfig,
    *,
    stop: threading.Event | None = None,
    catalog: Catalog | None = None,
) -> ExecutorSummary:
    """Run an executor in this process until it is asked to stop.

    Parameters
    ----------
    catalog : Catalog, optional
        The warehouse as it is opened already.

    Notes
    -----
    Runs in a process of its own or in a task of Spark's. Ends by itself when no address server
    answers any more.
    """
    return QueryExecutor(config, catalog).run(stop)


def _code(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details()}" if isinstance(error, grpc.Call) else str(error)
