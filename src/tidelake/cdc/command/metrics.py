"""Metrics of a running job for Prometheus: made of its figures when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tidelake.cdc._optional import prometheus
from tidelake.cdc.command.figures import JobFigures
from tidelake.engine.env import MetricsPort

PREFIX = "tidelake_cdc"


class JobMetrics(MetricsPort):
    """Answers ``GET /metrics`` on a port of this machine, until it is closed.

    Parameters
    ----------
    figures : callable
        Gives the job's figures; called by the server's threads.
    port : int
        0 takes a free one.

    Raises
    ------
    UnsupportedError
        The library ``prometheus-client`` is not installed.
    StorageError
        The port is taken.
    """

    def __init__(self, figures: Callable[[], JobFigures], *, port: int) -> None:
        library = prometheus()
        super().__init__(library, _Collector(library, figures), port=port, option="--metrics-port")


class _Collector:
    """Makes the samples of one request."""

    def __init__(self, library: Any, figures: Callable[[], JobFigures]) -> None:
        self._core = library.metrics_core
        self._figures = figures

    def describe(self) -> list[Any]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each metric of the job, and of its tables."""
        now = self._figures()
        yield self._gauge("epoch", "Newest epoch that was applied.", now, now.epoch)
        if now.lag_ms is not None:
            lag = now.lag_ms / 1_000
            what = "Time from the source's commit until the last epoch was readable."
            yield self._gauge("lag_seconds", what, now, lag)
        what = "Rows in the quarantine."
        yield self._gauge("quarantined_rows", what, now, now.quarantined)
        labels = ["job", "source", "table"]
        rows = self._core.CounterMetricFamily(
            f"{PREFIX}_rows_total", "Changed and copied rows.", labels=labels
        )
        live = self._core.GaugeMetricFamily(
            f"{PREFIX}_table_live", "1 for a table that is followed, else 0.", labels=labels
        )
        for table in now.tables:
            named = [now.job, table.source, table.target]
            rows.add_metric(named, table.rows)
            live.add_metric(named, int(table.phase == "live"))
        yield rows
        yield live
        if now.copy is not None:
            yield self._gauge("copy_rows", "Rows of the copy on its way.", now, now.copy.rows)
            what = "Rows of the copy on its way, as the source estimates."
            yield self._gauge("copy_rows_estimated", what, now, now.copy.rows_estimated)

    def _gauge(self, name: str, what: str, now: JobFigures, value: float) -> Any:
        family = self._core.GaugeMetricFamily(f"{PREFIX}_{name}", what, labels=["job"])
        family.add_metric([now.job], value)
        return family
