"""Makes a date and a time of the fields that a text held, as Java's ``Parsed`` does.

1. A year of an era becomes a year; year, month and day, or year and day of the year, a date.
2. Hours of other counts become the hour of the day; with minute, second and fraction it is a time.
   A time may end early (``12``, ``12:30``), but not have gaps.
3. Every field that is left (a day of the week, a quarter) must agree with them.

Styles differ in values out of their range. STRICT refuses them. SMART takes the last day of the
month for its 31st, and 24:00 for the next day. LENIENT counts on: month 13 is January of the next
year. Source: ``java.time.format.Parsed`` and ``IsoChronology`` of Java 17.
"""

from __future__ import annotations

import enum

from tidelake.types.java_time.element import Fields
from tidelake.types.java_time.fields import Field, TimeError, checked

NS_PER_SECOND = 10**9
NS_PER_HOUR = 3600 * NS_PER_SECOND
NS_PER_DAY = 24 * NS_PER_HOUR

_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2
_MONTHS = 12
_DAYS_LEAP = 366
_NOON, _MIDNIGHT = 12, 24
_LONG_MAX = 2**63 - 1
_CLOCK = frozenset(
    {Field.HOUR_OF_DAY, Field.MINUTE_OF_HOUR, Field.SECOND_OF_MINUTE, Field.NANO_OF_SECOND}
)


class Style(enum.Enum):
    """What happens to a value out of its field's range."""

    STRICT = "refused"
    SMART = "the last day of a month, and 24:00, are meant"
    LENIENT = "counted on"


def resolve(fields: Fields, style: Style) -> tuple[int, int | None]:
    """The day since 1970 and the nanosecond of the day; None for a text without a time.

    Raises
    ------
    TimeError
        There is no date, or fields contradict each other.
    """
    left = dict(fields)
    day = _date(left, style)
    nanos, days_more = _time(left, style)
    _check_rest(left, day, nanos)
    if day is None:
        message = "the text has no year, month and day"
        raise TimeError(message)
    if nanos is None:
        return day, None
    return day + days_more, nanos


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a day of the proleptic Gregorian calendar."""
    shifted = year - (month <= _FEBRUARY)
    era = shifted // 400
    of_era = shifted - era * 400
    day_of_year = (153 * ((month + 9) % _MONTHS) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970."""
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = (shifted_month + 2) % _MONTHS + 1
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    return era * 400 + year_of_era + (month <= _FEBRUARY), month, day


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _month_days(year: int, month: int) -> int:
    return 29 if month == _FEBRUARY and _is_leap(year) else _MONTH_DAYS[month - 1]


def _set(left: Fields, field: Field, value: int) -> None:
    if left.setdefault(field, value) != value:
        message = f"the {field.value} is {left[field]} and {value}"
        raise TimeError(message)


def _date(left: Fields, style: Style) -> int | None:
    _year(left, style)
    if Field.YEAR not in left:
        return None
    if Field.MONTH_OF_YEAR in left and Field.DAY_OF_MONTH in left:
        year = checked(Field.YEAR, left.pop(Field.YEAR))
        month, day = left.pop(Field.MONTH_OF_YEAR), left.pop(Field.DAY_OF_MONTH)
        return _of_month(year, month, day, style)
    if Field.DAY_OF_YEAR in left:
        year = checked(Field.YEAR, left.pop(Field.YEAR))
        day = left.pop(Field.DAY_OF_YEAR)
        last = _DAYS_LEAP if _is_leap(year) else _DAYS_LEAP - 1
        if style is not Style.LENIENT and checked(Field.DAY_OF_YEAR, day) > last:
            message = f"{year} has no day {day}"
            raise TimeError(message)
        return days_of(year, 1, 1) + day - 1
    return None


def _year(left: Fields, style: Style) -> None:
    """Make the year of the era a year; without an era it is of ours."""
    if Field.YEAR_OF_ERA not in left:
        if Field.ERA in left:
            checked(Field.ERA, left[Field.ERA])
        return
    of_era = left.pop(Field.YEAR_OF_ERA)
    if style is not Style.LENIENT:
        checked(Field.YEAR_OF_ERA, of_era)
    if Field.ERA in left:
        is_ours = left.pop(Field.ERA) == 1
    elif style is Style.STRICT:
        message = "a year of an era needs the era"
        raise TimeError(message)
    else:
        is_ours = left.get(Field.YEAR, 1) > 0
    _set(left, Field.YEAR, of_era if is_ours else 1 - of_era)


def _of_month(year: int, month: int, day: int, style: Style) -> int:
    if style is Style.LENIENT:
        months = year * _MONTHS + month - 1
        return days_of(months // _MONTHS, months % _MONTHS + 1, 1) + day - 1
    checked(Field.MONTH_OF_YEAR, month)
    checked(Field.DAY_OF_MONTH, day)
    last = _month_days(year, month)
    if day > last and style is Style.STRICT:
        message = f"month {month} of {year} has no day {day}"
        raise TimeError(message)
    return days_of(year, month, min(day, last))


def _time(left: Fields, style: Style) -> tuple[int | None, int]:
    """The nanosecond of the day, and the days that the time counts on."""
    _simplify_hours(left, style)
    _split_days(left, style)
    if Field.AMPM_OF_DAY in left and style is not Style.STRICT and not left.keys() & _CLOCK:
        half = checked(Field.AMPM_OF_DAY, left.pop(Field.AMPM_OF_DAY))
        left[Field.HOUR_OF_DAY] = half * _NOON + _NOON // 2  # the middle of the half, since Java 16
    hour, minute = left.get(Field.HOUR_OF_DAY), left.get(Field.MINUTE_OF_HOUR)
    second, nano = left.get(Field.SECOND_OF_MINUTE), left.get(Field.NANO_OF_SECOND)
    has_gap = (minute is None and (second is not None or nano is not None)) or (
        minute is not None and second is None and nano is not None
    )
    nanos: int | None = None
    days_more = 0
    if hour is not None and has_gap:
        return None, 0  # Java checks no ranges then
    if hour is not None:
        for field in _CLOCK & left.keys():
            del left[field]
        nanos, days_more = _of_day(hour, minute or 0, second or 0, nano or 0, style)
    if style is not Style.LENIENT:
        for field, value in left.items():
            if field.is_time:
                checked(field, value)
    return nanos, days_more


def _of_day(hour: int, minute: int, second: int, nano: int, style: Style) -> tuple[int, int]:
    if style is not Style.LENIENT:
        checked(Field.MINUTE_OF_HOUR, minute)
        checked(Field.NANO_OF_SECOND, nano)
        if style is Style.SMART and (hour, minute, second, nano) == (_MIDNIGHT, 0, 0, 0):
            return 0, 1
        checked(Field.HOUR_OF_DAY, hour)
        checked(Field.SECOND_OF_MINUTE, second)
    total = ((hour * 60 + minute) * 60 + second) * NS_PER_SECOND + nano
    if abs(total) > _LONG_MAX:
        message = "the time is beyond all days"
        raise TimeError(message)
    return total % NS_PER_DAY, total // NS_PER_DAY


def _simplify_hours(left: Fields, style: Style) -> None:
    """Make hours of other counts the hour of the day."""
    for field, target, top in (
        (Field.CLOCK_HOUR_OF_DAY, Field.HOUR_OF_DAY, _MIDNIGHT),
        (Field.CLOCK_HOUR_OF_AMPM, Field.HOUR_OF_AMPM, _NOON),
    ):
        if field in left:
            hour = left.pop(field)
            if style is Style.STRICT or (style is Style.SMART and hour != 0):
                checked(field, hour)
            _set(left, target, 0 if hour == top else hour)
    if Field.AMPM_OF_DAY in left and Field.HOUR_OF_AMPM in left:
        half, hour = left.pop(Field.AMPM_OF_DAY), left.pop(Field.HOUR_OF_AMPM)
        if style is not Style.LENIENT:
            checked(Field.AMPM_OF_DAY, half)
            checked(Field.HOUR_OF_AMPM, hour)
        _set(left, Field.HOUR_OF_DAY, half * _NOON + hour)


def _split_days(left: Fields, style: Style) -> None:
    """Make nanoseconds and milliseconds of the day hour, minute, second and fraction."""
    is_lenient = style is Style.LENIENT
    if Field.NANO_OF_DAY in left:
        of_day = left.pop(Field.NANO_OF_DAY)
        if not is_lenient:
            checked(Field.NANO_OF_DAY, of_day)
        _set_clock(left, of_day // NS_PER_SECOND)
        _set(left, Field.NANO_OF_SECOND, of_day % NS_PER_SECOND)
    if Field.MILLI_OF_DAY in left:
        of_day = left.pop(Field.MILLI_OF_DAY)
        if not is_lenient:
            checked(Field.MILLI_OF_DAY, of_day)
        _set_clock(left, of_day // 1000)
        nanos = of_day % 1000 * 1_000_000 + left.get(Field.NANO_OF_SECOND, 0) % 1_000_000
        _set(left, Field.NANO_OF_SECOND, nanos)
    if Field.NANO_OF_SECOND in left and not is_lenient:
        checked(Field.NANO_OF_SECOND, left[Field.NANO_OF_SECOND])


def _set_clock(left: Fields, second_of_day: int) -> None:
    _set(left, Field.HOUR_OF_DAY, second_of_day // 3600)
    _set(left, Field.MINUTE_OF_HOUR, second_of_day // 60 % 60)
    _set(left, Field.SECOND_OF_MINUTE, second_of_day % 60)


def _check_rest(left: Fields, day: int | None, nanos: int | None) -> None:
    """Compare each field that is left with the date and the time."""
    known: Fields = {}
    if day is not None:
        year, month, of_month = civil(day)
        known |= {
            Field.ERA: int(year > 0),
            Field.YEAR: year,
            Field.YEAR_OF_ERA: year if year > 0 else 1 - year,
            Field.QUARTER_OF_YEAR: (month + 2) // 3,
            Field.MONTH_OF_YEAR: month,
            Field.DAY_OF_MONTH: of_month,
            Field.DAY_OF_YEAR: day - days_of(year, 1, 1) + 1,
            Field.DAY_OF_WEEK: (day + 3) % 7 + 1,
        }
    if nanos is not None:
        hour = nanos // NS_PER_HOUR
        known |= {
            Field.AMPM_OF_DAY: hour // _NOON,
            Field.HOUR_OF_DAY: hour,
            Field.HOUR_OF_AMPM: hour % _NOON,
            Field.MINUTE_OF_HOUR: nanos // (60 * NS_PER_SECOND) % 60,
            Field.SECOND_OF_MINUTE: nanos // NS_PER_SECOND % 60,
            Field.NANO_OF_SECOND: nanos % NS_PER_SECOND,
        }
    for field, value in left.items():
        if known.get(field, value) != value:
            message = f"the {field.value} is {value}, but the rest says {known[field]}"
            raise TimeError(message)
