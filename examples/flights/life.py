"""What a table's life looks like, and all that the report shows: plain values, no product types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True, slots=True)
class LifePoint:
    """One snapshot of a table.

    ``files_by_level`` and ``live_bytes`` are what a reader of this snapshot meets; ``runs_max`` is
    the largest number of sorted runs in one bucket; the ``added`` figures are what this commit
    wrote.
    """

    snapshot: int
    kind: str
    files_by_level: Mapping[int, int]
    live_bytes: int
    runs_max: int
    files_added: int
    bytes_added: int
    rows_added: int
    seconds: float | None = None

    @property
    def files(self) -> int:
        """Live files of all levels."""
        return sum(self.files_by_level.values())


@dataclass(frozen=True, slots=True)
class Moment:
    """The table at one moment: which, asked how, and its flights by status."""

    title: str
    asked: str
    snapshot: int
    counts: Mapping[str, int]


@dataclass(slots=True)
class Findings:
    """Everything the console report and the page show; all of it was read from the tables.

    Frames: ``hours`` (month, day, hour, flights, late_minutes), ``cancelled`` (month, day,
    cancelled), ``rain`` (month, day, inches), ``destinations`` (dest, flights, late_minutes),
    ``carriers`` (carrier, name, landed, late_minutes, scheduled, cancelled), ``cross`` (weather,
    age, flights, late_minutes, seats), ``airports`` (faa, name, lat, lon). ``changes`` counts what
    became of flights between two snapshots, in the order to be shown.
    """

    hours: pd.DataFrame
    cancelled: pd.DataFrame
    rain: pd.DataFrame
    destinations: pd.DataFrame
    carriers: pd.DataFrame
    cross: pd.DataFrame
    airports: pd.DataFrame
    moments: Sequence[Moment] = ()
    changes: Mapping[str, int] = field(default_factory=dict)
    changes_title: str = ""
    life: Sequence[LifePoint] = ()
    tiles: Sequence[tuple[str, str, str]] = ()
    checks: Sequence[tuple[str, str]] = ()
    made: str = ""
