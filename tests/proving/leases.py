"""A reader that takes a lease beside expiries and other runs: it reads on, or was refused.

Each check lets somebody act at every moment of another's work, or fails a call of it.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Generator
from dataclasses import replace
from unittest import mock

import tidelake
from proving.expiring import ALL, make, rows, work
from proving.reach import missing
from proving.turns import Process, take_turns
from tidelake.errors import ConflictError, NotFoundError, TidelakeError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.table.stream import StreamLease
from tidelake.table.stream.consumer_reset import clear_consumers, reset_consumer
from tidelake.table.stream.follow import StreamBatch
from tidelake.table.stream.lease import LEASE_TIMEOUT_MS
from tidelake.telemetry import Env, ManualClock
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

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
    table_on(files).maintenance.expire_snapshots(**ALL)


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


STATE_SPLITS, STATE_STEPS = 4, 14
"""Files of the first full state, each a batch; acts around it."""


def first_state_table():
    """An append table whose state comes in several batches."""
    env = replace(Env.seeded(11), clock=ManualClock(1_700_000_000_000))
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
    table = catalog.create_table("db.t", {"k": "INT"}, options={"bucket": -1})
    for k in range(STATE_SPLITS):
        table.write([{"k": k}])
    return table


class FirstState:
    """A consumer whose first full state is read, killed, reset and cleared at every step.

    Parameters
    ----------
    seed : int
        Draws the acts.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.table = first_state_table()
        self.handle = self.table.handle
        self.log = ConsumerLog(self.handle.fileio, self.handle.paths)
        self.stream: Generator[StreamBatch, None, None] | None = None
        self.got: list[int] = []
        self.progress: int | None = None
        """The next snapshot that the consumer must go on from; None before it has read a state."""
        self.acts: list[str] = []

    def run(self) -> None:
        """Draw acts; at the end a run reads what is left, and nothing is held."""
        for _ in range(STATE_STEPS):
            act = self.rng.choice([self.read, self.read, self.read, self.kill, self.end,
                                   self.rival, self.reset, self.clear, self.write])  # fmt: skip
            self.acts.append(act.__name__)
            act()
        self.kill()
        stream = self.open()
        rows = [row["k"] for batch in stream for row in batch.data.to_pylist()]
        self._check(self.got + rows)
        clear_consumers(self.handle)
        self._must(not self.log.next_ids(), f"it holds {self.log.next_ids()} after all is cleared")

    def open(self) -> Generator[StreamBatch, None, None]:
        """A run begins; what it must give is known."""
        start = self.rng.choice(["latest-full", "latest", None]) if self._begun() else "latest-full"
        self.stream = self.table.stream(start=start, consumer_id="c", timeout=0)
        self.got = []
        return self.stream

    def read(self) -> None:
        """Ask the run for a batch."""
        stream = self.open() if self.stream is None else self.stream
        batch = next(stream, None)
        if batch is None:
            self._check(self.got)
            self.stream = None
            self.progress = (self.table.latest_snapshot_id or 0) + 1
            return
        self.got += [row["k"] for row in batch.data.to_pylist()]

    def kill(self) -> None:
        """The run's process ends where it is; others may come when its time is over."""
        if self.stream is not None:
            with mock.patch.object(StreamLease, "close", return_value=None):
                self.stream.close()
            self.stream = None
            self._learn()
        self.handle.env.clock.sleep_ms(LEASE_TIMEOUT_MS)

    def end(self) -> None:
        """The run is closed."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None
            self._learn()

    def rival(self) -> None:
        """Another run of the consumer, while this one is live: refused."""
        if self.stream is not None and self.got:
            start = self.rng.choice(["latest-full", "latest", 1])
            self._refused(lambda: next(self.table.stream(start=start, consumer_id="c", timeout=0)))

    def reset(self) -> None:
        """Set the consumer to a snapshot, or remove it: refused while a run is live."""
        to = self.rng.choice([1, 2, None])
        if self.stream is not None and self.got:
            self._refused(lambda: reset_consumer(self.handle, "c", to))
        elif self.stream is None:
            reset_consumer(self.handle, "c", to)
            self.progress = to
            self._must(set(self.log.next_ids()) <= {"c"}, "a hold outlives a reset")

    def clear(self) -> None:
        """Remove the consumer by its name: refused while a run is live."""
        if self.stream is not None and self.got:
            self._refused(lambda: clear_consumers(self.handle, "c"))
        elif self.stream is None:
            clear_consumers(self.handle, "c")
            self.progress = None
            self._must(not self.log.next_ids(), "a hold outlives its consumer")

    def write(self) -> None:
        """A commit, and an expiry of all that nobody holds."""
        self.table.write([{"k": self.table.latest_snapshot_id or 0}])

    def _begun(self) -> bool:
        state = self.log.states().get("c")
        return state is not None and state.lease is not None and state.lease.of_state

    def _learn(self) -> None:
        self.progress = self.log.next_id("c")

    def _check(self, rows: list[int]) -> None:
        """A run that ended gave the whole state, or all since its progress."""
        first = 1 if self.progress is None else self.progress
        newest = self.table.latest_snapshot_id or 0
        self._must(sorted(rows) == list(range(first - 1, newest)), f"rows {sorted(rows)}")

    def _refused(self, act: Callable[[], object]) -> None:
        try:
            act()
        except ConflictError:
            return
        self._must(False, "it was let in beside a live run")

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            raise LeaseBroken(f"seed {self.seed}, {self.acts}: {what}")
