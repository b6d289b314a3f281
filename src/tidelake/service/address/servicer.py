"""The calls of the address server, answered from its tables and its registry."""

from __future__ import annotations

from typing import Any, Protocol

from tidelake.engine.tables import Catalog
from tidelake.errors import NotFoundError
from tidelake.service.address.access import Access
from tidelake.service.address.listener import answer, check_protocol
from tidelake.service.address.messages import version_from, version_message
from tidelake.service.address.ownership import Ownership
from tidelake.service.address.refusal import Refusal, Status
from tidelake.service.address.registry import Registry
from tidelake.service.address.security import Security
from tidelake.service.address.snapshot_scanner import SnapshotFileScanner
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol import tidelake_query_v1_pb2_grpc as rpc
from tidelake.service.protocol.ownership import ANY_BUCKET

HEARTBEAT_MS = 200
POLL_WAIT_SECONDS = 2.0
"""How long an executor's call waits for a look at the table that is under way. A storage that hangs
must not hold all threads of the server; the executor gets what is known then."""


class Served(Protocol):
    """A table of the service, as calls need it."""

    scanner: SnapshotFileScanner
    problem: str

    @property
    def name(self) -> str:
        """``"database.table"``."""
        ...

    @property
    def trouble(self) -> str:
        """What people should know; empty if all is well."""
        ...


class Server(Protocol):
    """The address server, as its calls need it."""

    catalog: Catalog
    access: Access
    registry: Registry
    security: Security
    service_id: str
    address: str
    executors_count: int
    started_ms: int

    @property
    def is_stopping(self) -> bool:
        """Whether executors are to stop."""
        ...

    def served(self) -> list[Any]:
        """The tables."""
        ...

    def find(self, identifier: str) -> Any | None:
        """One table."""
        ...

    def add(self, identifier: str) -> None:
        """Serve one more table."""
        ...

    def remove(self, identifier: str) -> None:
        """Serve a table no more."""
        ...

    def ask_stop(self) -> None:
        """Ask the owner of the server to stop the service."""
        ...

    def status(self) -> pb.ServiceStatus:
        """What people want to know."""
        ...


class AddressServicer(rpc.AddressServicer):
    """Answers for one server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def Locate(self, request: pb.LocateRequest, context: Any) -> pb.Layout:
        """Tell a client which executors own the buckets of a table."""
        return answer(context, lambda: self._locate(request, context))

    def Register(self, request: pb.ExecutorReport, context: Any) -> pb.Directive:
        """Take the heartbeat of an executor, and tell it what to do."""
        return answer(context, lambda: self._register(request, context))

    def Changes(self, request: pb.ChangesRequest, context: Any) -> pb.ChangesReply:
        """Give an executor the files of its buckets that changed."""
        return answer(context, lambda: self._changes(request, context))

    def Status(self, request: pb.StatusRequest, context: Any) -> pb.ServiceStatus:
        """Tell people what the service does."""
        return answer(context, lambda: self._status(request, context))

    def Serve(self, request: pb.ServeRequest, context: Any) -> pb.ServiceStatus:
        """Add or remove tables, or stop the service."""
        return answer(context, lambda: self._serve(request, context))

    # ---- for clients

    def _locate(self, request: pb.LocateRequest, context: Any) -> pb.Layout:
        caller = self._server.access.caller(context.invocation_metadata())
        check_protocol(request.protocol)
        caller.check_reads(request.table)
        served = self._server.find(request.table)
        if served is None:
            raise _not_served(request.table)
        state = served.scanner.state
        if state is None:
            message = served.scanner.problem or f"Table '{request.table}' was dropped."
            raise Refusal(Status.NOT_FOUND, "table-gone", message)
        registry = self._server.registry
        epoch = registry.epoch
        executors = [
            pb.ExecutorAddress(
                index=r.report.index,
                address=r.report.address,
                ready=r.is_ready(request.table),
                instance=r.report.instance,
                frames=r.report.frames,
            )
            for r in registry.live()
        ]
        return pb.Layout(
            epoch=epoch,
            table=request.table,
            service_id=self._server.service_id,
            executors_count=self._server.executors_count,
            executors=executors,
            version=version_message(state.version),
            bucket_mode=state.mode.value,
            server_name=self._server.security.tls_server_name or "",
        )

    # ---- for executors

    def _register(self, report: pb.ExecutorReport, context: Any) -> pb.Directive:
        server = self._server
        server.access.caller(context.invocation_metadata()).check_is_service()
        check_protocol(report.protocol)
        is_newest = server.registry.register(report)
        tables = []
        for served in server.served():
            state = served.scanner.state
            if state is not None:
                tables.append(
                    pb.ServedTable(
                        table=served.name,
                        location=served.scanner.location,
                        version=version_message(state.version),
                    )
                )
        return pb.Directive(
            stop=server.is_stopping,
            epoch=server.registry.epoch,
            executors_count=server.executors_count,
            tables=tables,
            heartbeat_ms=HEARTBEAT_MS,
            superseded=not is_newest,
        )

    def _changes(self, request: pb.ChangesRequest, context: Any) -> pb.ChangesReply:
        server = self._server
        server.access.caller(context.invocation_metadata()).check_is_service()
        check_protocol(request.protocol)
        served = server.find(request.table)
        if served is None:
            raise _not_served(request.table)
        served.scanner.poll(
            wait_seconds=POLL_WAIT_SECONDS
        )  # an executor that asks wants the newest
        state = served.scanner.state
        if state is None:
            message = f"Table '{request.table}' was dropped."
            raise NotFoundError(message, kind="table_gone", table=request.table)
        owns = Ownership.of(state.mode, request.index, server.executors_count)
        found = served.scanner.changes(version_from(request.since), owns)
        return pb.ChangesReply(
            version=version_message(found.version),
            whole=found.whole,
            changes=[
                *(
                    pb.BucketChange(
                        partition=bucket_id.partition,
                        bucket=bucket_id.bucket,
                        buckets=max(total, 0),  # dynamic buckets have no total
                        files_before=before,
                        files_after=after,
                    )
                    for bucket_id, total, before, after in found.changes
                ),
                *(
                    pb.BucketChange(partition=partition, bucket=ANY_BUCKET, buckets=total)
                    for partition, total in found.rescaled.items()
                ),
            ],
        )

    # ---- for people

    def _status(self, request: pb.StatusRequest, context: Any) -> pb.ServiceStatus:
        caller = self._server.access.caller(context.invocation_metadata())
        check_protocol(request.protocol)
        status = self._server.status()
        hidden = {t.table for t in status.tables if not caller.may_read(t.table)}
        if not hidden:
            return status
        shown = [t for t in status.tables if t.table not in hidden]
        del status.tables[:]
        status.tables.extend(shown)
        for executor in status.executors:
            reports = [t for t in executor.tables if t.table not in hidden]
            del executor.tables[:]
            executor.tables.extend(reports)
        return status

    def _serve(self, request: pb.ServeRequest, context: Any) -> pb.ServiceStatus:
        caller = self._server.access.caller(context.invocation_metadata())
        check_protocol(request.protocol)
        caller.check_operates()
        for table in (*request.add, *request.remove):
            caller.check_reads(table)
        for table in request.add:
            self._server.add(table)
        for table in request.remove:
            self._server.remove(table)
        if request.stop:
            self._server.ask_stop()
        return self._server.status()


def _not_served(table: str) -> Refusal:
    # the names of the others are not shown: the caller may not be allowed to know them
    message = f"Table '{table}' is not served here: start a service for it, or add it to this one."
    return Refusal(Status.NOT_FOUND, "table-not-served", message)
