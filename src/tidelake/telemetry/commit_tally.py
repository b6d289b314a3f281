"""Counts the commits of this process by table: how many, how long they took, what they lost.

It only counts: nothing that the engine decides depends on it, and its time is the machine's own,
so a replay of a seed reads no clock more often.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidelake.telemetry.fork import PerProcess

TABLES_MAX = 10_000
"""Tables that are counted; commits of more are not."""
BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the durations that are counted together; one more count has the longer ones."""


@dataclass(frozen=True, slots=True)
class CommitFigures:
    """The commits of one kind in one table.

    Parameters
    ----------
    durations : tuple of int
        Commits by duration: one for each of :data:`BOUNDS_S`, and the longer ones.
    lost_races : int
        Attempts after which another commit had the next snapshot, so that they began again.
    failures : int
        Commits that ended with an error.
    """

    table: str
    kind: str
    durations: tuple[int, ...]
    seconds: float
    lost_races: int
    failures: int

    @property
    def commits(self) -> int:
        """Snapshots that were published."""
        return sum(self.durations)


@dataclass(slots=True)
class TimedCommit:
    """A commit on its way."""

    is_made: bool = False
    lost_races: int = 0


@dataclass(slots=True)
class _Counts:
    durations: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    seconds: float = 0.0
    lost_races: int = 0
    failures: int = 0


class CommitTally:
    """Counts commits. Thread-safe; a copy in another process is empty.

    Examples
    --------
    >>> tally = CommitTally()
    >>> with tally.timed("db.t", "APPEND") as timed:
    ...     timed.is_made = True
    >>> [(one.table, one.kind, one.commits) for one in tally.figures()]
    [('db.t', 'APPEND', 1)]
    """

    def __init__(self) -> None:
        self._guard = PerProcess(threading.Lock)  # a thread of a parent may hold its own for ever
        self._counts: dict[tuple[str, str], _Counts] = {}

    def __reduce__(self) -> tuple[type[CommitTally], tuple[()]]:
        return (CommitTally, ())

    @contextmanager
    def timed(self, table: str, kind: str) -> Iterator[TimedCommit]:
        """Count what is done in a ``with`` block, which says whether a snapshot was made."""
        timed, began_s = TimedCommit(), time.perf_counter()
        is_failed = True
        try:
            yield timed
            is_failed = False
        finally:
            if timed.is_made or timed.lost_races or is_failed:
                seconds = time.perf_counter() - began_s
                self._count(table, kind, seconds, timed, is_failed=is_failed)

    def _count(
        self, table: str, kind: str, seconds: float, timed: TimedCommit, *, is_failed: bool
    ) -> None:
        with self._guard.value:
            counts = self._counts.get((table, kind))
            if counts is None:
                if len(self._counts) >= TABLES_MAX:
                    return
                counts = self._counts[table, kind] = _Counts()
            counts.lost_races += timed.lost_races
            counts.failures += is_failed
            if timed.is_made:
                counts.durations[bisect_left(BOUNDS_S, seconds)] += 1
                counts.seconds += seconds

    def figures(self) -> tuple[CommitFigures, ...]:
        """What was counted so far, by table and kind."""
        with self._guard.value:
            return tuple(
                CommitFigures(
                    table,
                    kind,
                    tuple(counts.durations),
                    counts.seconds,
                    counts.lost_races,
                    counts.failures,
                )
                for (table, kind), counts in sorted(self._counts.items())
            )
