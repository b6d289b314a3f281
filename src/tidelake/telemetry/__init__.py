"""Time, randomness, unique names, threads and progress, as arguments."""

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

__all__ = [
    "Clock",
    "Env",
    "Executor",
    "Ids",
    "ManualClock",
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
