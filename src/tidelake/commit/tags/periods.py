"""Periods of automatic tags, and the names of their tags. Pure.

A time is a number of milliseconds on a wall clock. The tag of a time is that of the period before
the one it lies in: just after midnight the tag of yesterday is made. Source: Paimon's
``TagPeriodHandler`` (2.1).

==================================  ===================================================
period                              name
==================================  ===================================================
daily                               ``2024-01-31``, or ``20240131``
hourly                              ``2024-01-31 08``, ``20240131 08`` or ``2024013108``
two-hours                           ``2024-01-31 08``
``tag.creation-period-duration``    ``202401310800``
==================================  ===================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.options import Options, declared
from tidelake.types.java_time import NS_PER_MS, Style, TimeFormatter
from tidelake.types.java_time.pattern import parse_pattern
from tidelake.types.java_time.resolve import civil

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

_DAILY = {
    "with_dashes": "uuuu-MM-dd",
    "without_dashes": "uuuuMMdd",
    "without_dashes_and_spaces": "uuuuMMdd",
}
_HOURLY = {
    "with_dashes": "uuuu-MM-dd HH",
    "without_dashes": "uuuuMMdd HH",
    "without_dashes_and_spaces": "uuuuMMddHH",
}
_MINUTES = "uuuuMMddHHmm"


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """The period of automatic tags.

    Parameters
    ----------
    length_ms : int
        How long one is.
    pattern : str
        The form of a name.
    """

    length_ms: int
    pattern: str

    @classmethod
    def of(cls, options: Options) -> TagPeriod:
        """The period of a table."""
        length_ms = options.get(declared.TAG_CREATION_PERIOD_DURATION)
        if length_ms is not None:
            return cls(length_ms, _MINUTES)
        period = options.get(declared.TAG_CREATION_PERIOD)
        form = options.get(declared.TAG_PERIOD_FORMATTER)
        if period == "daily":
            return cls(DAY_MS, _DAILY[form])
        if period == "hourly":
            return cls(HOUR_MS, _HOURLY[form])
        return cls(2 * HOUR_MS, _HOURLY["with_dashes"])

    def name(self, local_ms: int) -> str:
        """The name of the period that begins at a time.

        Examples
        --------
        >>> TagPeriod(HOUR_MS, "uuuu-MM-dd HH").name(DAY_MS + 8 * HOUR_MS)
        '1970-01-02 08'
        """
        day, rest = divmod(local_ms, DAY_MS)
        year, month, of_month = civil(day)
        parts = {
            "uuuu": f"{year:04}",
            "MM": f"{month:02}",
            "dd": f"{of_month:02}",
            "HH": f"{rest // HOUR_MS:02}",
            "mm": f"{rest // 60_000 % 60:02}",
        }
        name = self.pattern
        for letters, text in parts.items():
            name = name.replace(letters, text)
        return name

    def time(self, name: str) -> int | None:
        """When the period of a tag begins; None for a tag of another kind.

        Examples
        --------
        >>> period = TagPeriod(DAY_MS, "uuuu-MM-dd")
        >>> period.time("1970-01-02"), period.time("1970-02-31"), period.time("v1")
        (86400000, None, None)
        """
        if self.length_ms == DAY_MS and self.pattern != _MINUTES:
            name = name.split(" ")[0]  # as Java does
        if len(name) != len(self.pattern):
            return None
        found = TimeFormatter(parse_pattern(self.pattern), Style.STRICT).parse(name)
        return None if found is None else found // NS_PER_MS

    def before(self, local_ms: int) -> int:
        """When the period before that of a time begins.

        Examples
        --------
        >>> TagPeriod(DAY_MS, "uuuu-MM-dd").before(2 * DAY_MS + 5)
        86400000
        """
        return local_ms // self.length_ms * self.length_ms - self.length_ms
