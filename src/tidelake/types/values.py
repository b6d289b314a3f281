"""Single values in storage form: the values of BinaryRows, statistics and bound predicates.

=========================  =====================================================
type                       storage value
=========================  =====================================================
BOOLEAN                    bool
TINYINT .. BIGINT          int
FLOAT, DOUBLE              float
DECIMAL(p, s)              int, the unscaled value
CHAR, VARCHAR              str
BINARY, VARBINARY          bytes
DATE                       int, days since 1970-01-01
TIME                       int, ms of the day
TIMESTAMP, TIMESTAMP_LTZ   int, nanoseconds since 1970-01-01T00:00 (UTC for LTZ)
null                       None
=========================  =====================================================

Storage values of one type compare in the order of the column (floats: except for NaN).
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tidelake.errors import InvalidInputError
from tidelake.types.arrow import (
    MS_PER_DAY,
    NANOS_PER_UNIT,
    timestamp_unit,
    to_arrow_type,
)
from tidelake.types.data_type import DataType, TypeRoot

_EPOCH_DATE = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EXACT = decimal.Context(prec=80)
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
}
_TIMESTAMP_TEXT = re.compile(
    r"^\s*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}:?\d{2})?\s*$"
)


def to_storage(value: object, data_type: DataType) -> object:
    """Return the storage form of a plain Python value.

    Parameters
    ----------
    value : object
        bool, int, float, Decimal, str, bytes, date, time, datetime, numpy scalars, or None.
        Dates, times and timestamps may be ISO text.
    data_type : DataType
        The type; its nullability is ignored.

    Returns
    -------
    object
        As the module's table says.

    Raises
    ------
    InvalidInputError
        A value of another type, out of range, or with more digits than the type keeps.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> to_storage(decimal.Decimal("12.34"), parse_type("DECIMAL(10, 2)"))
    1234
    >>> to_storage("2022-01-08", parse_type("DATE"))
    19000
    """
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.BOOLEAN if isinstance(value, (bool, np.bool_)):
            return bool(value)
        case TypeRoot.FLOAT:
            return _float32(_float(value, data_type), data_type)
        case TypeRoot.DOUBLE:
            return _float(value, data_type)
        case root if root in _TEXT and isinstance(value, str):
            return _encodable(str(value), data_type)
        case root if root in _BYTES and isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
    position = exact_position(value, data_type)
    if not isinstance(position, Fraction):
        raise _wrong(value, data_type, "is out of range")
    low, high, step = position_bounds(data_type)
    if position.denominator != 1 or position.numerator % step:
        raise _wrong(value, data_type, "has more digits than the type keeps")
    if not low <= position.numerator <= high:
        raise _wrong(value, data_type, "is out of range")
    return position.numerator


def exact_position(value: object, data_type: DataType) -> Fraction | float:
    """Return a value's position among storage values of an integer-like type, perhaps between two.

    Parameters
    ----------
    value : object
        A plain Python value, not None.
    data_type : DataType
        TINYINT to BIGINT, DECIMAL, DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ.

    Returns
    -------
    Fraction or float
        The exact position; ``inf`` and ``-inf`` for infinite numbers.

    Raises
    ------
    InvalidInputError
        The value is of a type that cannot be compared with `data_type`.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> exact_position(1.5, parse_type("INT"))
    Fraction(3, 2)
    """
    root = data_type.root
    if root in _INTEGER_BITS:
        return _number(value, data_type)
    if root is TypeRoot.DECIMAL:
        assert data_type.scale is not None, "DECIMAL has a scale"
        return _number(value, data_type) * 10**data_type.scale
    if root is TypeRoot.DATE:
        return Fraction(_days(value, data_type))
    if root is TypeRoot.TIME:
        return _time_ms(value, data_type)
    if root in _TIMESTAMPS:
        return Fraction(_nanos(value, data_type))
    raise _wrong(value, data_type, "is of another type")


def position_bounds(data_type: DataType) -> tuple[int, int, int]:
    """Smallest and largest storage value of an integer-like type, and the step between two.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> position_bounds(parse_type("TINYINT"))
    (-128, 127, 1)
    """
    root = data_type.root
    bits = _INTEGER_BITS.get(root)
    if bits is not None:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1, 1
    if root is TypeRoot.DECIMAL:
        assert data_type.precision is not None, "DECIMAL has a precision"
        largest = 10**data_type.precision - 1
        return -largest, largest, 1
    if root is TypeRoot.DATE:
        return -(1 << 31), (1 << 31) - 1, 1
    if root is TypeRoot.TIME:
        return 0, MS_PER_DAY - 1, 1
    assert root in _TIMESTAMPS, f"{data_type} is not integer-like"
    step = NANOS_PER_UNIT[timestamp_unit(data_type)]
    return -(1 << 63) * step, ((1 << 63) - 1) * step, step


def from_storage(value: object, data_type: DataType) -> object:
    """Return the plain Python value of a storage value.

    Returns
    -------
    object
        bool, int, float, Decimal, str, bytes, date, time; datetime (with zone UTC for LTZ) for
        timestamps up to microseconds; numpy.datetime64 for nanosecond timestamps and for values
        outside the years 1 to 9999.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> from_storage(-1, parse_type("DECIMAL(10, 2)")), from_storage(19000, parse_type("DATE"))
    (Decimal('-0.01'), datetime.date(2022, 1, 8))
    """
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.DECIMAL:
            assert isinstance(value, int)
            return _decimal(value, data_type)
        case TypeRoot.DATE:
            assert isinstance(value, int)
            try:
                return _EPOCH_DATE + dt.timedelta(days=value)
            except OverflowError:
                return np.datetime64(value, "D")
        case TypeRoot.TIME:
            assert isinstance(value, int)
            return (_EPOCH + dt.timedelta(milliseconds=value)).time()
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            assert isinstance(value, int)
            return _datetime(value, data_type)
    return value


def _decimal(unscaled: int, data_type: DataType) -> decimal.Decimal:
    assert data_type.scale is not None, "DECIMAL has a scale"
    return decimal.Decimal(unscaled).scaleb(-data_type.scale, context=_EXACT)


def _datetime(nanos: int, data_type: DataType) -> object:
    unit = timestamp_unit(data_type)
    if unit != "ns":
        epoch = _EPOCH_UTC if data_type.root is TypeRoot.TIMESTAMP_LTZ else _EPOCH
        try:
            return epoch + dt.timedelta(microseconds=nanos // 1000)
        except OverflowError:
            pass  # a year outside the range of Python's datetime
    return np.datetime64(nanos // NANOS_PER_UNIT[unit], unit)


def arrow_to_storage(array: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[object]:
    """Return the storage values of a short column (statistics, partitions, literals).

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        Of the type ``to_arrow_type(data_type)`` or one that casts to it without loss.

    Returns
    -------
    list
        One value per row; costs about a microsecond each, so not for whole tables.
    """
    arrow_type = to_arrow_type(data_type)
    if array.type != arrow_type:
        array = array.cast(arrow_type)
    match data_type.root:
        case TypeRoot.DECIMAL:
            factor = decimal.Decimal(1).scaleb(data_type.scale or 0)
            return [
                None if v is None else int(_EXACT.multiply(v, factor)) for v in array.to_pylist()
            ]
        case TypeRoot.DATE | TypeRoot.TIME:
            numbers: list[object] = array.cast(pa.int32()).to_pylist()
            return numbers
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = NANOS_PER_UNIT[timestamp_unit(data_type)]
            return [None if v is None else v * nanos for v in array.cast(pa.int64()).to_pylist()]
    values: list[object] = array.to_pylist()
    return values


def storage_to_arrow(values: Sequence[object], data_type: DataType) -> pa.Array:
    """Return a short Arrow column of storage values.

    Raises
    ------
    InvalidInputError
        A value does not fit the type.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> storage_to_arrow([1234, None], parse_type("DECIMAL(10, 2)")).to_pylist()
    [Decimal('12.34'), None]
    """
    arrow_type = to_arrow_type(data_type)
    try:
        match data_type.root:
            case TypeRoot.DECIMAL:
                values = [
                    None if v is None else _decimal(v, data_type)  # type: ignore[arg-type]
                    for v in values
                ]
                return pa.array(values, arrow_type)
            case TypeRoot.DATE | TypeRoot.TIME:
                return pa.array(values, pa.int32()).cast(arrow_type)
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                nanos = NANOS_PER_UNIT[timestamp_unit(data_type)]
                units = [None if v is None else v // nanos for v in values]  # type: ignore[operator]
                return pa.array(units, pa.int64()).cast(arrow_type)
        return pa.array(values, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
        message = f"Values do not fit the type {data_type}: {error}."
        raise InvalidInputError(message, kind="value_type") from error


def parse_timestamp(text: str) -> tuple[int, bool] | None:
    """Parse ``2024-01-31[ 12:30[:15[.123456789]]][Z|+01:00]``.

    Returns
    -------
    (int, bool) or None
        Nanoseconds since the epoch (UTC if there is a zone), and whether there is a zone; None if
        the text is not a timestamp.

    Examples
    --------
    >>> parse_timestamp("1970-01-01 00:00:01.5+01:00")
    (-3598500000000, True)
    """
    match = _TIMESTAMP_TEXT.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = dt.datetime(  # noqa: DTZ001 - the zone is taken off below
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    nanos = (moment - _EPOCH) // dt.timedelta(seconds=1) * 1_000_000_000
    nanos += int((fraction or "0").ljust(9, "0"))
    if zone is None:
        return nanos, False
    if zone not in {"Z", "UTC"}:
        digits = zone[1:].replace(":", "")
        hours, minutes = int(digits[:2]), int(digits[2:])
        if hours > 18 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * 60_000_000_000
        nanos -= -offset if zone[0] == "-" else offset
    return nanos, True


def _wrong(value: object, data_type: DataType, reason: str) -> InvalidInputError:
    shown = repr(value)
    if len(shown) > 100:
        shown = shown[:97] + "..."
    message = f"{shown} {reason}: expected a value of type {data_type.as_nullable()}."
    return InvalidInputError(message, kind="value_type", type=str(data_type))


def _float(value: object, data_type: DataType) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating, decimal.Decimal)
    ):
        raise _wrong(value, data_type, "is of another type")
    try:
        return float(value)
    except OverflowError as error:
        raise _wrong(value, data_type, "is out of range") from error


def _float32(value: float, data_type: DataType) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError as error:
        raise _wrong(value, data_type, "is out of range") from error
    return rounded


def _encodable(text: str, data_type: DataType) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _wrong(text, data_type, "holds half a character (a lone surrogate)") from error
    return text


def _number(value: object, data_type: DataType) -> Fraction | float:
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        return Fraction(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isnan(number):
            raise _wrong(value, data_type, "is not a number")
        # the shortest text of a float is what its author wrote: 1.1, not 1.100000000000000088
        return number if math.isinf(number) else Fraction(repr(number))
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            raise _wrong(value, data_type, "is not a number")
        return float(value) if value.is_infinite() else Fraction(value)
    raise _wrong(value, data_type, "is of another type")


def _days(value: object, data_type: DataType) -> int:
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D":
        return int(value.astype(np.int64))
    if isinstance(value, str):
        try:
            value = dt.date.fromisoformat(value.strip())
        except ValueError as error:
            raise _wrong(value, data_type, "is not a date (YYYY-MM-DD)") from error
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return (value - _EPOCH_DATE).days
    raise _wrong(value, data_type, "is of another type")


def _time_ms(value: object, data_type: DataType) -> Fraction:
    if isinstance(value, str):
        try:
            value = dt.time.fromisoformat(value.strip())
        except ValueError as error:
            raise _wrong(value, data_type, "is not a time (HH:MM:SS)") from error
    if isinstance(value, dt.time) and value.tzinfo is None:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return Fraction(seconds * 1_000_000 + value.microsecond, 1000)
    raise _wrong(value, data_type, "is of another type")


def _nanos(value: object, data_type: DataType) -> int:
    wants_zone = data_type.root is TypeRoot.TIMESTAMP_LTZ
    if isinstance(value, np.datetime64) and not np.isnat(value):
        # numpy's times have no zone; those of a WITH LOCAL TIME ZONE column are UTC
        unit, count = np.datetime_data(value)
        factor = {"D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9}
        nanos = factor.get(unit) or NANOS_PER_UNIT.get(unit)
        if nanos is not None:
            return int(value.astype(np.int64)) * count * nanos
    if isinstance(value, str):
        parsed = parse_timestamp(value)
        if parsed is None:
            raise _wrong(value, data_type, "is not a timestamp (YYYY-MM-DD HH:MM:SS)")
        _check_zone(value, data_type, has_zone=parsed[1], wants_zone=wants_zone)
        return parsed[0]
    if isinstance(value, dt.datetime):
        has_zone = value.utcoffset() is not None
        _check_zone(value, data_type, has_zone=has_zone, wants_zone=wants_zone)
        return (value - (_EPOCH_UTC if has_zone else _EPOCH)) // dt.timedelta(microseconds=1) * 1000
    if isinstance(value, dt.date) and not wants_zone:
        return (value - _EPOCH_DATE).days * MS_PER_DAY * 1_000_000
    raise _wrong(value, data_type, "is of another type")


def _check_zone(value: object, data_type: DataType, *, has_zone: bool, wants_zone: bool) -> None:
    if wants_zone and not has_zone:
        raise _wrong(value, data_type, "has no time zone (add 'Z', '+01:00' or a tzinfo)")
    if has_zone and not wants_zone:
        raise _wrong(value, data_type, "has a time zone, but the column has none")
