"""Reads a pattern such as ``yyyy-MM-dd HH:mm:ss`` into the parts of a format.

The letters are those of ``DateTimeFormatter.ofPattern(pattern, Locale.ROOT)`` of Java 17:

=============  ====================================================================================
letters        meaning
=============  ====================================================================================
G              the era: AD, BC; four or five: CE, BCE
u, y           the year, and the year of the era. Two letters: 2000 to 2099
M L            the month: 1, 01, and by three or four letters Jan
Q q            the quarter: 1, 01, Q1; three q: 1. Five letters of it or the month: 1
D d            the day of the year, of the month
E              the day of the week: Mon
a              AM, PM
H K k h        the hour: 0-23, 0-11, 1-24, 1-12
m s            minute, second
S              a fraction of a second, of as many digits as letters
A n N          the millisecond of the day, the nanosecond of the second and of the day
p              the next letters are padded with spaces to so many characters
'text' ''      text, an apostrophe
[ ]            what stands between may be missing
=============  ====================================================================================

Java has letters more, which are refused here: weeks (Y w W e c), zones (V v z O X x Z), and some
whose meaning depends on Java's version (F g B) or which Java cannot read back (EEEEE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidelake.types.java_time.element import (
    WIDTH_MAX,
    Digits,
    Element,
    Fraction,
    Literal,
    Padded,
    Section,
    Sign,
    Word,
)
from tidelake.types.java_time.fields import RANGES, Field

_NOT_READ = "YwWecVvzOXxZFgB"
_RESERVED = "{}#"
_FRACTION_MAX = 9
_TWO, _THREE, _FOUR, _FIVE = 2, 3, 4, 5

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_QUARTERS = ("Q1", "Q2", "Q3", "Q4")

_PLAIN: Mapping[str, Field] = {
    "d": Field.DAY_OF_MONTH,
    "H": Field.HOUR_OF_DAY,
    "K": Field.HOUR_OF_AMPM,
    "k": Field.CLOCK_HOUR_OF_DAY,
    "h": Field.CLOCK_HOUR_OF_AMPM,
    "m": Field.MINUTE_OF_HOUR,
    "s": Field.SECOND_OF_MINUTE,
}
"""One or two letters: a number, or one of two digits."""
_LONG: Mapping[str, Field] = {
    "A": Field.MILLI_OF_DAY,
    "n": Field.NANO_OF_SECOND,
    "N": Field.NANO_OF_DAY,
}
"""As many digits as letters, at least."""


class TimePatternError(ValueError):
    """A pattern that is none of Java's, or has letters that are not read here."""


class _Sections:
    """The open sections, with the place of the number that leaves digits to those behind it."""

    def __init__(self) -> None:
        self._open: list[list[Element]] = [[]]
        self._first_number: int | None = None
        self._pad = 0

    @property
    def depth(self) -> int:
        """How many optional sections are open."""
        return len(self._open) - 1

    def pad(self, width: int) -> None:
        """Pad the next part."""
        self._pad, self._first_number = width, None

    def add(self, element: Element) -> None:
        """Add a part that is no number."""
        if self._pad:
            element, self._pad = Padded(self._pad, element), 0
        self._open[-1].append(element)
        self._first_number = None

    def add_number(self, number: Digits | Fraction) -> None:
        """Add a number; one that stands right behind another takes its digits from it."""
        elements, first = self._open[-1], self._first_number
        is_fixed = isinstance(number, Fraction) or number.is_fixed
        width = number.width_max
        if first is not None and isinstance(elements[first], Padded):
            message = "a number cannot follow right behind one that is padded"
            raise TimePatternError(message)  # Java's own class fails here
        before = None if first is None else elements[first]
        self.add(number)
        if isinstance(before, Digits):  # a number of no fixed width takes all of its digits back
            behind = before.followed_by + width if is_fixed else 0
            elements[first or 0] = replace(before, followed_by=behind)
        if is_fixed and first is not None:
            self._first_number = first
            return
        self._first_number = len(elements) - 1

    def begin(self) -> None:
        """Begin an optional section."""
        self._first_number = None
        self._open.append([])

    def end(self) -> None:
        """End the optional section."""
        elements = self._open.pop()
        self._first_number = None
        if elements:
            self.add(Section(tuple(elements), is_optional=True))

    def whole(self) -> Section:
        """All of it; open sections end here."""
        while self.depth:
            self.end()
        return Section(tuple(self._open[0]))


def parse_pattern(pattern: str) -> Section:
    """Read a pattern.

    Raises
    ------
    TimePatternError
        The pattern is malformed; the message names the place.

    Examples
    --------
    >>> len(parse_pattern("yyyy-MM-dd").elements)
    5
    >>> parse_pattern("yyyy-bb")
    Traceback (most recent call last):
    tidelake.types.java_time.pattern.TimePatternError: 'b' is no letter of a time
    """
    sections = _Sections()
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        end = position
        while end < len(pattern) and pattern[end] == letter:
            end += 1
        if letter.isascii() and letter.isalpha():
            if letter == "p":
                end = _pad(sections, pattern, position, end)
            else:
                _add_letters(sections, letter, end - position)
            position = end
        elif letter == "'":
            position = _add_quoted(sections, pattern, position)
        else:
            _add_mark(sections, letter)
            position += 1
    return sections.whole()


def _pad(sections: _Sections, pattern: str, start: int, end: int) -> int:
    """Read the letters behind ``p``; the position behind them."""
    letter = pattern[end : end + 1]
    if not (letter.isascii() and letter.isalpha()):
        message = "'p' must stand before the letters that it pads"
        raise TimePatternError(message)
    behind = end
    while behind < len(pattern) and pattern[behind] == letter:
        behind += 1
    sections.pad(end - start)
    _add_letters(sections, letter, behind - end)
    return behind


def _add_quoted(sections: _Sections, pattern: str, start: int) -> int:
    """Read quoted text; the position behind it."""
    text, position = "", start + 1
    while position < len(pattern):
        if pattern[position] == "'":
            if pattern[position + 1 : position + 2] != "'":
                break
            position += 1
        text += pattern[position]
        position += 1
    else:
        message = "the text behind an apostrophe does not end"
        raise TimePatternError(message)
    sections.add(Literal(text or "'"))
    return position + 1


def _add_mark(sections: _Sections, mark: str) -> None:
    if mark == "[":
        sections.begin()
    elif mark == "]":
        if not sections.depth:
            message = "']' has no '[' before it"
            raise TimePatternError(message)
        sections.end()
    elif mark in _RESERVED:
        message = f"'{mark}' must be quoted, as \"'{mark}'\""
        raise TimePatternError(message)
    else:
        sections.add(Literal(mark))


def _add_letters(sections: _Sections, letter: str, count: int) -> None:
    element = _element(letter, count)
    if isinstance(element, (Digits, Fraction)):
        sections.add_number(element)
    else:
        sections.add(element)


def _element(letter: str, count: int) -> Element:
    """The part of some equal letters."""
    if letter in "uy":
        field = Field.YEAR if letter == "u" else Field.YEAR_OF_ERA
        if count == _TWO:
            return Digits(field, _TWO, _TWO, Sign.NOT_NEGATIVE, is_reduced=True)
        return _long(letter, field, count, Sign.EXCEEDS_PAD if count >= _FOUR else Sign.NORMAL)
    if letter in "MLQq" and count <= _TWO:
        return _short(Field.MONTH_OF_YEAR if letter in "ML" else Field.QUARTER_OF_YEAR, count)
    if letter in _PLAIN:
        _at_most(letter, count, _TWO)
        return _short(_PLAIN[letter], count)
    if letter in _LONG:
        return _long(letter, _LONG[letter], count, Sign.NOT_NEGATIVE)
    if letter == "S":
        _at_most(letter, count, _FRACTION_MAX)
        return Fraction(count, count)
    if letter == "D":
        _at_most(letter, count, _THREE)
        if count == 1:
            return _short(Field.DAY_OF_YEAR, 1)
        return Digits(Field.DAY_OF_YEAR, count, _THREE, Sign.NOT_NEGATIVE)
    return _word(letter, count)


def _word(letter: str, count: int) -> Element:
    if letter == "a":
        _at_most(letter, count, 1)
        return Word(Field.AMPM_OF_DAY, ("AM", "PM"), 0)
    if letter in _NOT_READ:
        message = f"'{letter}' is not read here: weeks and zones are not"
        raise TimePatternError(message)
    if letter not in "GMLQqE":
        message = f"'{letter}' is no letter of a time"
        raise TimePatternError(message)
    _at_most(letter, count, _FOUR if letter == "E" else _FIVE)
    if letter == "G":
        return Word(Field.ERA, ("BCE", "CE") if count >= _FOUR else ("BC", "AD"), 0)
    if letter == "E":
        return Word(Field.DAY_OF_WEEK, _DAYS, 1)
    is_number = count == _FIVE or (letter == "q" and count == _THREE)
    field = Field.MONTH_OF_YEAR if letter in "ML" else Field.QUARTER_OF_YEAR
    numbers = tuple(str(number) for number in range(1, RANGES[field][1] + 1))
    names = _MONTHS if letter in "ML" else _QUARTERS
    return Word(field, numbers if is_number else names, 1)


def _short(field: Field, count: int) -> Digits:
    return Digits(field) if count == 1 else Digits(field, _TWO, _TWO, Sign.NOT_NEGATIVE)


def _long(letter: str, field: Field, count: int, sign: Sign) -> Digits:
    _at_most(letter, count, WIDTH_MAX)
    return Digits(field, count, WIDTH_MAX, sign)


def _at_most(letter: str, count: int, most: int) -> None:
    if count > most:
        message = f"{count} letters '{letter}' are too many: at most {most}"
        raise TimePatternError(message)
