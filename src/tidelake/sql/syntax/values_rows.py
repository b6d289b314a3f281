"""Reads ``VALUES (1, 'tea'), (2, NULL)`` of plain literals.

Spark's grammar has more: escapes in strings, suffixes of numbers, functions. A text with any of
them is not read (None), and Spark runs it. The tokens are read directly: sqlglot's tree of the same
2,000 rows takes five times as long.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from tidelake.sql.syntax.tokens import Token, TokenKind, tokenize


class LiteralType(enum.Enum):
    """Type of a literal, by Spark's name."""

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
class LiteralValue:
    """One literal.

    Parameters
    ----------
    value : object
        Python value; a timestamp is a naive local time. None for NULL.
    """

    type: LiteralType
    value: object


_WHOLE_BITS = {
    LiteralType.TINYINT: 8,
    LiteralType.SMALLINT: 16,
    LiteralType.INT: 32,
    LiteralType.BIGINT: 64,
}
_WHOLE_NAMES = {s.name: s for s in _WHOLE_BITS} | {"INTEGER": LiteralType.INT}
_TIME_NAMES = {
    "DATE": LiteralType.DATE,
    "TIMESTAMP": LiteralType.TIMESTAMP,
    "TIMESTAMP_LTZ": LiteralType.TIMESTAMP,
    "TIMESTAMP_NTZ": LiteralType.TIMESTAMP_NTZ,
}
_NAMES = {**_WHOLE_NAMES, **_TIME_NAMES, "DOUBLE": LiteralType.DOUBLE, "STRING": LiteralType.STRING}
_WHOLE = re.compile(r"\d+")
_FRACTION = re.compile(r"\d+\.\d+")
_EXPONENT = re.compile(r"\d+(\.\d+)?[eE][+-]?\d+")
_WHOLE_TEXT = re.compile(r"-?\d{1,18}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?)?")
DECIMAL_DIGITS_MAX = 38


def parse_values(text: str, *, defaults: bool = False) -> list[list[LiteralValue]] | None:
    """Read the rows of a VALUES query.

    Parameters
    ----------
    defaults : bool
        Accept DEFAULT and read it as NULL.

    Returns
    -------
    list of list of LiteralValue, or None
        Rows of one length; None for another query, or for a value that is not a plain literal.

    Examples
    --------
    >>> rows = parse_values("VALUES (1, 'tea'), (-2, NULL)")
    >>> [[literal.value for literal in row] for row in rows]
    [[1, 'tea'], [-2, None]]
    >>> parse_values("VALUES (1 + 1)") is None
    True
    """
    reader = _Reader(text, tokenize(text), defaults=defaults)
    try:
        return reader.rows()
    except _OtherError:
        return None


class _OtherError(Exception):
    """There is no plain literal here."""


@dataclass(slots=True)
class _Reader:
    text: str
    tokens: Sequence[Token]
    index: int = 0
    defaults: bool = False

    def rows(self) -> list[list[LiteralValue]]:
        self._expect("VALUES")
        rows = [self._row()]
        while self._accept(","):
            rows.append(self._row())
        if self.index < len(self.tokens) or len({len(row) for row in rows}) > 1:
            raise _OtherError
        return rows

    def _row(self) -> list[LiteralValue]:
        if not self._accept("("):
            return [self._literal()]
        literals = [self._literal()]
        while self._accept(","):
            literals.append(self._literal())
        self._expect(")")
        return literals

    def _literal(self) -> LiteralValue:
        token = self._next()
        if token.kind is TokenKind.STRING:
            return LiteralValue(LiteralType.STRING, self._string(token))
        if token.text in {"-", "+"} and token.kind is TokenKind.SIGN:
            return self._number(self._next(), sign="-" if token.text == "-" else "")
        if token.kind is TokenKind.NUMBER:
            return self._number(token)
        if token.upper == "NULL" or (token.upper == "DEFAULT" and self.defaults):
            return LiteralValue(LiteralType.VOID, None)
        if token.upper in {"TRUE", "FALSE"}:
            return LiteralValue(LiteralType.BOOLEAN, token.upper == "TRUE")
        if token.upper in _TIME_NAMES:
            return _cast(
                LiteralValue(LiteralType.STRING, self._string(self._next())),
                _TIME_NAMES[token.upper],
            )
        if token.upper == "CAST":
            return self._cast_of()
        raise _OtherError

    def _cast_of(self) -> LiteralValue:
        self._expect("(")
        literal = self._literal()
        self._expect("AS")
        name = self._next().upper
        if name in {"DECIMAL", "DEC", "NUMERIC"} and self._accept("("):
            precision = self._digits()
            scale = self._digits() if self._accept(",") else 0
            self._expect(")")
            self._expect(")")
            return _as_decimal(literal, precision, scale)
        type = _NAMES.get(name)
        self._expect(")")
        if type is None:
            raise _OtherError
        return _cast(literal, type)

    def _number(self, token: Token, sign: str = "") -> LiteralValue:
        written = self.text[token.start : token.end]
        if token.kind is not TokenKind.NUMBER or written != token.text:
            raise _OtherError  # a suffix gives its type
        if _WHOLE.fullmatch(written):
            number = int(sign + written)
            for type in (LiteralType.INT, LiteralType.BIGINT):
                if _fits(number, type):
                    return LiteralValue(type, number)
        elif _FRACTION.fullmatch(written) and len(written) <= DECIMAL_DIGITS_MAX:
            decimal = Decimal(sign + written)
            return LiteralValue(
                LiteralType.DECIMAL, decimal if decimal else decimal.copy_abs()
            )  # no -0.0
        elif _EXPONENT.fullmatch(written):
            return LiteralValue(LiteralType.DOUBLE, float(sign + written))
        raise _OtherError

    def _string(self, token: Token) -> str:
        shown = self.text[token.start : token.end]
        if token.kind is not TokenKind.STRING or "\\" in shown or "$" in shown:
            raise _OtherError  # Spark has escapes, and replaces ${...}
        if self.index < len(self.tokens) and self.tokens[self.index].kind is TokenKind.STRING:
            raise _OtherError  # adjacent strings are one
        return token.text

    def _digits(self) -> int:
        token = self._next()
        if token.kind is not TokenKind.NUMBER or not _WHOLE.fullmatch(token.text):
            raise _OtherError
        return int(token.text)

    def _next(self) -> Token:
        if self.index == len(self.tokens):
            raise _OtherError
        self.index += 1
        return self.tokens[self.index - 1]

    def _accept(self, keyword: str) -> bool:
        if self.index < len(self.tokens) and self.tokens[self.index].upper == keyword:
            self.index += 1
            return True
        return False

    def _expect(self, keyword: str) -> None:
        if not self._accept(keyword):
            raise _OtherError


def _fits(number: int, type: LiteralType) -> bool:
    half = 1 << (_WHOLE_BITS[type] - 1)
    return -half <= number < half


def _cast(literal: LiteralValue, target: LiteralType) -> LiteralValue:
    """CAST that keeps the value and changes its type alone."""
    value = literal.value
    if value is None:
        return LiteralValue(target, None)
    if target in _WHOLE_BITS:
        if isinstance(value, str) and _WHOLE_TEXT.fullmatch(value):
            value = int(value)
        if type(value) is int and _fits(value, target):
            return LiteralValue(target, value)
    elif target is LiteralType.DOUBLE:
        if type(value) in {int, Decimal, float}:
            return LiteralValue(target, float(value))  # type: ignore[arg-type] # one of the three
    elif target is LiteralType.STRING:
        if type(value) in {int, str}:
            return LiteralValue(target, str(value))
    elif isinstance(value, str):
        return LiteralValue(
            target, _day(value) if target is LiteralType.DATE else _timestamp(value)
        )
    raise _OtherError


def _as_decimal(literal: LiteralValue, precision: int, scale: int) -> LiteralValue:
    value = literal.value
    if value is None:
        return LiteralValue(LiteralType.DECIMAL, None)
    if isinstance(value, str) and (_FRACTION.fullmatch(value) or _WHOLE.fullmatch(value)):
        value = Decimal(value)
    if type(value) is int:
        value = Decimal(value)
    if isinstance(value, Decimal) and fits_decimal(value, precision, scale):
        return LiteralValue(LiteralType.DECIMAL, value)
    raise _OtherError


def fits_decimal(value: Decimal, precision: int, scale: int) -> bool:
    """Check that a DECIMAL holds a value without rounding.

    Examples
    --------
    >>> fits_decimal(Decimal("12.50"), 3, 1), fits_decimal(Decimal("12.55"), 3, 1)
    (True, False)
    >>> fits_decimal(Decimal("1234567890123456789.12345678901"), 38, 10)
    False
    """
    # by digits: decimal arithmetic rounds to the context's 28
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


def _timestamp(text: str) -> datetime:
    if not _TIMESTAMP.fullmatch(text):
        raise _OtherError
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise _OtherError from error
