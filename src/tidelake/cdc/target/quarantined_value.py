"""Values of the quarantine's payloads, read again for the column that is to hold them.

A payload is JSON with the source's texts, or with texts of values that JSON has not. Where a text
may mean two values, it is refused: bytes (PostgreSQL writes hexadecimal, others base64), lists and
maps, and instants without a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from tidelake.types import DataType, TypeRoot

_TRUTHS: dict[object, bool] = {True: True, False: False, "t": True, "f": False}
"""JSON's own, and PostgreSQL's; 1 and 0, as MySQL writes them, are equal to JSON's."""


def quarantined_value(value: object, kind: DataType) -> object:
    """Read one value.

    Raises
    ------
    ValueError
        It is no value of the type, or may mean several.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> quarantined_value("12.50", parse_type("DECIMAL(10, 2)"))
    Decimal('12.50')
    """
    if value is None:
        return None
    read = _READERS.get(kind.root)
    if read is None:
        message = f"a {kind} is not read from the quarantine"
        raise ValueError(message)
    try:
        return read(value)
    except (ValueError, TypeError, KeyError, InvalidOperation) as error:
        message = f"{value!r} is no {kind}"
        raise ValueError(message) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)
    return int(value)


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(value)
    return float(value)


def _decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(value)  # a float has lost digits already
    found = Decimal(value)
    if not found.is_finite():
        raise ValueError(value)
    return found


def _local(value: object) -> dt.datetime:
    found = dt.datetime.fromisoformat(_text(value))
    if found.tzinfo is not None:
        raise ValueError(value)
    return found


def _instant(value: object) -> dt.datetime:
    found = dt.datetime.fromisoformat(_text(value))
    if found.tzinfo is None:
        raise ValueError(value)
    return found


_READERS: dict[TypeRoot, Callable[[object], object]] = {
    TypeRoot.BOOLEAN: lambda value: _TRUTHS[value],
    TypeRoot.CHAR: _text,
    TypeRoot.VARCHAR: _text,
    TypeRoot.FLOAT: _float,
    TypeRoot.DOUBLE: _float,
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.DATE: lambda value: dt.date.fromisoformat(_text(value)),
    TypeRoot.TIME: lambda value: dt.time.fromisoformat(_text(value)),
    TypeRoot.TIMESTAMP: _local,
    TypeRoot.TIMESTAMP_LTZ: _instant,
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT), _whole),
}
