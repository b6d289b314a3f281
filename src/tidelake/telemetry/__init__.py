"""The outside world as arguments: time, randomness, unique names, threads, memory.

Engine code takes them from :class:`Env`, so that tests can replace them. Nothing of a table may
enter.
"""

from tidelake.telemetry.backoff import Backoff
from tidelake.telemetry.commit_tally import BOUNDS_S, CommitFigures, CommitTally, TimedCommit
from tidelake.telemetry.env import (
    Clock,
    Env,
    Ids,
    ManualClock,
    Rng,
    SeededIds,
    SeededRng,
    SystemClock,
    SystemIds,
    SystemRng,
    invariants,
    invariants_on,
)
from tidelake.telemetry.executor import (
    Ahead,
    CoreExecutor,
    Executor,
    SerialExecutor,
    ThreadExecutor,
    Unwanted,
    check_wanted,
)
from tidelake.telemetry.fork import FORKED, PerProcess, ProcessMark
from tidelake.telemetry.keeper import Keeper, Kept, ManualKeeper, ThreadKeeper
from tidelake.telemetry.kept_property import kept_property
from tidelake.telemetry.last_times import LastTimes
from tidelake.telemetry.memory import MEMORY_BYTES_MIN, UNLIMITED, Memory
from tidelake.telemetry.metrics_port import MetricsPort
from tidelake.telemetry.process import has_ended, process_name
from tidelake.telemetry.read_threads import ReadThreads
from tidelake.telemetry.recently_used import RecentlyUsed

__all__ = [
    "BOUNDS_S",
    "FORKED",
    "MEMORY_BYTES_MIN",
    "UNLIMITED",
    "Ahead",
    "Backoff",
    "Clock",
    "CommitFigures",
    "CommitTally",
    "CoreExecutor",
    "Env",
    "Executor",
    "Ids",
    "Keeper",
    "Kept",
    "LastTimes",
    "ManualClock",
    "ManualKeeper",
    "Memory",
    "MetricsPort",
    "PerProcess",
    "ProcessMark",
    "ReadThreads",
    "RecentlyUsed",
    "Rng",
    "SeededIds",
    "SeededRng",
    "SerialExecutor",
    "SystemClock",
    "SystemIds",
    "SystemRng",
    "ThreadExecutor",
    "ThreadKeeper",
    "TimedCommit",
    "Unwanted",
    "check_wanted",
    "has_ended",
    "invariants",
    "invariants_on",
    "kept_property",
    "process_name",
]
