"""Parts of a time's format: each reads its part of a text, as Java's parsers do in strict mode.

``parse(text, position, fields)`` puts what it read into `fields` and gives the position behind it;
:data:`FAILED` where the text does not fit. A field that is read twice must have one value.

Numbers beside each other share their digits: all but the first of a run have a fixed width, and the
first leaves so many digits to them (``followed_by``). So ``yyyyMMdd`` reads ``20240131``.
Source: ``java.time.format.DateTimeFormatterBuilder`` of Java 17, as its documentation says it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelake.types.java_time.fields import Field

FAILED = -1
WIDTH_MAX = 19
"""The most digits of a number."""
_LONG_DIGITS = 63
_NANO_DIGITS = 9
_CENTURY = 100
_REDUCED_BASE = 2000
"""Years of two digits are 2000 to 2099."""

Fields = dict[Field, int]


class Sign(enum.Enum):
    """Which signs a number takes."""

    NORMAL = "a minus"
    EXCEEDS_PAD = "a minus, or a plus before more digits than the least"
    NOT_NEGATIVE = "none"


class Element(Protocol):
    """A part of a format."""

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Read this part at a position; the position behind it, or :data:`FAILED`."""
        ...


def _put(fields: Fields, field: Field, value: int, end: int) -> int:
    return end if fields.setdefault(field, value) == value else FAILED


def _digits_end(text: str, start: int, end: int) -> int:
    """The end of the ASCII digits from a position on, at most `end`."""
    position = start
    while position < end and "0" <= text[position] <= "9":
        position += 1
    return position


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that must be there."""

    text: str

    def parse(self, text: str, position: int, fields: Fields) -> int:  # noqa: ARG002
        """Read it."""
        return position + len(self.text) if text.startswith(self.text, position) else FAILED


@dataclass(frozen=True, slots=True)
class Digits:
    """A number of `width_min` to `width_max` digits.

    Parameters
    ----------
    followed_by : int
        How many digits belong to the numbers behind it.
    is_reduced : bool
        Whether it is a year's last two digits.
    """

    field: Field
    width_min: int = 1
    width_max: int = WIDTH_MAX
    sign: Sign = Sign.NORMAL
    followed_by: int = 0
    is_reduced: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether it always has the same number of digits, and no sign."""
        return self.width_min == self.width_max and self.sign is Sign.NOT_NEGATIVE

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Read it."""
        if position == len(text):
            return FAILED
        mark = text[position] if text[position] in "+-" else ""
        if mark and (self.sign is Sign.NOT_NEGATIVE or (mark == "+" and self.sign is Sign.NORMAL)):
            return FAILED
        start = position + len(mark)
        least = start + self.width_min
        end = _digits_end(text, start, min(start + self.width_max + self.followed_by, len(text)))
        if end < least:
            return FAILED
        if self.followed_by:
            end = start + max(self.width_min, end - start - self.followed_by)
        value = int(text[start:end])
        if mark == "-":
            if value == 0:
                return FAILED
            value = -value
        elif self.sign is Sign.EXCEEDS_PAD and (end > least) != (mark == "+"):
            return FAILED
        if value.bit_length() > _LONG_DIGITS:  # Java drops the last digit and goes on behind it
            value, end = _without_last_digit(value), end - 1
        if self.is_reduced and end - start == self.width_min and value >= 0:
            value += _REDUCED_BASE - _REDUCED_BASE % _CENTURY
        return _put(fields, self.field, value, end)


def _without_last_digit(value: int) -> int:
    return value // 10 if value >= 0 else -(-value // 10)


@dataclass(frozen=True, slots=True)
class Fraction:
    """The fraction of a second, perhaps behind a point."""

    width_min: int
    width_max: int
    has_point: bool = False

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Read it."""
        if position == len(text):
            return FAILED
        if self.has_point:
            if text[position] != ".":
                return FAILED
            position += 1
        if position + self.width_min > len(text):
            return FAILED
        end = _digits_end(text, position, min(position + self.width_max, len(text)))
        if end < position + self.width_min:
            return FAILED
        nanos = int(text[position:end].ljust(_NANO_DIGITS, "0"))
        return _put(fields, Field.NANO_OF_SECOND, nanos, end)


@dataclass(frozen=True, slots=True)
class Word:
    """One of some texts, the longest first; each stands for a value.

    Parameters
    ----------
    texts : tuple of str
        Of the values from `first` on.
    """

    field: Field
    texts: tuple[str, ...]
    first: int

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Read it."""
        for word in sorted(self.texts, key=len, reverse=True):
            if text.startswith(word, position):
                value = self.first + self.texts.index(word)
                return _put(fields, self.field, value, position + len(word))
        return FAILED


@dataclass(frozen=True, slots=True)
class Padded:
    """A part with spaces before it, `width` characters together."""

    width: int
    inner: Element

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Read it."""
        end = position + self.width
        if end > len(text):
            return FAILED
        while position < end and text[position] == " ":
            position += 1
        return end if self.inner.parse(text[:end], position, fields) == end else FAILED


@dataclass(frozen=True, slots=True)
class Section:
    """Parts one behind the other.

    Parameters
    ----------
    is_optional : bool
        Whether the text may leave all of them out.
    """

    elements: Sequence[Element]
    is_optional: bool = False

    def parse(self, text: str, position: int, fields: Fields) -> int:
        """Read them."""
        found = dict(fields) if self.is_optional else fields
        end = position
        for element in self.elements:
            end = element.parse(text, end, found)
            if end == FAILED:
                return position if self.is_optional else FAILED
        if self.is_optional:
            fields.update(found)
        return end
