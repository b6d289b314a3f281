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


@dataclass(frozen=True, slots=True)
class StreamCount:
    """What a stream delivered; ``late`` records were older than what was known already."""

    name: str
    records: int
    late: int


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of the board: files, their bytes and rows, and the median of its seconds."""

    when: str
    files: int
    size_bytes: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SecondAct:
    """What the page shows of the board and of the delays that follow it.

    ``months``: carrier, name, month, flights, late_minutes. ``story``: what the changelog tells of
    one flight: kind, state, plane, departure and its delay, arrival and its delay.
    """

    months: pd.DataFrame
    counts: Sequence[StreamCount]
    taken_back: int
    commits: int
    killed_after: int
    scans: Sequence[Scan]
    story: Sequence[tuple[str, ...]]
    checks: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Prescription:
    """What the doctor found in a table, the call that it named, and what came of it.

    ``became``: per figure what it was, what the doctor said it would be, and what it is now.
    """

    table: str
    kind: str
    remedy: str
    became: Mapping[str, tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class FourthAct:
    """What the page shows of the tables that nobody compacts; ``commits`` were made to each."""

    commits: int
    prescriptions: Sequence[Prescription]
    planned: Sequence[str]
    done: Sequence[str]
    checks: Sequence[tuple[str, str]]


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
    second: SecondAct | None = None
    fourth: FourthAct | None = None
    tiles: Sequence[tuple[str, str, str]] = ()
    checks: Sequence[tuple[str, str]] = ()
    made: str = ""
