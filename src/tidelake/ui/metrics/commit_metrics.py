"""Metrics of the commits of this process: durations, lost races, failures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tidelake.engine.env import BOUNDS_S, CommitTally
from tidelake.ui._optional import prometheus
from tidelake.ui.metrics.families import MetricFamily

LABELS = ("table", "kind")
SECONDS = MetricFamily(
    "tidelake_commit_seconds", "Seconds from the first attempt to the snapshot.", LABELS
)
LOST = MetricFamily(
    "tidelake_commit_conflicts_total",
    "Attempts after which another commit was first, so that they began again.",
    LABELS,
    is_counter=True,
)
FAILED = MetricFamily(
    "tidelake_commit_failures_total", "Commits that ended with an error.", LABELS, is_counter=True
)
FAMILIES = (SECONDS, LOST, FAILED)
"""All of this module; the first is a histogram, whose count is that of the commits."""


class CommitCollector:
    """Makes the samples of commits.

    Parameters
    ----------
    tally : CommitTally
        That of the catalog: ``catalog.env.commits``.
    """

    def __init__(self, tally: CommitTally) -> None:
        self._tally = tally

    def describe(self) -> list[Any]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each metric with a sample per table and kind."""
        found = self._tally.figures()
        seconds = prometheus().metrics_core.HistogramMetricFamily(
            SECONDS.name, SECONDS.what, labels=LABELS
        )
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        for one in found:
            counts = list(zip(bounds, accumulate(one.durations), strict=True))
            seconds.add_metric([one.table, one.kind], counts, one.seconds)
        yield seconds
        yield LOST.of([([one.table, one.kind], one.lost_races) for one in found])
        yield FAILED.of([([one.table, one.kind], one.failures) for one in found])
