"""The fields of a date or time, with the names and ranges of Java's ``ChronoField``."""

from __future__ import annotations

import enum

YEAR_MAX = 999_999_999


class Field(enum.Enum):
    """One field of a date, then those of a time of day."""

    ERA = "era"
    YEAR = "year"
    YEAR_OF_ERA = "year of the era"
    QUARTER_OF_YEAR = "quarter"
    MONTH_OF_YEAR = "month"
    DAY_OF_YEAR = "day of the year"
    DAY_OF_MONTH = "day of the month"
    DAY_OF_WEEK = "day of the week"
    AMPM_OF_DAY = "half of the day"
    CLOCK_HOUR_OF_DAY = "hour, 1 to 24"
    CLOCK_HOUR_OF_AMPM = "hour, 1 to 12"
    HOUR_OF_DAY = "hour"
    HOUR_OF_AMPM = "hour, 0 to 11"
    MINUTE_OF_HOUR = "minute"
    SECOND_OF_MINUTE = "second"
    NANO_OF_SECOND = "nanosecond"
    MILLI_OF_DAY = "millisecond of the day"
    NANO_OF_DAY = "nanosecond of the day"

    @property
    def is_time(self) -> bool:
        """Whether it is of a time of day."""
        return self in _TIMES


RANGES = {
    Field.ERA: (0, 1),
    Field.YEAR: (-YEAR_MAX, YEAR_MAX),
    Field.YEAR_OF_ERA: (1, YEAR_MAX + 1),
    Field.QUARTER_OF_YEAR: (1, 4),
    Field.MONTH_OF_YEAR: (1, 12),
    Field.DAY_OF_YEAR: (1, 366),
    Field.DAY_OF_MONTH: (1, 31),
    Field.DAY_OF_WEEK: (1, 7),
    Field.AMPM_OF_DAY: (0, 1),
    Field.CLOCK_HOUR_OF_DAY: (1, 24),
    Field.CLOCK_HOUR_OF_AMPM: (1, 12),
    Field.HOUR_OF_DAY: (0, 23),
    Field.HOUR_OF_AMPM: (0, 11),
    Field.MINUTE_OF_HOUR: (0, 59),
    Field.SECOND_OF_MINUTE: (0, 59),
    Field.NANO_OF_SECOND: (0, 999_999_999),
    Field.MILLI_OF_DAY: (0, 86_399_999),
    Field.NANO_OF_DAY: (0, 86_399_999_999_999),
}
"""The smallest and the largest value of each."""
_TIMES = frozenset(list(Field)[list(Field).index(Field.AMPM_OF_DAY) :])


class TimeError(ValueError):
    """A text is not a time of a format, or its fields contradict each other."""


def checked(field: Field, value: int) -> int:
    """A value within its field's range.

    Raises
    ------
    TimeError
        It is outside.
    """
    low, high = RANGES[field]
    if not low <= value <= high:
        message = f"the {field.value} is {value}, but at least {low} and at most {high}"
        raise TimeError(message)
    return value
