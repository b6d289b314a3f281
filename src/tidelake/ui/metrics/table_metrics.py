"""Metrics of tables, made of what a watch has read: by table, and never by file or by bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidelake.engine.env import Clock
from tidelake.ui.metrics.families import MetricFamily, Sample
from tidelake.ui.model.table_facts import TableFacts
from tidelake.ui.model.warehouse_watch import TableSummary


@dataclass(frozen=True, slots=True)
class OfTable:
    """A metric of a table, and where its figure comes from.

    Parameters
    ----------
    figure : callable
        Gives None where a table has no such figure.
    """

    family: MetricFamily
    figure: Callable[[TableFacts], float | None]


def _of_layout(name: str) -> Callable[[TableFacts], float | None]:
    def figure(facts: TableFacts) -> float | None:
        return None if facts.layout is None else float(getattr(facts.layout, name))

    return figure


def _newest_id(facts: TableFacts) -> float:
    return 0 if facts.newest is None else facts.newest.id


def _runs_max(facts: TableFacts) -> float | None:
    return facts.layout.runs_max if facts.is_keyed and facts.layout is not None else None


def _trigger(facts: TableFacts) -> float | None:
    return facts.run_trigger if facts.is_keyed else None


PREFIX = "tidelake_table"
UP = MetricFamily(f"{PREFIX}_up", "1 where the table can be read, else 0.")
PLAIN = (
    OfTable(
        MetricFamily(
            f"{PREFIX}_commits_total",
            "Snapshots so far, by whichever writer; less after a rollback.",
            is_counter=True,
        ),
        _newest_id,
    ),
    OfTable(MetricFamily(f"{PREFIX}_files", "Data files."), _of_layout("files")),
    OfTable(MetricFamily(f"{PREFIX}_bytes", "Bytes of data files."), _of_layout("bytes")),
    OfTable(MetricFamily(f"{PREFIX}_rows", "Rows of data files."), _of_layout("rows")),
    OfTable(
        MetricFamily(f"{PREFIX}_deleted_rows", "Of these, rows that are deleted."),
        _of_layout("deleted_rows"),
    ),
    OfTable(
        MetricFamily(f"{PREFIX}_buckets", "Buckets with files, of all partitions."),
        _of_layout("buckets_count"),
    ),
    OfTable(
        MetricFamily(f"{PREFIX}_partitions", "Partitions with files."),
        _of_layout("partitions_count"),
    ),
    OfTable(
        MetricFamily(f"{PREFIX}_sorted_runs_max", "The most sorted runs of a bucket."), _runs_max
    ),
    OfTable(
        MetricFamily(f"{PREFIX}_sorted_runs_trigger", "Sorted runs from which writers compact."),
        _trigger,
    ),
)
LAST_COMMIT = MetricFamily(
    f"{PREFIX}_last_commit_timestamp_seconds", "When the newest snapshot was made, since 1970."
)
LAG = MetricFamily(f"{PREFIX}_lag_seconds", "Age of the newest snapshot.")
SNAPSHOTS = MetricFamily(
    f"{PREFIX}_snapshots", "Snapshots that are kept, by kind.", ("table", "kind")
)
LEVEL_FILES = MetricFamily(f"{PREFIX}_level_files", "Data files of a level.", ("table", "level"))
LEVEL_BYTES = MetricFamily(f"{PREFIX}_level_bytes", "Bytes of a level.", ("table", "level"))
BEHIND = MetricFamily(
    f"{PREFIX}_consumer_snapshots_behind",
    "Snapshots that a consumer has not read.",
    ("table", "consumer"),
)
FINDINGS = MetricFamily(
    f"{PREFIX}_findings", "Findings of the doctor, by severity.", ("table", "severity")
)
FAMILIES = (
    UP,
    *(one.family for one in PLAIN),
    LAST_COMMIT,
    LAG,
    SNAPSHOTS,
    LEVEL_FILES,
    LEVEL_BYTES,
    BEHIND,
    FINDINGS,
)
"""All of this module."""


class TableCollector:
    """Makes the samples of tables.

    Parameters
    ----------
    summaries : callable
        Reads the tables.
    """

    def __init__(self, summaries: Callable[[], Iterable[TableSummary]], clock: Clock) -> None:
        self._summaries = summaries
        self._clock = clock

    def describe(self) -> list[Any]:
        """Nothing beforehand: the registry need not read tables at its start."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each metric with its samples."""
        summaries = [one for one in self._summaries() if one.facts or one.problem]
        facts = [one.facts for one in summaries if one.facts is not None]
        now_s = self._clock.now_ms() / 1000
        yield UP.of([([one.name], one.health != "failed") for one in summaries])
        for metric in PLAIN:
            yield metric.family.of(_samples(facts, metric.figure))
        written = [(one, one.newest.time_ms / 1000) for one in facts if one.newest is not None]
        yield LAST_COMMIT.of([([one.identifier], time_s) for one, time_s in written])
        yield LAG.of([([one.identifier], max(0.0, now_s - time_s)) for one, time_s in written])
        yield SNAPSHOTS.of(
            [
                ([one.identifier, kind], count)
                for one in facts
                for kind, count in one.timeline.kinds().items()
            ]
        )
        levels = [
            ([one.identifier, str(level.level)], level)
            for one in facts
            if one.layout is not None and one.is_keyed
            for level in one.layout.levels
        ]
        yield LEVEL_FILES.of([(labels, level.files) for labels, level in levels])
        yield LEVEL_BYTES.of([(labels, level.bytes) for labels, level in levels])
        yield BEHIND.of(
            [
                ([one.identifier, consumer.consumer_id], consumer.snapshots_behind)
                for one in facts
                for consumer in one.consumers
                if consumer.snapshots_behind is not None
            ]
        )
        yield FINDINGS.of(
            [
                ([one.name, severity], count)
                for one in summaries
                if one.examination is not None and not one.examination.problem
                for severity, count in (
                    ("warning", one.examination.warnings),
                    ("advice", one.examination.advice_count),
                )
            ]
        )


def _samples(
    facts: Iterable[TableFacts], figure: Callable[[TableFacts], float | None]
) -> Iterator[Sample]:
    for one in facts:
        value = figure(one)
        if value is not None:
            yield [one.identifier], value
