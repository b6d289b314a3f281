"""Finds Python values that Arrow would change on their way into a column.

``pyarrow.array(values, type)`` makes 1 of 1.5, a day of a time, an instant of a number, infinity of
1e300, and reads a time without a zone as UTC. Some floats are changed before they come: from 2**53
on a float may stand for another integer. A table stores exactly what it is given or refuses it, so
such values are found first:

1. The classes of the values are collected; if Arrow changes none of them, all values pass.
2. Otherwise each value of such a class is tested, which takes about as long as Arrow's conversion.
3. Lists, maps and structs are tested inside; a struct would lose a dict's unknown key.

Variants are encoded and decoded here: any JSON-like object can be one
(:mod:`tidelake.types.variant.variant`).

Arrow itself refuses the rest (text for a number, a number out of range).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.types import DataType, TypeRoot
from tidelake.types.variant.variant import encode_variant

FLOAT32_LIMIT = float.fromhex("0x1.ffffffp127")
"""Half a step above the largest float32: larger numbers are rounded to infinity."""

FLOAT_BITS = 64
"""Of Python's own floats."""
_MANTISSA_BITS = {16: 11, 32: 24, 64: 53}

_NUMBERS = (Real, Decimal)


def exact_whole_max(bits: int) -> float:
    """The first whole number that a float of this width also stands for when another was meant.

    Examples
    --------
    >>> exact_whole_max(64) == 2**53, 2.0**53 + 1 == 2.0**53
    (True, True)
    """
    return 2.0 ** _MANTISSA_BITS[bits]


def changed_value(values: Sequence[object], arrow_type: pa.DataType) -> object | None:
    """Find the first value that a column of this type would change.

    Parameters
    ----------
    values : sequence
        Plain Python values, numpy scalars, None.

    Returns
    -------
    object or None
        None if the column keeps all; a None among the values is always kept.

    Examples
    --------
    >>> changed_value([1, 2.0, 2.5, None], pa.int64())
    2.5
    >>> changed_value([dt.datetime(2024, 3, 1)], pa.date32()) is None
    True
    """
    kinds = pa.types
    if kinds.is_nested(arrow_type):
        return _changed_inside(values, arrow_type)
    if kinds.is_integer(arrow_type):
        return _first(
            values, lambda c: issubclass(c, _NUMBERS) and not issubclass(c, Integral), _cut
        )
    if kinds.is_float32(arrow_type):
        return _first(values, lambda c: issubclass(c, float), _becomes_infinite)
    if kinds.is_date(arrow_type):
        return _first(values, lambda c: issubclass(c, (*_NUMBERS, dt.datetime)), _has_time)
    if kinds.is_time(arrow_type):
        asked = (*_NUMBERS, dt.time) if arrow_type.unit == "ms" else _NUMBERS
        return _first(values, lambda c: issubclass(c, asked), _has_microseconds)
    if kinds.is_timestamp(arrow_type):
        unit, wants_zone = arrow_type.unit, arrow_type.tz is not None
        return _first(
            values,
            lambda c: issubclass(c, (*_NUMBERS, dt.datetime)),
            lambda v: _zone_differs(v, wants_zone) or _is_finer(v, unit),
        )
    return None


def _changed_inside(values: Sequence[object], arrow_type: pa.DataType) -> object | None:
    given = [v for v in values if v is not None]
    text = next((v for v in given if isinstance(v, (str, bytes))), None)
    if text is not None:
        return text  # Arrow would read it as a list of its characters
    if pa.types.is_struct(arrow_type):
        names = {f.name for f in arrow_type}
        rows = [v for v in given if isinstance(v, Mapping)]
        lost = next((row for row in rows if not names.issuperset(row)), None)
        if lost is not None:
            return lost
        pairs = [([row.get(f.name) for row in rows], f.type) for f in arrow_type]
    elif pa.types.is_map(arrow_type):
        entries = [
            e for v in given for e in (v.items() if isinstance(v, Mapping) else _elements(v))
        ]
        entries = [e for e in entries if isinstance(e, tuple) and len(e) == 2]
        pairs = [
            ([key for key, _ in entries], arrow_type.key_type),
            ([value for _, value in entries], arrow_type.item_type),
        ]
    else:
        pairs = [([e for v in given for e in _elements(v)], arrow_type.value_type)]
    return next((c for own, t in pairs if (c := changed_value(own, t)) is not None), None)


def _elements(value: object) -> Iterable[Any]:
    """The elements of a list; Arrow itself refuses other values."""
    return value if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else ()


def stored_values(values: Sequence[object], data_type: DataType) -> Sequence[object]:
    """Encode the variants among and inside the values as Arrow stores them.

    Raises
    ------
    InvalidInputError
        An object cannot be a variant.
    """
    return [_stored(v, data_type) for v in values] if _has_variant(data_type) else values


def _has_variant(data_type: DataType) -> bool:
    is_one = data_type.root is TypeRoot.VARIANT
    return is_one or any(_has_variant(child) for child in data_type.children)


def _stored(value: Any, data_type: DataType) -> object:
    if value is None or not _has_variant(data_type):
        return value
    match data_type.root:
        case TypeRoot.VARIANT:
            if _is_encoded(value):
                return value
            encoded, metadata = encode_variant(value)
            return {"value": encoded, "metadata": metadata}
        case TypeRoot.ARRAY:
            return [_stored(v, data_type.children[0]) for v in value]
        case TypeRoot.MAP:
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(k, _stored(v, data_type.children[1])) for k, v in pairs]
    types = {
        name: t for (_, name), t in zip(data_type.child_fields, data_type.children, strict=True)
    }
    return {k: _stored(v, types[k]) if k in types else v for k, v in value.items()}


def _is_encoded(value: object) -> bool:
    """Whether a variant comes from a table; values of JSON have no bytes."""
    return (
        isinstance(value, Mapping)
        and value.keys() == {"value", "metadata"}
        and all(isinstance(part, bytes) for part in value.values())
    )


def _first(
    values: Sequence[object], may_change: Callable[[type], bool], changes: Callable[[object], bool]
) -> object | None:
    asked = {c for c in set(map(type, values)) if may_change(c)}
    if not asked:
        return None
    return next((v for v in values if type(v) in asked and v == v and changes(v)), None)


# each test sees only values of its classes; NaN, which stands for null, is not tested


def _cut(value: object) -> bool:
    # infinity is left to Arrow, which refuses it
    if not math.isfinite(value):  # type: ignore[arg-type]
        return False
    bits = value.dtype.itemsize * 8 if isinstance(value, np.floating) else FLOAT_BITS
    rounds = isinstance(value, (float, np.floating)) and abs(float(value)) >= exact_whole_max(bits)
    return rounds or value != int(value)  # type: ignore[call-overload]


def _becomes_infinite(value: object) -> bool:
    return FLOAT32_LIMIT <= abs(value) < math.inf  # type: ignore[arg-type]


def _has_time(value: object) -> bool:
    return not isinstance(value, dt.datetime) or value.time() != dt.time()


def _has_microseconds(value: object) -> bool:
    return not isinstance(value, (dt.datetime, dt.time)) or value.microsecond % 1000 != 0


def _is_finer(value: object, unit: str) -> bool:
    """Whether a datetime has digits below the unit; pandas' have nanoseconds."""
    if unit == "ns":
        return False
    below = getattr(value, "nanosecond", 0) != 0
    return below or (unit == "ms" and _has_microseconds(value))


def _zone_differs(value: object, wants_zone: bool) -> bool:  # noqa: FBT001 -- a pair, not a switch
    return not isinstance(value, dt.datetime) or (value.tzinfo is None) is wants_zone
