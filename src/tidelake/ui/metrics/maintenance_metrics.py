"""Metrics of a maintenance job: its rounds, and what it did in each table."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tidelake.engine.env import Clock
from tidelake.engine.jobs import MaintenanceRound
from tidelake.ui.metrics.families import MetricFamily, Sample

PREFIX = "tidelake_maintenance"
NONE: tuple[str, ...] = ()
ROUNDS = MetricFamily(f"{PREFIX}_rounds_total", "Rounds that ended.", NONE, is_counter=True)
SECONDS = MetricFamily(
    f"{PREFIX}_round_seconds_total", "Seconds of all rounds.", NONE, is_counter=True
)
LAST = MetricFamily(
    f"{PREFIX}_last_round_timestamp_seconds", "When the last round ended, since 1970.", NONE
)
LOOKED = MetricFamily(f"{PREFIX}_tables", "Tables that the last round looked at.", NONE)
TASKS = MetricFamily(
    f"{PREFIX}_tasks_total", "Tasks that did something.", ("table", "task"), is_counter=True
)
WORK = MetricFamily(
    f"{PREFIX}_work_total",
    "What tasks did, by what is counted: files, bytes, snapshots, gave_way and others.",
    ("table", "task", "what"),
    is_counter=True,
)
FAILURES = MetricFamily(
    f"{PREFIX}_failures_total",
    "Tasks that failed, and tables that could not be looked at (task is empty).",
    ("table", "task"),
    is_counter=True,
)
TAKEN = MetricFamily(
    f"{PREFIX}_taken_total",
    "Rounds in which another job was at work on the table.",
    is_counter=True,
)
FAMILIES = (ROUNDS, SECONDS, LAST, LOOKED, TASKS, WORK, FAILURES, TAKEN)
"""All of this module."""


class MaintenanceCollector:
    """Counts rounds, and makes the samples of what it counted. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._rounds = 0
        self._seconds = 0.0
        self._last_s: float | None = None
        self._looked = 0
        self._tasks: Counter[tuple[str, ...]] = Counter()
        self._work: Counter[tuple[str, ...]] = Counter()
        self._failures: Counter[tuple[str, ...]] = Counter()
        self._taken: Counter[tuple[str, ...]] = Counter()

    def take(self, done: MaintenanceRound) -> None:
        """Count a round that has ended."""
        with self._guard:
            self._rounds += 1
            self._seconds += done.seconds
            self._last_s = self._clock.now_ms() / 1000
            self._looked = done.looked_count
            for table in done.tables:
                self._taken[(table.table,)] += table.is_taken
                for task in table.tasks:
                    key = (table.table, task.task.value)
                    self._failures[key] += task.error is not None
                    self._tasks[key] += task.error is None
                    for what, count in task.figures.items():
                        self._work[(*key, what)] += count
            for name in done.failed:
                self._failures[(name, "")] += 1

    def describe(self) -> list[Any]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each metric."""
        with self._guard:
            rounds, seconds, looked = self._rounds, self._seconds, self._looked
            last = [] if self._last_s is None else [(NONE, self._last_s)]
            counted = [
                (family, _samples(counts))
                for family, counts in (
                    (TASKS, self._tasks),
                    (WORK, self._work),
                    (FAILURES, self._failures),
                    (TAKEN, self._taken),
                )
            ]
        yield ROUNDS.of([(NONE, rounds)])
        yield SECONDS.of([(NONE, seconds)])
        yield LAST.of(last)
        yield LOOKED.of([(NONE, looked)])
        for family, samples in counted:
            yield family.of(samples)


def _samples(counts: Counter[tuple[str, ...]]) -> Sequence[Sample]:
    return [(labels, count) for labels, count in sorted(counts.items()) if count]
