"""Casts to numbers and BOOLEAN, from numbers and BOOLEAN.

Java's rules hold. An integer that is too large keeps its low bits. A float beyond INT or BIGINT
becomes the nearest one, NaN becomes 0, and a cast to SMALLINT or TINYINT keeps the low bits of
that. A decimal is cut at the point, then keeps its low bits. A cast to DECIMAL rounds half away
from zero; a number that does not fit becomes null.

Source: Paimon's ``NumericPrimitiveCastRule``, ``DecimalUtils`` and their neighbours (1.3.1).
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.types.arrow import to_arrow_type
from tidelake.types.cast.float_text import float_text
from tidelake.types.cast.rules import FLOATS, INTEGERS
from tidelake.types.data_type import DataType, TypeRoot

COMPACT_PRECISION_MAX = 18
"""Decimals of at most so many digits are a long in Java, and become a double in another way."""
WIDE_DIGITS = 76
FLOAT_BITS = {TypeRoot.FLOAT: pa.int32(), TypeRoot.DOUBLE: pa.int64()}


def numpy_values(values: pa.Array) -> NDArray[Any]:
    """The values as a numpy array; 0 where they are null."""
    zero = pa.scalar(0, pa.int64()).cast(values.type)
    return values.fill_null(zero).to_numpy(zero_copy_only=False)


def from_numpy(numbers: NDArray[Any], values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """An Arrow array of numbers, null where `values` are."""
    mask = np.asarray(values.is_null()) if values.null_count else None
    return pa.array(numbers, arrow_type, mask=mask)


def by_distinct(
    values: pa.Array, convert: Callable[[Any], object], arrow_type: pa.DataType
) -> pa.Array:
    """Convert each distinct value once, in Python: about a microsecond for each of them."""
    encoded = values.dictionary_encode()
    converted = [None if v is None else convert(v) for v in encoded.dictionary.to_pylist()]
    return pa.array(converted, arrow_type).take(encoded.indices)


def number_cast(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Cast BOOLEAN or a number to a number or BOOLEAN.

    Parameters
    ----------
    source, target : DataType
        Requires: the cast is allowed.

    Returns
    -------
    pyarrow.Array
        Of the Arrow type of `target`.
    """
    if source.root is TypeRoot.BOOLEAN:
        values, source = values.cast(pa.int8()), DataType(TypeRoot.TINYINT)
    if target.root is TypeRoot.BOOLEAN:
        return pc.not_equal(values, pa.scalar(0, values.type))
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(values, source, target)
    if target.root in FLOATS:
        return _to_float(values, source, target)
    return _to_integer(values, source, target)


def _to_integer(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    arrow_type = to_arrow_type(target)
    if source.root is TypeRoot.DECIMAL:
        options = pc.CastOptions(pa.int64(), allow_int_overflow=True, allow_decimal_truncate=True)
        values = pc.cast(values, options=options)
    numbers = numpy_values(values)
    if source.root in FLOATS:
        numbers = _saturated(numbers, bits=64 if target.root is TypeRoot.BIGINT else 32)
    return from_numpy(numbers.astype(arrow_type.to_pandas_dtype()), values, arrow_type)


def _saturated(numbers: NDArray[Any], *, bits: int) -> NDArray[np.int64]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    wide = numbers.astype(np.float64)
    inside = (wide > float(low)) & (wide < float(high))
    whole = np.where(inside, wide, 0.0).astype(np.int64)
    return np.where(inside, whole, np.where(wide >= high, high, np.where(wide <= low, low, 0)))


def _to_float(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    arrow_type = to_arrow_type(target)
    is_decimal = source.root is TypeRoot.DECIMAL
    numbers = _doubles(values, source) if is_decimal else numpy_values(values)
    with np.errstate(over="ignore"):  # beyond FLOAT is infinite, in Java too
        return from_numpy(numbers.astype(arrow_type.to_pandas_dtype()), values, arrow_type)


def _doubles(values: pa.Array, source: DataType) -> NDArray[np.float64]:
    assert source.precision is not None
    assert source.scale is not None
    if source.precision > COMPACT_PRECISION_MAX:
        return numpy_values(values.cast(pa.string()).cast(pa.float64()))
    # a value of at most 18 digits fits the low 64 bits of its 128
    pairs = np.frombuffer(values.buffers()[1], dtype=np.int64)
    unscaled = pairs[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    return unscaled.astype(np.float64) / float(10**source.scale)


def _to_decimal(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.root in FLOATS:
        return _float_to_decimal(values, source, target)
    scale = 0 if source.root in INTEGERS else source.scale
    assert scale is not None
    assert target.precision is not None
    assert target.scale is not None
    wide = values.cast(pa.decimal256(WIDE_DIGITS, scale))
    if scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    whole_digits = target.precision - target.scale
    if whole_digits + 1 + scale <= WIDE_DIGITS:  # else the point precedes every digit
        limit = pa.scalar(decimal.Decimal(10) ** whole_digits, wide.type)
        wide = pc.if_else(pc.less(pc.abs(wide), limit), wide, pa.scalar(None, wide.type))
    return wide.cast(pa.decimal256(WIDE_DIGITS, target.scale)).cast(to_arrow_type(target))


def _float_to_decimal(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    # Java takes the printed digits of a double; for a FLOAT those of the double it widens to
    doubles = values.cast(pa.float64()) if source.root is TypeRoot.FLOAT else values

    def convert(bits: int) -> decimal.Decimal | None:
        number = float(np.int64(bits).view(np.float64))
        return decimal_of(float_text(number, digits=64), target)

    return by_distinct(doubles.view(pa.int64()), convert, to_arrow_type(target))


def decimal_of(text: str, target: DataType) -> decimal.Decimal | None:
    """A decimal rounded to the type, or None if it does not fit. Raises ``ValueError``."""
    assert target.precision is not None
    assert target.scale is not None
    number = decimal.Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    if number.adjusted() > target.precision:
        return None
    if number.adjusted() < -target.scale - 2:
        return decimal.Decimal(0)
    context = decimal.Context(prec=len(number.as_tuple().digits) + 2 * WIDE_DIGITS)
    step = decimal.Decimal(1).scaleb(-target.scale)
    rounded = number.quantize(step, rounding=decimal.ROUND_HALF_UP, context=context)
    return rounded if abs(rounded) < 10 ** (target.precision - target.scale) else None
