"""Reads ``VALUES (1, 'tea'), (2, NULL)`` where every value is a literal whose meaning is plain.

Spark's grammar knows more than is read here: escapes in strings, suffixes of numbers, functions.
A text that holds any of it is not read at all (None), and Spark runs it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from tidelake.sql.syntax.tokens import Kind, Word, words_of

__all__ = ["Cell", "Sort", "read_rows"]


class Sort(enum.Enum):
    """The type of a literal, as Spark calls it."""

    VOID = "void"
    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    DECIMAL = "decimal"
    DOUBLE = "double"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class Cell:
    """One literal.

    Parameters
    ----------
    sort : Sort
        Its type.
    value : object
        Of Python; of both kinds of timestamps what a clock shows, without a zone. None for a null.
    """

    sort: Sort
    value: object


_WHOLE_BITS = {Sort.TINYINT: 8, Sort.SMALLINT: 16, Sort.INT: 32, Sort.BIGINT: 64}
_WHOLE_NAMES = {s.name: s for s in _WHOLE_BITS} | {"INTEGER": Sort.INT}
_TIME_NAMES = {
    "DATE": Sort.DATE,
    "TIMESTAMP": Sort.TIMESTAMP,
    "TIMESTAMP_LTZ": Sort.TIMESTAMP,
    "TIMESTAMP_NTZ": Sort.TIMESTAMP_NTZ,
}
_NAMES = {**_WHOLE_NAMES, **_TIME_NAMES, "DOUBLE": Sort.DOUBLE, "STRING": Sort.STRING}
_WHOLE = re.compile(r"\d+")
_FRACTION = re.compile(r"\d+\.\d+")
_EXPONENT = re.compile(r"\d+(\.\d+)?[eE][+-]?\d+")
_WHOLE_TEXT = re.compile(r"-?\d{1,18}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?)?")
DECIMAL_DIGITS_MAX = 38


def read_rows(text: str, *, defaults: bool = False) -> list[list[Cell]] | None:
    """Read the rows of a query that is VALUES and nothing else.

    Parameters
    ----------
    text : str
        The query.
    defaults : bool
        Whether DEFAULT is plain too; it is read as a null.

    Returns
    -------
    list of list of Cell, or None
        Rows of equally many values; None where it is another query, or not all of it is plain.

    Examples
    --------
    >>> [[cell.value for cell in row] for row in read_rows("VALUES (1, 'tea'), (-2, NULL)")]
    [[1, 'tea'], [-2, None]]
    >>> read_rows("VALUES (1 + 1)") is None
    True
    """
    reader = _Reader(text, words_of(text), defaults=defaults)
    try:
        return reader.rows()
    except _OtherError:
        return None


class _OtherError(Exception):
    """What stands here is no plain literal."""


@dataclass(slots=True)
class _Reader:
    text: str
    words: Sequence[Word]
    index: int = 0
    defaults: bool = False

    def rows(self) -> list[list[Cell]]:
        self._need("VALUES")
        rows = [self._row()]
        while self._takes(","):
            rows.append(self._row())
        if self.index < len(self.words) or len({len(row) for row in rows}) > 1:
            raise _OtherError
        return rows

    def _row(self) -> list[Cell]:
        if not self._takes("("):
            return [self._cell()]
        cells = [self._cell()]
        while self._takes(","):
            cells.append(self._cell())
        self._need(")")
        return cells

    def _cell(self) -> Cell:
        word = self._next()
        if word.kind is Kind.STRING:
            return Cell(Sort.STRING, self._string(word))
        if word.text in {"-", "+"} and word.kind is Kind.SIGN:
            return self._number(self._next(), sign="-" if word.text == "-" else "")
        if word.kind is Kind.NUMBER:
            return self._number(word)
        if word.upper == "NULL" or (word.upper == "DEFAULT" and self.defaults):
            return Cell(Sort.VOID, None)
        if word.upper in {"TRUE", "FALSE"}:
            return Cell(Sort.BOOLEAN, word.upper == "TRUE")
        if word.upper in _TIME_NAMES:
            return _cast(Cell(Sort.STRING, self._string(self._next())), _TIME_NAMES[word.upper])
        if word.upper == "CAST":
            return self._cast_of()
        raise _OtherError

    def _cast_of(self) -> Cell:
        self._need("(")
        cell = self._cell()
        self._need("AS")
        name = self._next().upper
        if name in {"DECIMAL", "DEC", "NUMERIC"} and self._takes("("):
            precision = self._digits()
            scale = self._digits() if self._takes(",") else 0
            self._need(")")
            self._need(")")
            return _as_decimal(cell, precision, scale)
        sort = _NAMES.get(name)
        self._need(")")
        if sort is None:
            raise _OtherError
        return _cast(cell, sort)

    def _number(self, word: Word, sign: str = "") -> Cell:
        written = self.text[word.start : word.end]
        if word.kind is not Kind.NUMBER or written != word.text:
            raise _OtherError  # a suffix says its type
        if _WHOLE.fullmatch(written):
            number = int(sign + written)
            for sort in (Sort.INT, Sort.BIGINT):
                if _fits(number, sort):
                    return Cell(sort, number)
        elif _FRACTION.fullmatch(written) and len(written) <= DECIMAL_DIGITS_MAX:
            decimal = Decimal(sign + written)
            return Cell(Sort.DECIMAL, decimal if decimal else decimal.copy_abs())  # no -0.0
        elif _EXPONENT.fullmatch(written):
            return Cell(Sort.DOUBLE, float(sign + written))
        raise _OtherError

    def _string(self, word: Word) -> str:
        shown = self.text[word.start : word.end]
        if word.kind is not Kind.STRING or "\\" in shown or "$" in shown:
            raise _OtherError  # Spark has escapes, and replaces ${...}
        if self.index < len(self.words) and self.words[self.index].kind is Kind.STRING:
            raise _OtherError  # both together are one
        return word.text

    def _digits(self) -> int:
        word = self._next()
        if word.kind is not Kind.NUMBER or not _WHOLE.fullmatch(word.text):
            raise _OtherError
        return int(word.text)

    def _next(self) -> Word:
        if self.index == len(self.words):
            raise _OtherError
        self.index += 1
        return self.words[self.index - 1]

    def _takes(self, keyword: str) -> bool:
        if self.index < len(self.words) and self.words[self.index].upper == keyword:
            self.index += 1
            return True
        return False

    def _need(self, keyword: str) -> None:
        if not self._takes(keyword):
            raise _OtherError


def _fits(number: int, sort: Sort) -> bool:
    half = 1 << (_WHOLE_BITS[sort] - 1)
    return -half <= number < half


def _cast(cell: Cell, sort: Sort) -> Cell:
    """CAST, where it changes the form of a value alone."""
    value = cell.value
    if value is None:
        return Cell(sort, None)
    if sort in _WHOLE_BITS:
        if isinstance(value, str) and _WHOLE_TEXT.fullmatch(value):
            value = int(value)
        if type(value) is int and _fits(value, sort):
            return Cell(sort, value)
    elif sort is Sort.DOUBLE:
        if type(value) in {int, Decimal, float}:
            return Cell(sort, float(value))  # type: ignore[arg-type] # one of the three
    elif sort is Sort.STRING:
        if type(value) in {int, str}:
            return Cell(sort, str(value))
    elif isinstance(value, str):
        return Cell(sort, _day(value) if sort is Sort.DATE else _moment(value))
    raise _OtherError


def _as_decimal(cell: Cell, precision: int, scale: int) -> Cell:
    value = cell.value
    if value is None:
        return Cell(Sort.DECIMAL, None)
    if isinstance(value, str) and (_FRACTION.fullmatch(value) or _WHOLE.fullmatch(value)):
        value = Decimal(value)
    if type(value) is int:
        value = Decimal(value)
    if isinstance(value, Decimal) and fits_decimal(value, precision, scale):
        return Cell(Sort.DECIMAL, value)
    raise _OtherError


def fits_decimal(value: Decimal, precision: int, scale: int) -> bool:
    """Whether a DECIMAL holds a value as it is.

    Examples
    --------
    >>> fits_decimal(Decimal("12.50"), 3, 1), fits_decimal(Decimal("12.55"), 3, 1)
    (True, False)
    >>> fits_decimal(Decimal("1234567890123456789.12345678901"), 38, 10)
    False
    """
    # by digits: arithmetic of decimals rounds to its context's 28
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a literal is finite"
    shown = "".join(str(digit) for digit in digits).lstrip("0")
    whole = shown.rstrip("0")
    if not whole:
        return True
    exponent += len(shown) - len(whole)
    return -exponent <= scale and len(whole) + exponent <= precision - scale


def _day(text: str) -> date:
    if not _DAY.fullmatch(text):
        raise _OtherError
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise _OtherError from error


def _moment(text: str) -> datetime:
    if not _MOMENT.fullmatch(text):
        raise _OtherError
    try:
        return datetime.fromisoformat(text)  # what a clock shows
    except ValueError as error:
        raise _OtherError from error
