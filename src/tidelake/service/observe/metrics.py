"""Metrics of a service for Prometheus: asked for by HTTP, made of the status at that moment.

Nothing is counted here. The executors count, their heartbeats bring the counts to the address
server, and a request for ``/metrics`` turns its status into samples. An executor that starts again
counts from 0, which Prometheus's ``rate`` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelake.engine.env import MetricsPort
from tidelake.service._optional import metrics_library

if TYPE_CHECKING:
    from tidelake.service.protocol.tidelake_query_v1_pb2 import ServiceStatus

PREFIX = "tidelake_query"
LABELS = ["table", "executor"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a table on one executor.

    Parameters
    ----------
    name : str
        Behind the prefix ``tidelake_query_``.
    is_counter : bool
        It only grows, until its executor starts again.
    """

    name: str
    what: str
    source: str
    is_counter: bool = False
    scale: float = 1.0


METRICS = (
    Metric("requests_total", "Requests answered.", "requests", is_counter=True),
    Metric("keys_total", "Keys looked up.", "keys", is_counter=True),
    Metric("keys_found_total", "Keys that were found.", "found", is_counter=True),
    Metric("refused_total", "Requests refused by a limit.", "refused", is_counter=True),
    Metric("files_built_total", "Lookup files built.", "files_built", is_counter=True),
    Metric("files", "Lookup files in use.", "files"),
    Metric("mapped_bytes", "Bytes of lookup files in memory maps.", "mapped_bytes"),
    Metric("disk_bytes", "Bytes of lookup files on the local disk.", "disk_bytes"),
    Metric("buckets", "Buckets owned.", "buckets_count"),
    Metric("ready", "1 where it answers, else 0.", "ready"),
    Metric("request_p50_seconds", "Median time of recent requests.", "p50_us", scale=1e-6),
    Metric(
        "request_p99_seconds",
        "99th percentile of the time of recent requests.",
        "p99_us",
        scale=1e-6,
    ),
)
"""Those with the labels ``table`` and ``executor``."""
OF_TABLES = (
    ("snapshot", "Newest snapshot of the table.", "snapshot"),
    ("generation", "Grows when the table was rolled back or recreated.", "generation"),
)
"""Those with the label ``table`` alone."""
SERVED = ("snapshot_served", "Snapshot that the executor answers from.")
EXECUTORS = ("executors", "Executors of the service.")
READY = ("executors_ready", "Executors that answer for all tables.")


class MetricsServer(MetricsPort):
    """Answers ``GET /metrics`` on a port, until it is closed.

    Parameters
    ----------
    status : callable
        Gives the service's status.
    port : int
        The port; 0 takes a free one.
    host : str
        The address to listen on; this machine's own by default, since metrics are not guarded.

    Raises
    ------
    UnsupportedError
        The library ``prometheus-client`` is not installed.
    StorageError
        The port is taken.
    """

    def __init__(
        self, status: Callable[[], ServiceStatus], *, port: int, host: str = "127.0.0.1"
    ) -> None:
        library = metrics_library()
        super().__init__(library, _Collector(library, status), port=port, host=host)


class _Collector:
    """Makes the samples of one request."""

    def __init__(self, library: Any, status: Callable[[], ServiceStatus]) -> None:
        self._core = library.metrics_core
        self._status = status

    def describe(self) -> list[Any]:
        """Nothing beforehand: the registry need not ask for the status at its start."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each metric with a sample per table and executor."""
        status = self._status()
        yield self._plain(EXECUTORS, status.executors_count)
        yield self._plain(READY, sum(executor.ready for executor in status.executors))
        for name, what, source in OF_TABLES:
            family = self._core.GaugeMetricFamily(f"{PREFIX}_{name}", what, labels=["table"])
            for table in status.tables:
                family.add_metric([table.table], getattr(table.version, source))
            yield family
        name, what = SERVED
        served = self._core.GaugeMetricFamily(f"{PREFIX}_{name}", what, labels=LABELS)
        for executor in status.executors:
            for report in executor.tables:
                served.add_metric([report.table, str(executor.index)], report.version.snapshot)
        yield served
        for metric in METRICS:
            kind = "CounterMetricFamily" if metric.is_counter else "GaugeMetricFamily"
            family = getattr(self._core, kind)(
                f"{PREFIX}_{metric.name}", metric.what, labels=LABELS
            )
            for executor in status.executors:
                for report in executor.tables:
                    value = getattr(report, metric.source) * metric.scale
                    family.add_metric([report.table, str(executor.index)], value)
            yield family

    def _plain(self, named: tuple[str, str], value: float) -> Any:
        name, what = named
        return self._core.GaugeMetricFamily(f"{PREFIX}_{name}", what, value=value)
