"""The environment of the engine: time, randomness, names, threads, memory, local disk.

Engine code takes an :class:`Env` and nothing else, so a test can replay a run exactly: the same
seed gives the same clock readings, file names, waits and order of work.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidelake.telemetry.commit_tally import CommitTally
from tidelake.telemetry.executor import (
    CoreExecutor,
    Executor,
    SerialExecutor,
    ThreadExecutor,
)
from tidelake.telemetry.keeper import Keeper, ManualKeeper, keeper_of_process
from tidelake.telemetry.last_times import LastTimes
from tidelake.telemetry.memory import UNLIMITED, Memory
from tidelake.telemetry.read_threads import ReadThreads


class Clock(Protocol):
    """Time as the engine sees it."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds since some moment, for waits and deadlines: never goes back."""
        ...

    def local_offset_ms(self) -> int:
        """Offset of the local wall clock from UTC, in ms (Paimon stores some times as local)."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait; a test's clock only moves its hands."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_seconds(self) -> float:
        """Seconds since some moment; no change of the machine's time moves it."""
        return time.monotonic()

    def local_offset_ms(self) -> int:
        """Offset of the local wall clock from UTC, in ms."""
        offset = datetime.now(tz=UTC).astimezone().utcoffset()
        return 0 if offset is None else int(offset.total_seconds() * 1000)

    def sleep_ms(self, duration_ms: float) -> None:
        """Sleep for real."""
        time.sleep(duration_ms / 1000)


class ManualClock:
    """A clock that moves only by a call, or by one tick per reading.

    Examples
    --------
    >>> clock = ManualClock(1_000, tick_ms=5)
    >>> clock.now_ms(), clock.now_ms()
    (1000, 1005)
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, *, tick_ms: int = 0) -> None:
        self._now_ms = start_ms
        self._tick_ms = tick_ms

    def now_ms(self) -> int:
        """Milliseconds since the epoch; then one tick passes."""
        now = self._now_ms
        self._now_ms += self._tick_ms
        return now

    def monotonic_seconds(self) -> float:
        """Seconds of the same hands."""
        return self.now_ms() / 1000

    def local_offset_ms(self) -> int:
        """Tests live in UTC."""
        return 0

    def sleep_ms(self, duration_ms: float) -> None:
        """Move the hands forward."""
        self._now_ms += int(duration_ms)


class Rng(Protocol):
    """Randomness for back-off waits."""

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high]."""
        ...


class SystemRng:
    """The system's randomness: no state that a fork or a pickle would copy."""

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high]."""
        return random.SystemRandom().uniform(low, high)


class SeededRng:
    """Randomness that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high]."""
        return self._random.uniform(low, high)


class Ids(Protocol):
    """Unique names for files and commit users."""

    def uuid(self) -> str:
        """A uuid in its text form."""
        ...


class SystemIds:
    """Random uuids."""

    def uuid(self) -> str:
        """A uuid4."""
        return str(uuid.uuid4())


class SeededIds:
    """Uuids that a seed decides, so that a replay gives the same file names.

    Examples
    --------
    >>> SeededIds(1).uuid() == SeededIds(1).uuid()
    True
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> str:
        """A uuid4 drawn from the seed."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))


def local_zone() -> str | None:
    """The local time zone by its name in the IANA data base; None where the machine does not tell.

    The environment variable ``TZ`` comes first, then ``/etc/localtime``; a machine with neither
    lives in UTC.
    """
    name = os.environ.get("TZ", "").lstrip(":")
    place = Path("/etc/localtime")
    if not name and not place.exists():
        return "UTC"
    target = name or str(place.resolve())
    name = target.partition("zoneinfo/")[2] or name
    for prefix in ("posix/", "right/"):
        name = name.removeprefix(prefix)
    try:
        return ZoneInfo(name).key if name else None
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return None  # a rule such as EST5EDT4,M3.2.0,M11.1.0, or no name


CORES_MAX = 8
"""Most threads that decode columns for one process."""


def _of_all_cores() -> Executor:
    """Threads for the cores that this process may use; none where it has one."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux tells
        count = os.cpu_count() or 1
    return SerialExecutor() if count == 1 else CoreExecutor(min(count, CORES_MAX), level=1)


_CORES = _of_all_cores()


@dataclass(frozen=True, slots=True)
class Env:
    """The engine's outside world, passed down as one value. Picklable.

    Parameters
    ----------
    clock : Clock
        Time, and waits.
    rng : Rng
        Randomness of back-off waits.
    ids : Ids
        Unique names of files, and of users of commits.
    executor : Executor
        Where tasks of one call run side by side.
    zone : str, optional
        The local time zone, which casts between local times and instants take, by its IANA name.
        It is that of the machine where the catalog was opened, on every executor too.
    memory : Memory
        What each part of the engine may hold; on an executor, in each of its Python processes.
    reads : ReadThreads
        Where reads over a network run side by side.
    cores : Executor
        Where columns of data files are decoded beside the caller's work; by :meth:`system`, all
        tables of a process share as many threads as it has cores.
    last_times : LastTimes
        When this process last did what commits do from time to time.
    keeper : Keeper
        Looks after what lasts longer than a call, such as what a read holds; by :meth:`system` a
        thread that all tables of a process share.
    commits : CommitTally
        Counts the commits of this process to tables of the catalog.

    Examples
    --------
    >>> env = Env.seeded(7)
    >>> env.clock.now_ms()
    1700000000000
    """

    clock: Clock = field(default_factory=SystemClock)
    rng: Rng = field(default_factory=SystemRng)
    ids: Ids = field(default_factory=SystemIds)
    executor: Executor = field(default_factory=lambda: ThreadExecutor(4))
    zone: str | None = field(default_factory=local_zone)
    memory: Memory = UNLIMITED
    reads: ReadThreads = field(default_factory=ReadThreads)
    cores: Executor = field(default_factory=SerialExecutor)
    last_times: LastTimes = field(default_factory=LastTimes)
    keeper: Keeper = field(default_factory=ManualKeeper)
    commits: CommitTally = field(default_factory=CommitTally)

    @classmethod
    def system(cls) -> Env:
        """The real world."""
        return cls(cores=_CORES, keeper=keeper_of_process())

    def with_memory(self, memory: Memory) -> Env:
        """Return the same environment with another memory limit, and tasks that fit into it.

        Examples
        --------
        >>> Env.system().with_memory(Memory.of(256 << 20)).memory.total_bytes >> 20
        256
        """
        executor, one = self.executor, memory.tasks_max == 1
        if not isinstance(executor, SerialExecutor):
            executor = SerialExecutor() if one else ThreadExecutor(memory.tasks_max)
        cores = SerialExecutor() if one else self.cores
        return replace(self, executor=executor, memory=memory, cores=cores)

    def spill_directory(self) -> str:
        """Name a new directory on the local disk of the machine that asks; not made yet.

        In a task of Spark's it is in the directories that Spark spills to, one after the other by
        process: what a process that was killed leaves there goes with the executor.

        The process is part of the name too: those that replay one seed draw the same ids, side by
        side.
        """
        process = os.getpid()
        named = os.environ.get(SPARK_DISKS, "").split(",")
        # on a cluster the same variable may name whole disks, which no one cleans
        disks = [d for d in named if Path(d).name.startswith(SPARK_DIRECTORY)]
        disk = disks[process % len(disks)] if disks else tempfile.gettempdir()
        return str(Path(disk, f"tidelake-spill-{process}-{self.ids.uuid()}"))

    @classmethod
    def seeded(cls, seed: int) -> Env:
        """A replayable world: manual clock, seeded ids and randomness, one thread."""
        return cls(
            clock=ManualClock(tick_ms=1),
            rng=SeededRng(seed),
            ids=SeededIds(seed),
            executor=SerialExecutor(),
            zone="UTC",
            reads=ReadThreads.none(),
        )


SPARK_DISKS, SPARK_DIRECTORY = "SPARK_LOCAL_DIRS", "blockmgr-"
"""The variable in which Spark passes its directories to a Python worker, with commas between them,
and what their names begin with."""

_invariants_on = False


def invariants_on() -> bool:
    """Whether costly self-checks run (they do in tests)."""
    return _invariants_on


@contextmanager
def invariants(*, on: bool = True) -> Iterator[None]:
    """Turn costly self-checks on or off inside a ``with`` block."""
    global _invariants_on  # one process-wide switch, as an assertion flag is
    before = _invariants_on
    _invariants_on = on
    try:
        yield
    finally:
        _invariants_on = before
