"""Python values that Arrow would change without a word on their way into a column.

``pyarrow.array(values, type)`` makes 1 of 1.5, a day of a time, an instant of a number, infinity of
1e300, and reads a time without a zone as UTC. A table takes what it is given or refuses it, so such
values are found first:

1. The classes of the values are collected; where none of them can be changed, all are kept.
2. Otherwise each value of such a class is asked, which takes about as long as Arrow's conversion.

What Arrow refuses itself (text for a number, a number out of range) is left to it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Integral, Real

import pyarrow as pa

__all__ = ["changed_value"]

FLOAT32_LIMIT = float.fromhex("0x1.ffffffp127")
"""Half a step above the largest float32: from here on a number is rounded to infinity."""

_NUMBERS = (Real, Decimal)


def changed_value(values: Sequence[object], arrow_type: pa.DataType) -> object | None:
    """Find the first value that a column of this type would hold as another value.

    Parameters
    ----------
    values : sequence
        Plain Python values, numpy scalars, None.
    arrow_type : pyarrow.DataType
        The column's type.

    Returns
    -------
    object or None
        None where all are kept; a None among the values always is.

    Examples
    --------
    >>> changed_value([1, 2.0, 2.5, None], pa.int64())
    2.5
    >>> changed_value([dt.datetime(2024, 3, 1)], pa.date32()) is None
    True
    """
    kinds = pa.types
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
        coarse, wants_zone = arrow_type.unit == "ms", arrow_type.tz is not None
        return _first(
            values,
            lambda c: issubclass(c, (*_NUMBERS, dt.datetime)),
            lambda v: _zone_differs(v, wants_zone) or (coarse and _has_microseconds(v)),
        )
    return None


def _first(
    values: Sequence[object], may_change: Callable[[type], bool], changes: Callable[[object], bool]
) -> object | None:
    asked = {c for c in set(map(type, values)) if may_change(c)}
    if not asked:
        return None
    return next((v for v in values if type(v) in asked and v == v and changes(v)), None)


# each is asked about values of its classes only; NaN, which stands for null, is not asked about


def _cut(value: object) -> bool:
    # infinity is left to Arrow, which refuses it
    return math.isfinite(value) and value != int(value)  # type: ignore[arg-type,call-overload]


def _becomes_infinite(value: object) -> bool:
    return FLOAT32_LIMIT <= abs(value) < math.inf  # type: ignore[arg-type]


def _has_time(value: object) -> bool:
    return not isinstance(value, dt.datetime) or value.time() != dt.time()


def _has_microseconds(value: object) -> bool:
    return not isinstance(value, (dt.datetime, dt.time)) or value.microsecond % 1000 != 0


def _zone_differs(value: object, wants_zone: bool) -> bool:  # noqa: FBT001 -- a pair, not a switch
    return not isinstance(value, dt.datetime) or (value.tzinfo is None) is wants_zone
