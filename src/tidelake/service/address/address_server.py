"""The address server: where clients find executors, and executors find tables and their changes.

1. It follows each table with a :class:`SnapshotFileScanner`, in a thread for each table. A storage
   that hangs holds its own table only; the status says so after :data:`LATE_SECONDS`.
2. It registers itself in each table's directory (the service file), and looks every
   :data:`FILE_LOOK_MS` whether it is still the one that is named there. Of two services of one
   table the second is refused while the first one answers. A file whose service does not answer is
   stale and is replaced. Of two that start at the same moment the one that wrote last keeps the
   table; the other gives it up.
3. Executors register by their heartbeats; they ask for the changes of the buckets they own.
4. :meth:`AddressServer.stop` tells executors to stop with their next heartbeat, removes the service
   files that are still its own, and gives up the leases.

Generations and epochs begin at the clock's time, so that those of a service are greater than those
of the service before it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import grpc

from tidelake.engine.env import Clock
from tidelake.engine.tables import Catalog
from tidelake.errors import ConflictError, CorruptError, NotFoundError, TidelakeError
from tidelake.service.address.access import Access
from tidelake.service.address.listener import Listener
from tidelake.service.address.liveness import Liveness
from tidelake.service.address.registry import Registry
from tidelake.service.address.security import LOOPBACK, Security, split_address
from tidelake.service.address.service_status import status_of
from tidelake.service.address.servicer import AddressServicer
from tidelake.service.address.snapshot_scanner import SnapshotFileScanner
from tidelake.service.address.token_file import TokenFile
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol import tidelake_query_v1_pb2_grpc as rpc
from tidelake.service.protocol.reasons import PROTOCOL
from tidelake.service.protocol.service_file import (
    ServiceFile,
    parse_service_file,
    put_service_file,
    read_service_file,
    remove_service_file,
    service_file_content,
    service_file_path,
    write_service_file,
)

_LOG = logging.getLogger("tidelake.service")

POLL_MS = 100
LATE_SECONDS = 10.0
"""How long a look at a table may take before the status says that its storage does not answer."""
FAILED_SECONDS = 1.0
"""How long to wait after a look that failed otherwise than by its storage."""
FILE_LOOK_MS = 1_000
RELEASE_MS = 1_000
PROBE_SECONDS = 1.0
"""How long a service that a table's file names may take to answer before it counts as stopped."""
THREADS = 32
"""Made when they are needed. Executors that ask for changes wait for the storage, and heartbeats
must not wait behind them."""
CONCURRENT_MAX = 1_024
REQUEST_BYTES_MAX = 4 << 20
LEAVE_LOOK_MS = 50
STOP_SECONDS = 5.0
REGISTER_TRIES = 3
"""Looks at the file of a table that other services want at the same time."""
"""How long executors may take to say that they leave."""
LEAVE_SECONDS = 5.0
"""How long all tables together may take to be left. Where a storage hangs for longer, the service
file stays and counts as stale, and the lease ends with its time."""


@dataclass
class ServedTable:
    """A table of the service. One thread looks at it and leaves it in the end.

    Parameters
    ----------
    clock : Clock
        For how long a look takes.
    problem : str
        Why clients do not find it here; empty if they do.
    looked_ms, released_ms : float
        When its service file was looked at, and its lease advanced.
    looked_generation : int
        The table's generation then: a table that was recreated has lost the file.
    """

    scanner: SnapshotFileScanner
    clock: Clock
    problem: str = ""
    looked_ms: float = field(default=-1e12)
    released_ms: float = field(default=-1e12)
    looked_generation: int = 0
    leaving: threading.Event = field(default_factory=threading.Event)
    """Set when it is to be served no more."""
    thread: threading.Thread | None = None
    look_began: float | None = None
    """When the look that is under way began, by the monotonic clock."""

    @property
    def name(self) -> str:
        """``"database.table"``."""
        return self.scanner.table

    @property
    def trouble(self) -> str:
        """What people should know: why it is not found, not read, or not read now."""
        said = self.problem or self.scanner.problem
        began = self.look_began
        if said or began is None:
            return said
        seconds = self.clock.monotonic_seconds() - began
        if seconds < LATE_SECONDS:
            return ""
        return f"Its storage has not answered for {seconds:.0f} s: new snapshots are not seen."


class AddressServer:
    """One service's address server. Must be stopped; a ``with`` block does that.

    Parameters
    ----------
    secret : str
        Known to this service's processes only.
    service_id : str, optional
        Unique for each start of a service; a server that starts again after a failure keeps it.

    Raises
    ------
    ConflictError
        A table is served by a service that answers.
    NotFoundError, InvalidInputError
        A table does not exist or cannot be served, or the server may not listen there.
    """

    def __init__(
        self,
        catalog: Catalog,
        tables: Iterable[str],
        *,
        executors_count: int,
        secret: str,
        service_id: str | None = None,
        bind: str = LOOPBACK,
        security: Security | None = None,
    ) -> None:
        self.catalog = catalog
        self.executors_count = executors_count
        self.service_id = service_id or catalog.env.ids.uuid()
        self.security = security or Security()
        self._clock = clock = catalog.env.clock
        self.started_ms = clock.now_ms()
        self.registry = Registry(executors_count, self.started_ms, clock.monotonic_seconds)
        self.liveness = Liveness(self.registry, self.security, clock.monotonic_seconds)
        self._stopping = threading.Event()
        self.stop_asked = threading.Event()
        self._tables: dict[str, ServedTable] = {}
        self._adding: set[str] = set()
        self._lock = threading.Lock()
        tokens = TokenFile(self.security.tokens, clock) if self.security.tokens else None
        self.access = Access(secret, tokens, clock)
        self._listener = Listener(
            bind,
            self.security,
            threads=THREADS,
            concurrent_max=CONCURRENT_MAX,
            waiting_max=THREADS // 2,
            clock=clock,
            access=self.access,
            request_bytes_max=REQUEST_BYTES_MAX,
        )
        rpc.add_AddressServicer_to_server(  # type: ignore[no-untyped-call]  # generated
            AddressServicer(self), self._listener.server
        )
        self.address = self._listener.address
        try:
            self._listener.start()
            for table in tables:
                self.add(table)
        except BaseException:
            self.stop(wait_seconds=0)
            raise

    # ---- tables

    def add(self, identifier: str) -> None:
        """Serve one more table; does nothing if it is served already.

        Raises
        ------
        ConflictError
            Another service serves it.
        NotFoundError, InvalidInputError
            It does not exist, or cannot be read by key.
        """
        with self._lock:
            if identifier in self._tables or identifier in self._adding:
                return
            self._adding.add(identifier)
        try:
            # without the lock, which every heartbeat takes: a stale file is asked for a second
            scanner = SnapshotFileScanner(
                self.catalog,
                identifier,
                service_id=self.service_id,
                generation=self._clock.now_ms(),
            )
            served = ServedTable(scanner, self._clock)
            self._register(served)
            scanner.poll()
            with self._lock:
                self._tables[identifier] = served
            self._start(served)
        finally:
            with self._lock:
                self._adding.discard(identifier)
        self.registry.raise_epoch()
        _LOG.info("table %s is served at %s", identifier, self.address)

    def remove(self, identifier: str) -> None:
        """Serve a table no more.

        Raises
        ------
        NotFoundError
            It is not served.
        """
        with self._lock:
            served = self._tables.pop(identifier, None)
        if served is None:
            message = f"Table '{identifier}' is not served; these are: {self.names()}."
            raise NotFoundError(message, kind="table_not_served", table=identifier)
        self.registry.raise_epoch()
        self._end([served])
        _LOG.info("table %s is served no more", identifier)

    def names(self) -> list[str]:
        """The tables' names, sorted."""
        with self._lock:
            return sorted(self._tables)

    def served(self) -> list[ServedTable]:
        """The tables, by name."""
        with self._lock:
            return [self._tables[name] for name in sorted(self._tables)]

    def find(self, identifier: str) -> ServedTable | None:
        """One table; None if it is not served."""
        with self._lock:
            return self._tables.get(identifier)

    def status(self) -> pb.ServiceStatus:
        """What people want to know."""
        return status_of(self)

    # ---- end

    @property
    def is_stopping(self) -> bool:
        """Whether executors are asked to stop with their next heartbeat."""
        return self._stopping.is_set()

    def tell_stop(self) -> None:
        """Tell executors to stop, with their next heartbeat."""
        self._stopping.set()

    def ask_stop(self) -> None:
        """Ask the owner of this server to stop the service: an operator said so."""
        self.stop_asked.set()

    def stop(self, *, wait_seconds: float = STOP_SECONDS) -> None:
        """Stop; more than once is fine.

        Parameters
        ----------
        wait_seconds : float
            How long executors may take to leave.
        """
        self.tell_stop()
        now = self._clock.monotonic_seconds
        end = now() + wait_seconds
        while self.registry.live() and now() < end:
            self._clock.sleep_ms(LEAVE_LOOK_MS)
        self._end(self.served())
        self._listener.stop(0.5)

    def __enter__(self) -> AddressServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, tables: list[ServedTable]) -> None:
        """Have tables left, side by side; one whose storage hangs is not waited for."""
        for served in tables:
            served.leaving.set()
        now = self._clock.monotonic_seconds
        until = now() + LEAVE_SECONDS
        for served in tables:
            if served.thread is None:
                continue
            served.thread.join(max(0.0, until - now()))
            if served.thread.is_alive():
                _LOG.warning("table %s: its storage hangs; its service file stays", served.name)

    # ---- the thread of a table

    def _start(self, served: ServedTable) -> None:
        name = f"tidelake-scan-{served.name}"
        thread = threading.Thread(target=self._follow, args=(served,), name=name, daemon=True)
        served.thread = thread
        thread.start()

    def _follow(self, served: ServedTable) -> None:
        """Look at one table again and again, then leave it; the target of its thread."""
        now = self._clock.monotonic_seconds
        try:
            while not served.leaving.is_set():
                served.look_began = begin = now()
                self._look(served, begin * 1000)
                served.look_began = None
                # a slow storage is asked half of the time at most
                served.leaving.wait(max(POLL_MS / 1000, now() - begin))
        except BaseException as error:  # of ours: it ends the thread, and another one goes on
            served.problem = f"{type(error).__name__}: {error}"
            _LOG.error("table %s could not be followed", served.name, exc_info=error)
            served.leaving.wait(FAILED_SECONDS)
            self._start(served)
            raise
        self._leave(served)

    def _look(self, served: ServedTable, now_ms: float) -> None:
        scanner = served.scanner
        scanner.poll()
        generation = 0 if scanner.state is None else scanner.state.version.generation
        is_due = now_ms - served.looked_ms >= FILE_LOOK_MS
        if is_due or generation != served.looked_generation:
            served.looked_ms, served.looked_generation = now_ms, generation
            self._keep_registered(served)
        state = scanner.state
        if state is not None and now_ms - served.released_ms >= RELEASE_MS:
            served.released_ms = now_ms
            version = state.version
            oldest = self.registry.oldest_snapshot(
                served.name, version.generation, version.snapshot
            )
            scanner.release(oldest)

    def _keep_registered(self, served: ServedTable) -> None:
        if served.scanner.state is None:
            return
        try:
            scanner = served.scanner
            try:
                found = read_service_file(scanner.fileio, scanner.location)
            except CorruptError:  # damaged meanwhile: it is replaced below
                found = None
            if found is not None and found.service_id == self.service_id:
                if found.address != self.address:
                    write_service_file(scanner.fileio, scanner.location, self._file)
                served.problem = ""
                return
            self._register(served)
            served.problem = ""
        except TidelakeError as error:
            if served.problem != error.message:
                _LOG.warning("table %s: %s", served.name, error.message)
                self.registry.raise_epoch()
            served.problem = error.message

    def _register(self, served: ServedTable) -> None:
        """Put the service file, unless it names a service that answers."""
        scanner = served.scanner
        for _ in range(REGISTER_TRIES):
            content = service_file_content(scanner.fileio, scanner.location)
            if content is not None and self._is_own(content, served):
                write_service_file(scanner.fileio, scanner.location, self._file)
                return
            # of a file that is left only what was looked at is removed
            if put_service_file(scanner.fileio, scanner.location, self._file, over=content):
                return
            # another service was faster, and is asked
        message = (
            f"Table '{served.name}': other services write {service_file_path(scanner.location)} at"
            " the same time. Start one of them."
        )
        raise ConflictError(message, kind="table_served", table=served.name)

    def _is_own(self, content: bytes, served: ServedTable) -> bool:
        """Whether a service file is this service's; False if nobody's that runs.

        Raises
        ------
        ConflictError
            Its service answers.
        """
        path = service_file_path(served.scanner.location)
        try:
            found = parse_service_file(content, path)
        except TidelakeError as error:  # garbage, or another version's, which nobody can ask
            _LOG.warning("table %s: its service file is replaced: %s", served.name, error.message)
            return False
        if found.service_id == self.service_id:
            return True
        if self._answers(found, served.name):
            message = (
                f"Table '{served.name}' is served by the service at {found.address}: ask that"
                f" one, or stop it first. If it runs no longer, remove {path}."
            )
            raise ConflictError(message, kind="table_served", table=served.name)
        _LOG.warning(
            "table %s: the service at %s has stopped; its file is replaced",
            served.name,
            found.address,
        )
        return False

    @property
    def _file(self) -> ServiceFile:
        return ServiceFile(self.address, self.service_id, self.security.has_tls, PROTOCOL)

    def _answers(self, found: ServiceFile, table: str) -> bool:
        """Whether the service that a file names is there, and is that very one."""
        if found.tls:  # of a certificate that this one may not know
            return _is_taken(found.address)
        with Security().channel(found.address) as channel:
            request = pb.LocateRequest(protocol=PROTOCOL, table=table)
            stub = rpc.AddressStub(channel)  # type: ignore[no-untyped-call]  # generated
            try:
                layout = stub.Locate(request, timeout=PROBE_SECONDS)
            except grpc.RpcError as error:
                # it answered, but not to us: somebody is there
                return error.code() in _SOMEBODY
            return bool(layout.service_id == found.service_id)

    def _leave(self, served: ServedTable) -> None:
        served.scanner.close(wait_seconds=LEAVE_SECONDS)
        try:
            scanner = served.scanner
            remove_service_file(scanner.fileio, scanner.location, self.service_id)
        except TidelakeError as error:
            _LOG.warning("table %s: its service file stays: %s", served.name, error.message)


_SOMEBODY = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)


def _is_taken(address: str) -> bool:
    """Whether anybody listens there."""
    try:
        with socket.create_connection(split_address(address), PROBE_SECONDS):
            return True
    except (OSError, TidelakeError):
        return False
