"""Metrics as they are declared: name, unit, meaning, labels; and how samples are made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.ui._optional import prometheus

Sample = tuple[Sequence[str], float]
"""The values of the labels, and the figure."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric.

    Parameters
    ----------
    name : str
        With its unit at the end.
    is_counter : bool
        It only grows, until what counts it begins anew.
    """

    name: str
    what: str
    labels: tuple[str, ...] = ("table",)
    is_counter: bool = False

    def of(self, samples: Iterable[Sample]) -> Any:
        """The metric with its samples, as the library has it."""
        core = prometheus().metrics_core
        kind = core.CounterMetricFamily if self.is_counter else core.GaugeMetricFamily
        family = kind(self.name, self.what, labels=self.labels)
        for labels, value in samples:
            family.add_metric(list(labels), float(value))
        return family


def text_of(*collectors: object) -> tuple[bytes, str]:
    """What collectors say now, in Prometheus's text format, and its content type."""
    library = prometheus()
    registry = library.CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    return library.generate_latest(registry), library.CONTENT_TYPE_LATEST
