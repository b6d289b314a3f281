"""Batch reads that hold their snapshot beside commits and expiries that keep one snapshot.

A read is let in (planned and held) or refused by name. Who was let in reads to the end.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import tidelake
from proving.expiring import ALL, make, work
from proving.leases import copy_of
from proving.reach import missing
from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import LEASE_TIMEOUT_MS, READ_RETAINED_MS, ConsumerLog
from tidelake.table.read.table_scan import TableScan
from tidelake.telemetry import Env, ManualClock, ManualKeeper

OLD = 2
"""The older snapshot that some reads want."""
COMMITS = 2


class HoldBroken(AssertionError):
    """A hold does not do what it promises."""


def world() -> MemoryFileIO:
    """A storage with a table of some snapshots."""
    files = MemoryFileIO()
    work(make(files, primary_keys=["k"], bucket="1", **{"read.hold": "auto"}), COMMITS)
    return files


def copied(files: MemoryFileIO) -> MemoryFileIO:
    return copy_of(files)


_SEEDS = itertools.count(1_000)


def table_on(files):
    """The table as another process opens it, with names of its own."""
    return tidelake.open("/w", fileio=files, env=Env.seeded(next(_SEEDS))).table("db.t")


def let_in(files, **moment) -> TableScan:
    """A read is planned and held."""
    return table_on(files).scan(options={"read.hold": "always"}, **moment)


def commit(files) -> None:
    """Another process rewrites all files."""
    table = table_on(files)
    table.write([{"k": 50, "v": 1, "p": "a"}])
    table.compact(full=True)


def expire(files) -> None:
    """Another process expires all snapshots but one."""
    table_on(files).maintenance.expire_snapshots(**ALL)


def commit_and_expire(files) -> None:
    commit(files)
    expire(files)


def rows_of(scan: TableScan) -> list:
    return sorted(map(repr, scan.to_arrow().to_pylist()))


def check(files, scan: TableScan | None, states: list, where: str) -> None:
    """Who was let in reads one state, also after another expiry; then nothing stays behind."""
    if missing(files, table_on(files).handle.paths.location):
        raise HoldBroken(f"{where}: a snapshot lacks files")
    if scan is not None:
        for _ in range(2):
            try:
                found = rows_of(scan)
            except NotFoundError as error:
                raise HoldBroken(f"{where}: the read was let in, and {error}") from error
            if found not in states:
                raise HoldBroken(f"{where}: rows of no state")
            commit_and_expire(files)
        scan.close()
    expire(files)
    table = table_on(files)
    left = ConsumerLog(files, table.handle.paths).states()
    if left or len(table.handle.snapshots.ids()) != 1:
        raise HoldBroken(f"{where}: something is still held, {left}")


def run_hours(given: MemoryFileIO, hours: int = 3) -> None:
    """A scan is kept for hours beside commits and expiries; its keeper runs."""
    files = copied(given)
    keeper, clock = ManualKeeper(is_running=True), ManualClock()
    env = replace(Env.seeded(next(_SEEDS)), clock=clock, keeper=keeper)
    scan = tidelake.open("/w", fileio=files, env=env).table("db.t").scan()
    expected = rows_of(scan)
    files._clock.sleep_ms(clock.now_ms() - files._clock.now_ms())
    for _ in range(hours * READ_RETAINED_MS // LEASE_TIMEOUT_MS // 10):
        for _ in range(10):
            clock.sleep_ms(LEASE_TIMEOUT_MS)
            keeper.tend()
        other = replace(Env.seeded(next(_SEEDS)), clock=clock)
        table = tidelake.open("/w", fileio=files, env=other).table("db.t")
        table.write([{"k": 51, "v": 2, "p": "b"}])
        table.compact(full=True)
        table.maintenance.expire_snapshots(**ALL)
        try:
            found = rows_of(scan)
        except NotFoundError as error:
            raise HoldBroken(f"a kept scan lost its snapshot: {error}") from error
        if found != expected:
            raise HoldBroken("a kept scan reads other rows")
    scan.close()
