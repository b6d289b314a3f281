"""The figures of a running job: what a terminal's table and Prometheus show.

:class:`SyncProgress` is told of each epoch, each part of a copy and each look at the source, by the
job's thread. Any thread may ask for the :class:`JobFigures` of the last moment: they are a value
that is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tidelake.cdc.evolution.ddl_entry import DdlEntry
from tidelake.cdc.job.job import EpochDone, SyncJob
from tidelake.engine.env import Clock

RATE_SECONDS = 10.0
SAMPLES_MAX = 64
"""Kept for the rates: of more epochs in :data:`RATE_SECONDS` the newest."""
SHOWN_EVERY_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class SyncTableFigures:
    """One table of the source."""

    source: str
    target: str
    phase: str
    rows: int
    rows_per_second: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """A copy on its way.

    Parameters
    ----------
    rows_estimated : int
        By the source's statistics; 0 if it has none.
    seconds : float
        Since it began.
    """

    target: str
    rows: int
    rows_estimated: int
    seconds: float

    @property
    def share(self) -> float | None:
        """How much is done, from 0 to 1; None if it cannot be estimated any more."""
        is_known = 0 < self.rows <= self.rows_estimated
        return self.rows / self.rows_estimated if is_known else None

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at the speed so far; None if it is not known."""
        share = self.share
        return None if share is None else self.seconds * (1 - share) / share


@dataclass(frozen=True, slots=True)
class JobFigures:
    """A job at one moment.

    Parameters
    ----------
    lag_ms : int or None
        How long after the source the last epoch was readable; None if it is not known.
    """

    job: str
    epoch: int = -1
    position: str = ""
    newest: str = ""
    lag_ms: int | None = None
    quarantined: int = 0
    tables: tuple[SyncTableFigures, ...] = ()
    copy: CopyFigures | None = None
    last_ddl: DdlEntry | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    seconds: float
    rows: Mapping[str, int] = field(default_factory=dict)


class SyncProgress:
    """Follows a running job.

    Parameters
    ----------
    show : callable, optional
        Called with the figures now and then, on the job's thread.
    """

    def __init__(
        self, job: str, clock: Clock, show: Callable[[JobFigures], None] | None = None
    ) -> None:
        self._clock = clock
        self._show = show
        self._samples: list[_Sample] = []
        self._copy_began: tuple[str, float] = ("", 0.0)
        self._shown_seconds = -SHOWN_EVERY_SECONDS
        self.figures = JobFigures(job)

    def epoch_done(self, done: EpochDone, job: SyncJob) -> None:
        """Take an epoch that was applied."""
        lag_ms = self.figures.lag_ms
        if done.committed_ms is not None:
            lag_ms = max(0, self._clock.now_ms() - done.committed_ms)
        elif done.position == done.newest:
            lag_ms = 0
        tables = job.state.tables
        rows = {str(name): one.rows_count for name, one in tables.items()}
        self._samples = self._samples[1 - SAMPLES_MAX :]
        self._samples.append(_Sample(self._clock.monotonic_seconds(), rows))
        found = tuple(
            SyncTableFigures(
                str(name), one.target, str(one.phase), one.rows_count, reason=one.reason
            )
            for name, one in tables.items()
        )
        self.figures = replace(
            self.figures,
            epoch=done.epoch,
            position=done.position,
            newest=done.newest,
            lag_ms=lag_ms,
            quarantined=job.state.quarantined_count,
            tables=found,
            copy=None,
            last_ddl=done.ddl[-1] if done.ddl else self.figures.last_ddl,
        )
        self._look(at_once=True)

    def copied(self, target: str, rows: int, rows_estimated: int) -> None:
        """Take how far a copy is."""
        now = self._clock.monotonic_seconds()
        if self._copy_began[0] != target or rows == 0:
            self._copy_began = target, now
        copy = CopyFigures(target, rows, rows_estimated, now - self._copy_began[1])
        self.figures = replace(self.figures, copy=copy)
        self._look()

    def looked(self) -> None:
        """Take that the job looked at the source, and had nothing to do perhaps."""
        self._look()

    def _look(self, *, at_once: bool = False) -> None:
        """Bring the rates to this moment, and show the figures."""
        now = self._clock.monotonic_seconds()
        if not at_once and now - self._shown_seconds < SHOWN_EVERY_SECONDS:
            return
        self._shown_seconds = now
        tables = tuple(
            replace(one, rows_per_second=self._rate(one.source, now)) for one in self.figures.tables
        )
        self.figures = replace(self.figures, tables=tables)
        if self._show is not None:
            self._show(self.figures)

    def _rate(self, source: str, now: float) -> float:
        """Rows a second since the oldest sample of the last seconds, or the one before them."""
        while len(self._samples) > 1 and self._samples[1].seconds < now - RATE_SECONDS:
            self._samples.pop(0)
        if not self._samples:
            return 0.0
        oldest, newest = self._samples[0], self._samples[-1]
        count = newest.rows.get(source, 0) - oldest.rows.get(source, 0)
        seconds = now - max(oldest.seconds, now - RATE_SECONDS)
        return count / seconds if count > 0 and seconds > 0 else 0.0
