"""The executors of a service as the address server knows them: by index, the newest instance.

1. A report registers its executor and is its heartbeat. Of two instances of one index the one of
   the later attempt counts, of equal attempts the one that came later. The other is asked to stop.
2. An executor that was silent for :data:`SILENT_MS` is left out of layouts.
3. The **epoch** goes up whenever the answer to clients changes: another instance, another
   address, a table that became ready or ceased to be.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelake.service.address.refusal import Refusal, Status
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

SILENT_MS = 3_000
"""Fifteen heartbeats: a busy machine lets an executor wait for seconds."""
SUPERSEDED_KEPT = 1_024


@dataclass(frozen=True, slots=True)
class Registration:
    """What an executor said last.

    Parameters
    ----------
    heard_ms : float
        When, by the monotonic clock, in ms.
    """

    report: pb.ExecutorReport
    heard_ms: float

    def is_live(self, now_ms: float) -> bool:
        """Whether it reported recently."""
        return now_ms - self.heard_ms < SILENT_MS

    def is_ready(self, table: str) -> bool:
        """Whether it answers for a table."""
        return any(t.table == table and t.ready for t in self.report.tables)


class Registry:
    """The executors. Threads share it.

    Parameters
    ----------
    epoch : int
        The first epoch: more than that of any service before.
    now : callable
        A monotonic clock, in seconds.
    """

    def __init__(
        self,
        executors_count: int,
        epoch: int,
        now: Callable[[], float],
    ) -> None:
        self._count = executors_count
        self._epoch = epoch
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[int, Registration] = {}
        self._superseded: deque[str] = deque(maxlen=SUPERSEDED_KEPT)
        self._answered: tuple[object, ...] = ()

    @property
    def epoch(self) -> int:
        """The newest epoch; looks for executors that fell silent."""
        with self._lock:
            self._look()
            return self._epoch

    def raise_epoch(self) -> None:
        """Begin a new epoch: the tables have changed."""
        with self._lock:
            self._epoch += 1

    def register(self, report: pb.ExecutorReport) -> bool:
        """Take a report; False if another instance has its index.

        Raises
        ------
        Refusal
            This service has no such index.
        """
        if report.index >= self._count:
            message = (
                f"Executor {report.index} is of another service: this one has"
                f" {self._count} executors."
            )
            raise Refusal(Status.INVALID_ARGUMENT, "executor-index", message)
        with self._lock:
            if report.instance in self._superseded:
                return False
            held = self._known.get(report.index)
            if held is not None and held.report.instance != report.instance:
                if report.attempt < held.report.attempt and held.is_live(self._now_ms()):
                    self._superseded.append(report.instance)
                    return False
                self._superseded.append(held.report.instance)
            if report.leaving:
                self._known.pop(report.index, None)
            else:
                self._known[report.index] = Registration(report, self._now_ms())
            self._look()
            return True

    def all(self) -> list[tuple[Registration, float]]:
        """All that are known by index, with the ms since they were heard of."""
        with self._lock:
            now_ms = self._now_ms()
            return [(r, now_ms - r.heard_ms) for _, r in sorted(self._known.items())]

    def find(self, index: int) -> Registration | None:
        """What an executor said last; None if none has this index."""
        with self._lock:
            return self._known.get(index)

    def live(self) -> list[Registration]:
        """Those that reported recently, by index."""
        return [r for r, silent_ms in self.all() if silent_ms < SILENT_MS]

    def oldest_snapshot(self, table: str, generation: int, newest: int) -> int:
        """The oldest snapshot of a generation whose files an executor may still open.

        Parameters
        ----------
        newest : int
            The newest snapshot.

        Returns
        -------
        int
            0 while an executor is behind by a generation or has not said where it is.
        """
        found = [self._snapshot_of(r.report, table, generation) for r in self.live()]
        return min([newest, *found])

    @staticmethod
    def _snapshot_of(report: pb.ExecutorReport, table: str, generation: int) -> int:
        for served in report.tables:
            if served.table == table and served.version.generation == generation:
                return int(served.version.snapshot)
        return 0

    def forget(self, index: int) -> None:
        """Leave out an executor whose process has ended."""
        with self._lock:
            held = self._known.pop(index, None)
            if held is not None:
                self._superseded.append(held.report.instance)
            self._look()

    def _now_ms(self) -> float:
        return self._now() * 1000

    def _look(self) -> None:
        now_ms = self._now_ms()
        answered = tuple(
            (index, r.report.instance, r.report.address, _ready(r.report.tables))
            for index, r in sorted(self._known.items())
            if r.is_live(now_ms)
        )
        if answered != self._answered:
            self._answered = answered
            self._epoch += 1


def _ready(tables: Sequence[pb.TableReport]) -> tuple[str, ...]:
    return tuple(sorted(t.table for t in tables if t.ready))
