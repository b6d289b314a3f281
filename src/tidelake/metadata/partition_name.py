"""The text of a partition value in a directory name, exactly as Java Paimon writes it.

1. Null, empty and blank become ``partition.default-name`` (``__DEFAULT_PARTITION__``).
2. With ``partition.legacy-name`` (the default) the text is Java's ``toString`` of the value: a DATE
   is its number of days since 1970, a TIMESTAMP an ISO time without zero seconds, a DOUBLE
   ``1.0E10``. Otherwise it is SQL's cast to a string: ``2022-01-08``.
3. Characters with a meaning in a path become ``%XX``.

The manifest defines a row's partition, not the directory. But a file that another engine wrote is
found only under exactly this name.

Source: Paimon's ``InternalRowPartitionComputer`` and ``PartitionPathUtils`` (1.3.1); the vectors of
``tests/golden/partition_names.txt`` and the directories of a table written by Java.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tidelake.errors import UnsupportedError
from tidelake.types import DataType, TypeRoot

_ESCAPED = frozenset(map(chr, range(0x20))) | frozenset("\"#%'*/:=?\\\x7f{}[]^")
_NOT_BLANK = frozenset("\x85\xa0\u2007\u202f")
"""White space for Python's ``isspace`` but not for Java's ``Character.isWhitespace``."""
_NANOS = 1_000_000_000
_WHOLE = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
_PLAIN_MIN, _PLAIN_MAX = 1e-3, 1e7
"""Java writes a floating number between these without an exponent."""


def escape_name(text: str) -> str:
    """Replace characters that are not allowed in a directory name.

    Examples
    --------
    >>> escape_name("a=b/c%d'[x]{y}^~中 z")
    'a%3Db%2Fc%25d%27%5Bx%5D%7By%7D%5E~中 z'
    """
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def has_partition_text(data_type: DataType, *, legacy: bool = True) -> bool:
    """Whether values of a type can name a directory; see :func:`partition_text`.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> has_partition_text(parse_type("DATE")), has_partition_text(parse_type("BYTES"))
    (True, False)
    """
    if data_type.root is TypeRoot.TIMESTAMP_LTZ:
        return legacy
    return data_type.root not in {TypeRoot.BINARY, TypeRoot.VARBINARY}


def partition_text(
    value: object, data_type: DataType, *, default_name: str, legacy: bool = True
) -> str:
    """Return the text of one partition value, before escaping.

    Parameters
    ----------
    value : storage value
        The value; None for null.
    legacy : bool
        Option ``partition.legacy-name``.

    Raises
    ------
    UnsupportedError
        Java's text of this type depends on the machine, so no engine could find the directory.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> partition_text(19000, parse_type("DATE"), default_name="d")
    '19000'
    >>> partition_text(19000, parse_type("DATE"), default_name="d", legacy=False)
    '2022-01-08'
    >>> partition_text("  ", parse_type("STRING"), default_name="d")
    'd'
    """
    if value is None:
        return default_name
    text = _text(value, data_type, legacy=legacy)
    blank = all(c.isspace() and c not in _NOT_BLANK for c in text)
    return default_name if blank else text


def _text(value: object, data_type: DataType, *, legacy: bool) -> str:
    root = data_type.root
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return _java_float(value, single=root is TypeRoot.FLOAT)
        case int() if root in _WHOLE:
            return str(value)
        case int() if root is TypeRoot.DECIMAL:
            return _decimal(value, data_type.scale or 0)
        case int() if root is TypeRoot.DATE:
            return str(value) if legacy else _iso_date(value)
        case int() if root is TypeRoot.TIME:
            return str(value) if legacy else _sql_time(value, data_type.precision or 0)
        case int() if root is TypeRoot.TIMESTAMP or (root is TypeRoot.TIMESTAMP_LTZ and legacy):
            return _iso_time(value) if legacy else _sql_timestamp(value, data_type.precision or 0)
    message = (
        f"A column of type {data_type} cannot be a partition key: Paimon names its directories in a"
        " way that depends on the machine. Partition by a column of another type."
    )
    raise UnsupportedError(message, kind="partition_type")


def _decimal(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).zfill(scale + 1)
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if unscaled < 0 else text


def _java_float(value: float, *, single: bool) -> str:
    """``Double.toString``: the shortest digits that restore the number, in Java's notation."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if single else np.float64(value)
    size = abs(float(value))
    if size == 0 or _PLAIN_MIN <= size < _PLAIN_MAX:
        return np.format_float_positional(number, unique=True, trim="0")
    text = np.format_float_scientific(number, unique=True, trim="0", exp_digits=1)
    digits, _, exponent = text.partition("e")
    return f"{digits}E{int(exponent)}"


def _iso_date(days: int) -> str:
    day: Any = np.datetime64(days, "D").item()
    if isinstance(day, int):  # NumPy returns dates outside Python's range as numbers
        message = f"Day {days} is outside the years 1 to 9999 and cannot name a partition."
        raise UnsupportedError(message, kind="partition_value")
    return f"{day.year:04}-{day.month:02}-{day.day:02}"


def _clock(seconds: int) -> tuple[str, str, str]:
    return f"{seconds // 3600:02}", f"{seconds // 60 % 60:02}", f"{seconds % 60:02}"


def _iso_time(nanos: int) -> str:
    """``LocalDateTime.toString``: seconds only if needed, a fraction of 3, 6 or 9 digits."""
    days, rest = divmod(nanos, 86_400 * _NANOS)
    seconds, fraction = divmod(rest, _NANOS)
    hour, minute, second = _clock(seconds)
    text = f"{_iso_date(days)}T{hour}:{minute}"
    if not seconds % 60 and not fraction:
        return text
    text += f":{second}"
    if not fraction:
        return text
    digits = f"{fraction:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def _sql_timestamp(nanos: int, precision: int) -> str:
    days, rest = divmod(nanos, 86_400 * _NANOS)
    seconds, fraction = divmod(rest, _NANOS)
    digits = f"{fraction:09}"
    while len(digits) > precision and digits.endswith("0"):
        digits = digits[:-1]
    text = f"{_iso_date(days)} {':'.join(_clock(seconds))}"
    return f"{text}.{digits}" if digits else text


def _sql_time(ms: int, precision: int) -> str:
    seconds, rest = divmod(ms, 1000)
    text = ":".join(_clock(seconds))
    digits = ""
    while precision > 0:
        digits += str(rest // 100)
        rest = rest % 100 * 10
        precision -= 1
        if rest < 1:
            break
    return f"{text}.{digits}" if digits else text
