"""What engine code gets from outside: clock, randomness, ids, threads, memory."""

from __future__ import annotations

from tidelake.telemetry import (
    BOUNDS_S,
    Backoff,
    Clock,
    CommitFigures,
    CommitTally,
    Env,
    Ids,
    Memory,
    MetricsPort,
    PerProcess,
    ProcessMark,
    RecentlyUsed,
    SystemClock,
    SystemIds,
    process_name,
)
from tidelake.telemetry.env import local_zone

__all__ = [
    "BOUNDS_S",
    "Backoff",
    "Clock",
    "CommitFigures",
    "CommitTally",
    "Env",
    "Ids",
    "Memory",
    "MetricsPort",
    "PerProcess",
    "ProcessMark",
    "RecentlyUsed",
    "SystemClock",
    "SystemIds",
    "local_zone",
    "process_name",
]
