"""Java's date patterns, applied to whole columns.

1. :func:`parse_pattern` cuts a pattern into literals and fields by the rules of
   ``java.time.format.DateTimeFormatterBuilder.appendPattern``.
2. :meth:`DatePattern.format` computes each field as a vector of numbers, writes each distinct
   number once, and joins the parts row by row.

Names of months, days, eras and quarters are those of English (United States), where Java takes
those of its machine. Refused are letters whose meaning depends on the machine, where Java's result
would differ from one to the next (weeks: ``Y w W e c``; periods of the day: ``B``) or on its
version (``F``), and letters of time zones, which a local time has not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.cdc.columns import date_fields as fields
from tidelake.cdc.columns.date_fields import Numbers
from tidelake.cdc.columns.local_times import LocalTimes

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_WEEKS = "Y w W e c"
_MACHINES = frozenset("YwWecB")
_VERSIONS = frozenset("Fg")
_ZONES = frozenset("VvzOXxZ")
_RESERVED = frozenset("{}#")
_NUMBER_LETTERS_MAX = {"d": 2, "h": 2, "H": 2, "k": 2, "K": 2, "m": 2, "s": 2, "D": 3}
_TEXT_LETTERS_MAX = 5
_WIDTH_MAX = 19  # digits of Java's largest number
_FRACTION_MAX = 9


class PatternError(ValueError):
    """A pattern that Java, or this module, does not take; the text is a clause."""


@dataclass(frozen=True, slots=True)
class _Field:
    letter: str
    count: int


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A pattern that was checked.

    Examples
    --------
    >>> times = LocalTimes(np.array([19_000]), np.array([3_600 * 10**9]), np.array([True]))
    >>> parse_pattern("yyyy-MM-dd'T'hh a").format(times).to_pylist()
    ['2022-01-08T01 AM']
    """

    text: str
    parts: tuple[str | _Field, ...]

    def format(self, times: LocalTimes) -> pa.Array:
        """Write local times as texts, null where there is none."""
        columns = [
            pa.scalar(part) if isinstance(part, str) else _field_texts(part, times)
            for part in self.parts
        ]
        # all may be literals, so that nothing says how many rows there are
        rows = pc.if_else(pa.array(times.valid), "", pa.scalar(None, pa.string()))
        return pc.binary_join_element_wise(rows, *columns, pa.scalar(""))


def parse_pattern(text: str) -> DatePattern:
    """Read a pattern.

    Raises
    ------
    PatternError
        It is refused.
    """
    parts: list[str | _Field] = []
    place, depth = 0, 0
    while place < len(text):
        sign, start = text[place], place
        place += 1
        if sign.isascii() and sign.isalpha():
            while place < len(text) and text[place] == sign:
                place += 1
            parts.append(_checked(sign, place - start))
        elif sign == "'":
            literal, place = _quoted(text, place)
            parts.append(literal)
        elif sign in _RESERVED:
            raise PatternError(f"'{sign}' is reserved: quote it, as in \"'{sign}'\"")
        elif sign == "[":
            depth += 1
        elif sign == "]":
            depth -= 1
            if depth < 0:
                raise PatternError("a ']' has no '[' before it")
        else:
            parts.append(sign)
    return DatePattern(text, tuple(parts))


def _quoted(text: str, place: int) -> tuple[str, int]:
    """The literal whose opening quote is before `place`, and where the text goes on."""
    literal = ""
    start = place
    while place < len(text):
        if text[place] != "'":
            literal += text[place]
        elif text[place + 1 : place + 2] == "'":
            literal += "'"
            place += 1
        else:
            return (literal if place > start else "'"), place + 1
        place += 1
    raise PatternError("a quote is not closed")


def _checked(letter: str, count: int) -> _Field:
    if letter in _MACHINES:
        raise PatternError(
            f"the letter '{letter}' depends on the machine's language, as all of {_WEEKS} and B do:"
            " take letters of dates and times (y M d D H m s)"
        )
    if letter in _VERSIONS:
        raise PatternError(f"the letter '{letter}' depends on the version of Java")
    if letter in _ZONES:
        raise PatternError(f"the letter '{letter}' is of time zones, which a local time has not")
    if letter == "p":
        raise PatternError("padding by 'p' is not covered: repeat a letter instead, as in 'dd'")
    if letter not in _NUMBERS and letter not in _TEXTS and letter not in "uySa":
        quoted = f"\"'{letter * count}'\""
        raise PatternError(f"'{letter}' is no letter of patterns: quote a text, as in {quoted}")
    largest = _NUMBER_LETTERS_MAX.get(letter, _WIDTH_MAX)
    if letter in _TEXTS:
        largest = _TEXT_LETTERS_MAX
    elif letter == "S":
        largest = _FRACTION_MAX
    elif letter == "a":
        largest = 1
    if count > largest:
        raise PatternError(f"'{letter * count}' has more than {largest} letters")
    return _Field(letter, count)


def _field_texts(field: _Field, times: LocalTimes) -> pa.Array:
    letter, count = field.letter, field.count
    if letter in "uy":
        return _distinct(
            _year_text(count), (fields.year_of_era if letter == "y" else fields.year)(times)
        )
    if letter == "S":
        digits = fields.nanos_of_second(times) // 10 ** (_FRACTION_MAX - count)
        return _distinct(_padded(count), digits)
    if letter == "a":
        return _distinct(lambda n: "PM" if n else "AM", fields.half_of_day(times))
    if letter in _TEXTS:
        number, names = _TEXTS[letter]
        shown = names(count)
        return _distinct(shown, number(times))
    return _distinct(_padded(count), _NUMBERS[letter](times))


def _distinct(write: Callable[[int], str], numbers: Numbers) -> pa.Array:
    """Write each distinct number once: fields of dates repeat, those of fractions seldom."""
    distinct, places = np.unique(numbers, return_inverse=True)
    texts = pa.array([write(int(number)) for number in distinct], pa.string())
    return texts.take(pa.array(places.ravel()))


def _padded(width: int) -> Callable[[int], str]:
    return lambda number: f"{number:0{width}d}"


def _year_text(count: int) -> Callable[[int], str]:
    def write(year: int) -> str:
        digits = f"{abs(year):0{count}d}"
        if count == 2:
            return f"{abs(year) % 100:02d}"
        if year < 0:
            return "-" + digits
        # four letters and more say that more digits are a surprise
        return "+" + digits if count >= 4 and len(digits) > count else digits

    return write


_NUMBERS: dict[str, Callable[[LocalTimes], Numbers]] = {
    "d": fields.day,
    "D": fields.day_of_year,
    "H": fields.hour,
    "k": lambda times: (fields.hour(times) + 23) % 24 + 1,
    "K": lambda times: fields.hour(times) % 12,
    "h": lambda times: (fields.hour(times) + 11) % 12 + 1,
    "m": fields.minute,
    "s": fields.second,
    "A": lambda times: times.nanos // 10**6,
    "n": fields.nanos_of_second,
    "N": lambda times: times.nanos,
}


def _numbered_names(names: tuple[str, ...]) -> Callable[[int], Callable[[int], str]]:
    def of_count(count: int) -> Callable[[int], str]:
        if count < 3:
            return _padded(count)
        size = {3: 3, 4: None, 5: 1}[count]
        return lambda number: names[number - 1][:size]

    return of_count


def _quarter_names(count: int) -> Callable[[int], str]:
    writers: dict[int, Callable[[int], str]] = {
        3: lambda number: f"Q{number}",
        4: lambda number: _QUARTERS[number - 1],
        5: str,
    }
    return writers.get(count) or _padded(count)


def _day_names(count: int) -> Callable[[int], str]:
    return _numbered_names(_DAYS)(max(count, 3))


def _era_names(count: int) -> Callable[[int], str]:
    names = {4: ("Before Christ", "Anno Domini"), 5: ("B", "A")}.get(count, ("BC", "AD"))
    return lambda number: names[number]


_TEXTS: dict[str, tuple[Callable[[LocalTimes], Numbers], Callable[[int], Callable[[int], str]]]] = {
    "M": (fields.month, _numbered_names(_MONTHS)),
    "L": (fields.month, _numbered_names(_MONTHS)),
    "E": (fields.day_of_week, _day_names),
    "Q": (fields.quarter, _quarter_names),
    "q": (fields.quarter, _quarter_names),
    "G": (lambda times: (fields.year(times) > 0).astype(np.int64), _era_names),
}
