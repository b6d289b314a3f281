"""A reader that takes a lease beside expiries and other runs: it reads on, or was refused.

Each check lets somebody act at every moment of another's work, or fails a call of it.
"""

from __future__ import annotations

import contextlib
import random

import tidelake
from proving.expiring import ALL, make, rows, work
from proving.reach import missing
from proving.turns import Process, take_turns
from tidelake.errors import ConflictError, NotFoundError, TidelakeError
from tidelake.fileio import FaultMode, FaultyFileIO, MemoryFileIO, SimulatedCrash
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.table.stream import StreamLease
from tidelake.table.stream.lease import LEASE_TIMEOUT_MS
from tidelake.telemetry import Env

HELD = 2
"""The snapshot that a reader wants, which expires beside it."""
COMMITS = 4


class LeaseBroken(AssertionError):
    """A lease did not do what it promises."""


def world() -> MemoryFileIO:
    """A storage with a table of some snapshots."""
    files = MemoryFileIO()
    work(make(files, primary_keys=["k"], bucket="1"), COMMITS)
    return files


def copy_of(files: MemoryFileIO) -> MemoryFileIO:
    """The same files, to be changed alone."""
    made = MemoryFileIO()
    made._files.update(files._files)
    made._dirs.update({path: dict(names) for path, names in files._dirs.items()})
    return made


def table_on(files):
    return tidelake.open("/w", fileio=files, env=Env.seeded(8)).table("db.t")


class make_name:
    identifier = "db.t"

    def __init__(self, files: object) -> None:
        self.files = files


def take(files, *, run_id: str = "reader", consumer_id: str = "c") -> StreamLease:
    """Take a lease as a reader does."""
    return StreamLease.open(table_on(files).handle, consumer_id, HELD, run_id=run_id, of_state=True)


def expire(files) -> None:
    table_on(files).expire_snapshots(**ALL)


def check_held(files, lease: StreamLease | None, expected: list, where: str) -> None:
    """Who has the lease reads its snapshot; who has not left nothing that holds any."""
    table = table_on(files)
    if missing(files, table.handle.paths.location):
        raise LeaseBroken(f"{where}: a snapshot lacks files")
    if lease is not None:
        try:
            found = rows(table, snapshot_id=HELD)
        except NotFoundError as error:
            raise LeaseBroken(f"{where}: the reader was let in, and {error}") from error
        if found != expected:
            raise LeaseBroken(f"{where}: other rows")
        expire(files)
        if rows(table_on(files), snapshot_id=HELD) != expected:
            raise LeaseBroken(f"{where}: what is held expired")
        ConsumerLog(files, table.handle.paths).delete("c")  # its own storage may wait for a turn
    expire(files)
    state = ConsumerLog(files, table.handle.paths).states()
    if state or len(table_on(files).handle.snapshots.ids()) != 1:
        raise LeaseBroken(f"{where}: something is still held, {state}")


def run_turns(seed: int, *, expiries: int = 2) -> str:
    """A reader and expiries by turns at each call; what came of the reader."""
    rng = random.Random(seed)
    files = world()
    expected = rows(table_on(files), snapshot_id=HELD)
    reader = Process("reader", files, lambda process: take(process.files))
    others = [
        Process(f"expiry-{number}", files, lambda process: expire(process.files))
        for number in range(expiries)
    ]
    stays, last = rng.choice([0.5, 0.9, 0.97]), []

    def choose(waiting):
        if not last or last[0] not in waiting or rng.random() > stays:
            last[:] = [rng.choice(waiting)]
        return last[0]

    take_turns([reader, *others], choose, lambda _: None)
    for process in (reader, *others):
        refused = process is reader and isinstance(process.error, NotFoundError)
        if process.error is not None and not refused:
            raise LeaseBroken(f"seed {seed}: {process.name} failed") from process.error
    check_held(files, reader.result, expected, f"seed {seed}")
    return "held" if reader.error is None else "refused"


def run_rivals(seed: int, *, rivals: int = 3) -> int:
    """Runs that want one consumer at once; how many were let in, which is one."""
    rng = random.Random(seed)
    files = world()
    runs = [
        Process(f"run-{n}", files, lambda process: take(process.files, run_id=process.name))
        for n in range(rivals)
    ]
    take_turns(runs, rng.choice, lambda _: None)
    for run in runs:
        if run.error is not None and not isinstance(run.error, ConflictError):
            raise LeaseBroken(f"seed {seed}: {run.name} failed") from run.error
    inside = [run for run in runs if run.error is None]
    log = ConsumerLog(files, table_on(files).handle.paths)
    if len(inside) != 1 or log.lease("c").run_id != inside[0].name:
        raise LeaseBroken(f"seed {seed}: {[run.name for run in inside]} were let in")
    return len(inside)


def act_all(files) -> None:
    """A reader's life: take, advance, renew, close."""
    lease = take(files)
    lease.advance(HELD + 1)
    lease.renew()
    expire(files)
    lease.close()


def calls_of_life() -> int:
    """How many calls a reader's life makes."""
    faulty = FaultyFileIO(world(), {})
    act_all(faulty)
    return len(faulty.trace)


def run_fault(given: MemoryFileIO, call: int, mode: FaultMode) -> None:
    """One call of a reader's life fails; the next run goes on, and in the end nothing is held."""
    files = copy_of(given)
    faulty = FaultyFileIO(files, {call: mode})
    where = f"call {call}, {mode.name}"
    with contextlib.suppress(SimulatedCrash, TidelakeError):
        act_all(faulty)
    table = table_on(files)
    location = table.handle.paths.location
    if missing(files, location):
        raise LeaseBroken(f"{where}: a snapshot lacks files")
    table.handle.env.clock.sleep_ms(2 * LEASE_TIMEOUT_MS)
    log = ConsumerLog(files, table.handle.paths)
    next_id = log.next_id("c") or table.handle.snapshots.earliest_id()
    earliest_id = table.handle.snapshots.earliest_id()
    if next_id < earliest_id:
        # an expiry that is told there are no consumers takes what they wait for
        if mode is not FaultMode.EMPTY_LIST:
            raise LeaseBroken(f"{where}: what the consumer waits for expired")
        next_id = earliest_id
    lease = StreamLease.open(table.handle, "c", next_id, run_id="after")
    rows(table, snapshot_id=next_id)
    lease.close(forget=True)
    check_held(files, None, [], where)
