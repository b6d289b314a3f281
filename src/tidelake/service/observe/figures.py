"""What a service does, as numbers for people: from its status, and the one before.

1. Executors count from their start on, so a rate is the difference of two statuses over the time
   between them. An executor that started again meanwhile (another `instance`) counts from 0.
2. A table's snapshot is the oldest that an executor answers from, its lag how many snapshots the
   table is ahead. p50 and p99 are those of the slowest executor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelake.service.protocol.tidelake_query_v1_pb2 import (
        ExecutorStatus,
        ServiceStatus,
        TableReport,
        TableStatus,
    )


@dataclass(frozen=True, slots=True)
class TableFigures:
    """One table of a service.

    Parameters
    ----------
    snapshot : int
        The oldest that an executor answers from; 0 for none.
    lag : int, optional
        How many snapshots the table is ahead; None while no executor has one of its generation.
    lag_ms : int
        How long ago the newest snapshot was committed, where the table is ahead; else 0.
    hit_ratio : float, optional
        Share of these keys that were found; None without keys.
    p50_us, p99_us : int
        Microseconds of a request, of the slowest executor.
    problem : str
        Why it is not served; empty if it is.
    """

    table: str
    snapshot: int
    lag: int | None
    lag_ms: int
    ready_count: int
    executors_count: int
    buckets_count: int
    gets_per_second: float
    hit_ratio: float | None
    p50_us: int
    p99_us: int
    mapped_bytes: int
    disk_bytes: int
    files_count: int
    problem: str

    @property
    def is_ready(self) -> bool:
        """Whether every executor answers."""
        return self.ready_count == self.executors_count > 0


@dataclass(frozen=True, slots=True)
class ExecutorFigures:
    """One executor; numbers as of :class:`TableFigures`, of all its tables."""

    index: int
    address: str
    process: int
    is_ready: bool
    heartbeat_age_ms: int
    buckets_count: int
    gets_per_second: float
    mapped_bytes: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """A whole service."""

    service_id: str
    address: str
    up_ms: int
    ready_count: int
    executors_count: int
    tables: tuple[TableFigures, ...]
    executors: tuple[ExecutorFigures, ...]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What executors counted between two statuses."""

    keys: int
    found: int

    def __add__(self, other: _Counted) -> _Counted:
        return _Counted(self.keys + other.keys, self.found + other.found)


_NOTHING = _Counted(0, 0)


def figures(
    status: ServiceStatus, before: ServiceStatus | None = None, *, now_ms: int, seconds: float = 0.0
) -> ServiceFigures:
    """Work out the numbers of a service.

    Parameters
    ----------
    before : ServiceStatus, optional
        An earlier one of the same service; rates are 0 without it.
    now_ms : int
        Now, in milliseconds since the epoch.
    seconds : float
        Time between the two.

    Returns
    -------
    ServiceFigures
        Tables and executors in the order of their names and indexes.
    """
    counted = _counted(status, before)
    tables = tuple(
        _table(table, status, counted, now_ms=now_ms, seconds=seconds)
        for table in sorted(status.tables, key=_name)
    )
    executors = tuple(
        _executor(one, counted, seconds=seconds) for one in sorted(status.executors, key=_index)
    )
    return ServiceFigures(
        service_id=status.service_id,
        address=status.address,
        up_ms=max(0, now_ms - status.started_ms),
        ready_count=sum(one.ready for one in status.executors),
        executors_count=status.executors_count,
        tables=tables,
        executors=executors,
    )


def _name(table: TableStatus) -> str:
    return table.table


def _index(executor: ExecutorStatus) -> int:
    return executor.index


def _reports(status: ServiceStatus) -> Iterator[tuple[ExecutorStatus, TableReport]]:
    for executor in status.executors:
        for report in executor.tables:
            yield executor, report


def _counted(
    status: ServiceStatus, before: ServiceStatus | None
) -> dict[tuple[int, str], _Counted]:
    """What each executor counted of each table since the status before; nothing without one."""
    if before is None:
        return {}
    old = {(e.instance, r.table): r for e, r in _reports(before)}
    found: dict[tuple[int, str], _Counted] = {}
    for executor, report in _reports(status):
        last = old.get((executor.instance, report.table))
        keys, hits = (0, 0) if last is None else (last.keys, last.found)
        # a table that was removed and added counts from 0 too
        is_same = report.keys >= keys
        found[executor.index, report.table] = _Counted(
            report.keys - keys * is_same, report.found - hits * is_same
        )
    return found


def _table(
    table: TableStatus,
    status: ServiceStatus,
    counted: dict[tuple[int, str], _Counted],
    *,
    now_ms: int,
    seconds: float,
) -> TableFigures:
    mine = [(e, r) for e, r in _reports(status) if r.table == table.table]
    ready = [r for e, r in mine if e.ready and r.ready]
    oldest = min(
        ((r.version.generation, r.version.snapshot) for r in ready),
        default=(table.version.generation, 0),
    )
    is_same = bool(ready) and oldest[0] == table.version.generation
    lag = max(0, table.version.snapshot - oldest[1]) if is_same else None
    total = sum((counted.get((e.index, table.table), _NOTHING) for e, _ in mine), _NOTHING)
    problems = [table.problem, *(r.problem for _, r in mine)]
    return TableFigures(
        table=table.table,
        snapshot=oldest[1],
        lag=lag,
        lag_ms=max(0, now_ms - table.committed_ms) if lag and table.committed_ms else 0,
        ready_count=len(ready),
        executors_count=status.executors_count,
        buckets_count=sum(r.buckets_count for _, r in mine) or table.buckets_count,
        gets_per_second=total.keys / seconds if seconds > 0 else 0.0,
        hit_ratio=total.found / total.keys if total.keys else None,
        p50_us=max((r.p50_us for r in ready), default=0),
        p99_us=max((r.p99_us for r in ready), default=0),
        mapped_bytes=sum(r.mapped_bytes for _, r in mine),
        disk_bytes=sum(r.disk_bytes for _, r in mine),
        files_count=sum(r.files for _, r in mine),
        problem=next((problem for problem in problems if problem), ""),
    )


def _executor(
    executor: ExecutorStatus, counted: dict[tuple[int, str], _Counted], *, seconds: float
) -> ExecutorFigures:
    keys = sum(
        counted.get((executor.index, report.table), _NOTHING).keys for report in executor.tables
    )
    return ExecutorFigures(
        index=executor.index,
        address=executor.address,
        process=executor.process,
        is_ready=executor.ready,
        heartbeat_age_ms=executor.heartbeat_age_ms,
        buckets_count=sum(report.buckets_count for report in executor.tables),
        gets_per_second=keys / seconds if seconds > 0 else 0.0,
        mapped_bytes=sum(report.mapped_bytes for report in executor.tables),
        disk_bytes=sum(report.disk_bytes for report in executor.tables),
    )
