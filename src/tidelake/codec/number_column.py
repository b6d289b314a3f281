"""Converts columns with one number of up to 64 bits for each value to numpy and back.

A merge of such columns then needs neither Arrow's gather, which is slow with nulls, nor a position
for each result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import contiguous, fixed_values, valid_rows
from tidelake.codec.binary_row import is_wide_decimal
from tidelake.codec.key_order import FLOAT_DTYPES, INTEGER_DTYPES, float_ranks, floats_of_ranks
from tidelake.types.arrow import to_arrow_type
from tidelake.types.data_type import DataType, TypeRoot

Numbers = npt.NDArray[Any]
"""Integers or floats; unscaled values of decimals, units of timestamps."""
Mask = npt.NDArray[np.bool_]

_DTYPES: dict[TypeRoot, Any] = {
    root: dtype
    for root, dtype in {**INTEGER_DTYPES, **FLOAT_DTYPES}.items()
    if root is not TypeRoot.BOOLEAN
}


def has_numbers(data_type: DataType) -> bool:
    """Whether a column of the type converts to numbers."""
    return data_type.root in _DTYPES and not is_wide_decimal(data_type)


def numbers_at(
    column: pa.Array, data_type: DataType, positions: npt.NDArray[np.int64]
) -> tuple[Numbers, Mask | None]:
    """Give the numbers of some rows.

    Parameters
    ----------
    column : pyarrow.Array
        A column, of any Arrow type that casts to that of `data_type`.
    data_type : DataType
        Its type. Requires: :func:`has_numbers`.
    positions : int64 array [n]
        Row numbers, none negative.

    Returns
    -------
    numbers : array [n]
        Undefined under a null.
    known : bool array [n], optional
        Whether the value is not null; None if the column has no nulls.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> column = pa.array([5, None, 7], pa.int32())
    >>> numbers, known = numbers_at(column, parse_type("INT"), np.array([2, 1]))
    >>> int(numbers[0]), known.tolist()
    (7, [True, False])
    """
    own = contiguous(column, data_type)
    if data_type.root is TypeRoot.DECIMAL:  # the low 64 of 128 bits
        numbers = fixed_values(own, np.int64, per_row=2).take(2 * positions)
    else:
        numbers = fixed_values(own, _DTYPES[data_type.root]).take(positions)
    valid = valid_rows(own)
    return numbers, None if valid is None else valid.take(positions)


def number_array(numbers: Numbers, known: Mask | None, data_type: DataType) -> pa.Array:
    """Make a column of numbers.

    Parameters
    ----------
    numbers : array [n]
        As from :func:`numbers_at`. Requires: they fit the type.
    known : bool array [n], optional
        Whether the value is not null; None if no value is.
    data_type : DataType
        The type. Requires: :func:`has_numbers`.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> number_array(np.array([125]), None, parse_type("DECIMAL(5, 2)")).to_pylist()
    [Decimal('1.25')]
    """
    if data_type.root is TypeRoot.DECIMAL:
        halves = np.empty((len(numbers), 2), np.int64)
        halves[:, 0] = numbers
        halves[:, 1] = halves[:, 0] >> np.int64(63)
        memory = pa.py_buffer(halves)
    else:
        memory = pa.py_buffer(np.ascontiguousarray(numbers, _DTYPES[data_type.root]))
    valid = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(to_arrow_type(data_type), len(numbers), [valid, memory])


def ranks_of_numbers(numbers: Numbers, data_type: DataType) -> Numbers:
    """Map numbers to integers in the same order; floats in their total order, NaN largest."""
    return float_ranks(numbers) if data_type.root in FLOAT_DTYPES else numbers


def numbers_of_ranks(ranks: Numbers, data_type: DataType) -> Numbers:
    """Map the integers of :func:`ranks_of_numbers` back to numbers."""
    return floats_of_ranks(ranks) if data_type.root in FLOAT_DTYPES else ranks
