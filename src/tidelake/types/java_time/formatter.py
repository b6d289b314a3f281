"""A format of times: reads local times from texts, exactly as Java does.

A local time is a number of nanoseconds since 1970-01-01T00:00 on a wall clock. Texts of equal form
(the partitions of a table) repeat few values, so each text is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from tidelake.types.java_time.element import (
    Digits,
    Element,
    Fields,
    Fraction,
    Literal,
    Padded,
    Section,
    Word,
)
from tidelake.types.java_time.fields import Field, TimeError
from tidelake.types.java_time.pattern import parse_pattern
from tidelake.types.java_time.resolve import NS_PER_DAY, NS_PER_SECOND, Style, civil, resolve

NS_PER_MS = 1_000_000
FORMATS_MAX = 1000
"""Patterns that a process keeps in their read form."""


@dataclass(frozen=True, slots=True)
class TimeFormatter:
    """A format of times.

    Parameters
    ----------
    parts : Section
        What the text consists of.
    style : Style
        What happens to values out of range.

    Examples
    --------
    >>> formatter = TimeFormatter.of_pattern("yyyyMMdd[ HH]")
    >>> formatter.parse("19700102") == NS_PER_DAY, formatter.parse("02.01.1970") is None
    (True, True)
    >>> formatter.has_date, TimeFormatter.of_pattern("HH:mm").has_date
    (True, False)
    """

    parts: Section
    style: Style = Style.SMART

    @classmethod
    def of_pattern(cls, pattern: str) -> TimeFormatter:
        """The format of a pattern.

        Raises
        ------
        TimePatternError
            The pattern is malformed.
        """
        return _of_pattern(pattern)

    @classmethod
    def lenient(cls) -> TimeFormatter:
        """``2024-1-31``, perhaps with ``8:30:00`` and a fraction; month 13 counts on."""
        return _LENIENT

    @property
    def has_date(self) -> bool:
        """Whether a text of this format can have a day: a year, with a month and day or a day."""
        fields = set(_fields(self.parts))
        has_day = {Field.MONTH_OF_YEAR, Field.DAY_OF_MONTH} <= fields or Field.DAY_OF_YEAR in fields
        return has_day and bool(fields & {Field.YEAR, Field.YEAR_OF_ERA})

    def parse(self, text: str) -> int | None:
        """The local time of a text, midnight where it has none; None if it is no such text."""
        fields: Fields = {}
        if self.parts.parse(text, 0, fields) != len(text):
            return None
        try:
            day, nanos = resolve(fields, self.style)
        except TimeError:
            return None
        return day * NS_PER_DAY + (nanos or 0)

    def parse_all(self, texts: Iterable[str]) -> list[int | None]:
        """The local times of many texts; each distinct text is read once."""
        known: dict[str, int | None] = {}
        found = []
        for text in texts:
            if text not in known:
                known[text] = self.parse(text)
            found.append(known[text])
        return found


def _fields(part: Element) -> Iterator[Field]:
    """The fields of a part and of the parts in it."""
    match part:
        case Digits(field=field) | Word(field=field):
            yield field
        case Padded(inner=inner):
            yield from _fields(inner)
        case Section(elements=elements):
            for element in elements:
                yield from _fields(element)
        case _:
            return


@lru_cache(FORMATS_MAX)
def _of_pattern(pattern: str) -> TimeFormatter:
    return TimeFormatter(parse_pattern(pattern))


_LENIENT = TimeFormatter(
    Section(
        (
            Digits(Field.YEAR, 1, 10),
            Literal("-"),
            Digits(Field.MONTH_OF_YEAR, 1, 2),
            Literal("-"),
            Digits(Field.DAY_OF_MONTH, 1, 2),
            Section(
                (
                    Literal(" "),
                    Digits(Field.HOUR_OF_DAY, 1, 2),
                    Literal(":"),
                    Digits(Field.MINUTE_OF_HOUR, 1, 2),
                    Literal(":"),
                    Digits(Field.SECOND_OF_MINUTE, 1, 2),
                    Section((Fraction(1, 9, has_point=True),), is_optional=True),
                ),
                is_optional=True,
            ),
        )
    ),
    Style.LENIENT,
)


def local_time_text(local_ns: int) -> str:
    """A local time as people read it.

    Examples
    --------
    >>> local_time_text(NS_PER_DAY + 90 * 10**9)
    '1970-01-02 00:01:30'
    """
    day, nanos = divmod(local_ns, NS_PER_DAY)
    year, month, of_month = civil(day)
    seconds = nanos // NS_PER_SECOND
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{year:04}-{month:02}-{of_month:02} {clock}"
