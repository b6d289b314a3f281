"""What people want to know of a service, put together from its tables and executors."""

from __future__ import annotations

from tidelake.service.address.messages import version_message
from tidelake.service.address.registry import SILENT_MS, Registration
from tidelake.service.address.servicer import Served, Server
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb


def status_of(server: Server) -> pb.ServiceStatus:
    """The state of a service."""
    names = {served.name for served in server.served()}
    executors = [
        _executor(registration, silent_ms, names)
        for registration, silent_ms in server.registry.all()
    ]
    return pb.ServiceStatus(
        service_id=server.service_id,
        address=server.address,
        epoch=server.registry.epoch,
        started_ms=server.started_ms,
        stopping=server.is_stopping,
        executors_count=server.executors_count,
        tables=[_table(served) for served in server.served()],
        executors=executors,
    )


def _table(served: Served) -> pb.TableStatus:
    scanner = served.scanner
    state = scanner.state
    problem = served.trouble
    if state is None:
        return pb.TableStatus(table=served.name, problem=problem or "The table was dropped.")
    return pb.TableStatus(
        table=served.name,
        version=version_message(state.version),
        committed_ms=state.committed_ms,
        buckets_count=len(state.buckets),
        bucket_mode=state.mode.value,
        problem=problem,
    )


def _executor(registration: Registration, silent_ms: float, names: set[str]) -> pb.ExecutorStatus:
    report = registration.report
    ready = {t.table for t in report.tables if t.ready}
    return pb.ExecutorStatus(
        index=report.index,
        address=report.address,
        instance=report.instance,
        ready=silent_ms < SILENT_MS and names <= ready,
        heartbeat_age_ms=int(silent_ms),
        process=report.process,
        tables=report.tables,
    )
