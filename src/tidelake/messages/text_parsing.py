"""Parses and writes values of SQL types as text, as Flink's formats do.

Each parser takes one text and gives the value in the form that
:func:`tidelake.format.avro.values.column_of` takes: a date as days, a time as milliseconds, a
timestamp as a count of its column's unit, a decimal as the bytes of its unscaled value. They run
only where Arrow did not convert the whole column at once.

Source: ``TimeFormats`` and ``JsonToRowDataConverters`` of Flink 2.1. Where Flink gives a wrong
value without an error (``yes`` is false, 1.5 is 1, a decimal too large is null), the parser raises.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit, to_arrow_type

SQL, ISO = "SQL", "ISO-8601"
"""The two standards of timestamps: a blank between date and time, or the letter T."""
INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
}
TEXT_ROOTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
EPOCH = date(1970, 1, 1)
NANOS_PER_S = 1_000_000_000
S_PER_DAY = 86_400
SECONDS_MAX, MINUTES_MAX, HOURS_MAX = 59, 59, 23
DECIMAL_CONTEXT = Context(prec=80)

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_SQL_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{0,9})?)")
_ISO_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)")
_WHOLE = {  # texts that Arrow's own cast reads exactly as Flink does
    SQL: r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?",
    ISO: r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?",
}


def text_parser(data_type: DataType, standard: str) -> Callable[[str], Any]:
    """Make the parser of a type that is not nested; the parser raises ``ValueError``.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> text_parser(parse_type("TIMESTAMP(3)"), SQL)("1970-01-01 00:00:01.5")
    1500
    >>> text_parser(parse_type("DATE"), SQL)("1970-02-01")
    31
    """
    root = data_type.root
    if root in TEXT_ROOTS:
        return str
    if root in INTEGER_BITS:
        bits = INTEGER_BITS[root]
        return lambda text: _integer_text(text, bits)
    if root is TypeRoot.DECIMAL:
        return lambda text: decimal_bytes(_decimal(text), data_type)
    if root in TIMESTAMPS:
        per_unit = NANOS_PER_UNIT[timestamp_unit(data_type)]
        is_instant = root is TypeRoot.TIMESTAMP_LTZ
        return lambda text: _timestamp(text, standard, is_instant=is_instant) // per_unit
    return _PARSERS[root]


def parse_integer(value: int | float, bits: int) -> int:
    """Parse an integer of `bits` bits; raises ``ValueError``."""
    whole = int(value)
    if whole != value or not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise ValueError
    return whole


def decimal_bytes(value: Decimal, data_type: DataType) -> bytes:
    """Round a decimal to a type's scale, half up; raises ``ValueError`` for too many digits.

    Examples
    --------
    >>> decimal_bytes(Decimal("1.005"), DataType(TypeRoot.DECIMAL, precision=3, scale=2))
    b'e'
    """
    try:
        scaled = value.quantize(
            Decimal(1).scaleb(-(data_type.scale or 0)), ROUND_HALF_UP, DECIMAL_CONTEXT
        )
    except InvalidOperation as error:
        raise ValueError from error
    unscaled = int(scaled.scaleb(data_type.scale or 0, DECIMAL_CONTEXT))
    if abs(unscaled) >= 10 ** (data_type.precision or 0):
        raise ValueError
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


def _integer_text(text: str, bits: int) -> int:
    stripped = text.strip()
    if not _INTEGER.fullmatch(stripped):
        raise ValueError
    return parse_integer(int(stripped), bits)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError from error


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise ValueError
    return lowered == "true"


def _float(text: str) -> float:
    if "_" in text:  # number texts that only Python accepts
        raise ValueError
    return float(text)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _days(text: str) -> int:
    if not _DATE.fullmatch(text):
        raise ValueError
    return (date.fromisoformat(text) - EPOCH).days


def _time_nanos(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[:3])
    if hours > HOURS_MAX or minutes > MINUTES_MAX or seconds > SECONDS_MAX:
        raise ValueError
    fraction = int((found[4] or "").ljust(9, "0"))
    return (hours * 3600 + minutes * 60 + seconds) * NANOS_PER_S + fraction


def _timestamp(text: str, standard: str, *, is_instant: bool) -> int:
    """Parse a timestamp to nanoseconds since the epoch."""
    if is_instant:
        if not text.endswith("Z"):
            raise ValueError
        text = text[:-1]
    found = (_SQL_TIMESTAMP if standard == SQL else _ISO_TIMESTAMP).fullmatch(text)
    if found is None:
        raise ValueError
    return _days(found[1]) * S_PER_DAY * NANOS_PER_S + _time_nanos(found[2].rstrip("."))


_PARSERS: dict[TypeRoot, Callable[[str], Any]] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.FLOAT: _float,
    TypeRoot.DOUBLE: _float,
    TypeRoot.BINARY: _bytes,
    TypeRoot.VARBINARY: _bytes,
    TypeRoot.DATE: _days,
    TypeRoot.TIME: lambda text: _time_nanos(text) // 1_000_000,
}


def times_of_texts(texts: pa.Array, data_type: DataType, standard: str) -> pa.Array | None:
    """Parse a whole column of dates or timestamps with Arrow; None if a text needs a parser."""
    target = to_arrow_type(data_type)
    try:
        if data_type.root is TypeRoot.DATE:
            return texts.cast(target)
        zone = "Z$" if data_type.root is TypeRoot.TIMESTAMP_LTZ else "$"
        if not pc.all(pc.match_substring_regex(texts, _WHOLE[standard] + zone)).as_py():
            return None if len(texts) > texts.null_count else pa.nulls(len(texts), target)
        if data_type.root is TypeRoot.TIMESTAMP_LTZ:
            return texts.cast(pa.timestamp("us", "UTC")).cast(target, safe=False)
        return texts.cast(pa.timestamp("us")).cast(target, safe=False)
    except pa.ArrowInvalid:
        return None


def time_texts(column: pa.Array, data_type: DataType, standard: str) -> pa.Array:
    """Write a column of dates, times or timestamps as text.

    Examples
    --------
    >>> column = pa.array([0, 1_500], pa.timestamp("ms"))
    >>> from tidelake.types import parse_type
    >>> time_texts(column, parse_type("TIMESTAMP(3)"), ISO).to_pylist()
    ['1970-01-01T00:00:00', '1970-01-01T00:00:01.5']
    """
    if data_type.root is TypeRoot.DATE:
        return column.cast(pa.string())
    if data_type.root is TypeRoot.TIME:
        texts = column.cast(pa.string())
        return pc.replace_substring_regex(texts, r"\.0+$|(\.\d*[1-9])0+$", r"\1")
    local = column.cast(pa.timestamp(column.type.unit))
    texts = pc.strftime(local, "%Y-%m-%dT%H:%M:%S" if standard == ISO else "%Y-%m-%d %H:%M:%S")
    texts = pc.replace_substring_regex(texts, r"\.0+$|(\.\d*[1-9])0+$", r"\1")
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        texts = pc.binary_join_element_wise(texts, "Z", "")
    return texts
