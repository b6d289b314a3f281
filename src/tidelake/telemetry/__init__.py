"""Time, randomness, unique names, threads, memory and progress, as arguments."""

from tidelake.telemetry.env import (
    Clock,
    Env,
    Executor,
    Ids,
    ManualClock,
    Progress,
    Rng,
    SeededIds,
    SeededRng,
    SerialExecutor,
    SilentProgress,
    SystemClock,
    SystemIds,
    ThreadExecutor,
    invariants,
    invariants_on,
)
from tidelake.telemetry.memory import MEMORY_BYTES_MIN, UNLIMITED, Memory

__all__ = [
    "MEMORY_BYTES_MIN",
    "UNLIMITED",
    "Clock",
    "Env",
    "Executor",
    "Ids",
    "ManualClock",
    "Memory",
    "Progress",
    "Rng",
    "SeededIds",
    "SeededRng",
    "SerialExecutor",
    "SilentProgress",
    "SystemClock",
    "SystemIds",
    "ThreadExecutor",
    "invariants",
    "invariants_on",
]
