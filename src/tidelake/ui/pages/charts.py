"""Charts as geometry: bars with their places, kinds and words. A template draws them.

Nothing in a chart is said by it alone: a table with the same figures stands beside each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.engine.metadata import Snapshot
from tidelake.ui.pages.texts import number_text, time_text

BARS_MAX = 240
WIDTH, HEIGHT, BASE = 1_200.0, 160.0, 108.0
GAP = 1.5
BAR_WIDTH_MAX = 28.0
LEAST_HEIGHT = 3.0
HEATS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle.

    Parameters
    ----------
    kind : str
        Its class in the style sheet.
    words : str
        What it says when it is pointed at.
    """

    x: float
    y: float
    width: float
    height: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """Bars of snapshots: added rows up, removed rows down, on a logarithmic scale."""

    bars: tuple[Bar, ...]
    first_ms: int
    last_ms: int
    words: str
    width: float = WIDTH
    height: float = HEIGHT
    base: float = BASE


def timeline_chart(snapshots: Sequence[Snapshot]) -> TimelineChart | None:
    """The chart of the newest :data:`BARS_MAX` snapshots; None without any."""
    shown = snapshots[-BARS_MAX:]
    if not shown:
        return None
    step = min(WIDTH / len(shown), BAR_WIDTH_MAX)
    most = max(math.log1p(abs(one.delta_record_count or 0)) for one in shown) or 1.0
    bars = []
    for place, one in enumerate(shown):
        rows = one.delta_record_count or 0
        room = BASE if rows >= 0 else HEIGHT - BASE
        height = max(LEAST_HEIGHT, math.log1p(abs(rows)) / most * (room - 4))
        kind = one.commit_kind.value
        words = f"snapshot {one.id}, {kind}, {rows:+,} stored rows, {time_text(one.time_ms)}"
        top = BASE - height if rows >= 0 else BASE
        bars.append(
            Bar(
                round(place * step, 2),
                round(top, 2),
                round(step - GAP, 2),
                round(height, 2),
                kind.lower(),
                words,
            )
        )
    words = (
        f"{number_text(len(shown))} snapshots from {time_text(shown[0].time_ms)} to"
        f" {time_text(shown[-1].time_ms)}, the newest on the right."
    )
    return TimelineChart(tuple(bars), shown[0].time_ms, shown[-1].time_ms, words)


def share(part: float, whole: float) -> float:
    """A part in percent, for the length of a bar: at least a sliver of what is not nothing."""
    if part <= 0 or whole <= 0:
        return 0.0
    return round(max(0.8, min(100.0, 100 * part / whole)), 2)


def heat(part: float, most: float) -> int:
    """How dark the cell of a value is: 0 for nothing, up to :data:`HEATS`; logarithmic.

    Examples
    --------
    >>> heat(0, 9), heat(1, 1 << 30), heat(1 << 30, 1 << 30)
    (0, 1, 5)
    """
    if part <= 0 or most <= 0:
        return 0
    return max(1, min(HEATS, math.ceil(HEATS * math.log1p(part) / math.log1p(most))))
