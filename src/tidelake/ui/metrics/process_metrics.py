"""A port on which a process that writes or maintains tables answers Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tidelake.engine.env import MetricsPort
from tidelake.engine.tables import Catalog
from tidelake.ui._optional import prometheus
from tidelake.ui.metrics.commit_metrics import CommitCollector
from tidelake.ui.metrics.table_metrics import TableCollector
from tidelake.ui.model.warehouse_watch import WarehouseWatch

PATIENCE_S = 5.0
"""How long an answer waits for tables that are being read; those left out come with the next."""
Names = Callable[[], Sequence[str]]


class _All:
    """Several collectors as one: a port takes one."""

    def __init__(self, *collectors: Any) -> None:
        self._collectors = collectors

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        for collector in self._collectors:
            yield from collector.collect()


@contextlib.contextmanager
def metrics_port(
    catalog: Catalog,
    *others: object,
    port: int = 0,
    host: str = "127.0.0.1",
    names: Names | None = None,
) -> Iterator[MetricsPort]:
    """Answer ``GET /metrics``, from a thread, until the block is left.

    Parameters
    ----------
    catalog : Catalog
        Whose tables and commits are told; of commits, those that this process makes through it.
    *others : collectors
        More to tell, such as a :class:`MaintenanceCollector`.
    port, host : int, str
        Where to listen; port 0 takes a free one. Metrics are not guarded.
    names : callable, optional
        The tables to tell of; all by default.

    Raises
    ------
    UnsupportedError
        The library ``prometheus-client`` is not installed.
    StorageError
        The port is taken.
    """
    library = prometheus()
    with WarehouseWatch(catalog) as watch:
        tables = TableCollector(
            lambda: watch.overview(patience_s=PATIENCE_S, names=names, examines=False),
            catalog.env.clock,
        )
        collector = _All(tables, CommitCollector(catalog.env.commits), *others)
        listening = MetricsPort(library, collector, port=port, host=host, option="--metrics-port")
        try:
            yield listening
        finally:
            listening.close()
