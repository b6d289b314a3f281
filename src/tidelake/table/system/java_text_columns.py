"""Rows of metadata as texts, printed as :mod:`tidelake.types.java_text` does, many at once.

1. Each field of all rows is read as one column (:mod:`tidelake.codec.binary_row_column`) and
   printed by a few Arrow and NumPy calls per type.
2. Fractions that Java prints with an exponent, and other values that only the scalar rules cover,
   are printed once for each distinct one.
3. A row that is damaged, or has a type that is only read row by row, goes through
   :func:`tidelake.codec.binary_row.decode_row`, which reports what is wrong with it.

Cost: under 1 us for a value; one by one it is 5 to 20 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.codec.binary_row_column import FieldColumn, field_column
from tidelake.types import DataType, TypeRoot
from tidelake.types.java_text import NS_PER_S, PLAIN_FROM, SCIENTIFIC_FROM, java_text

NULL = "null"
"""Java's text of null."""

_INTEGERS = frozenset(
    {TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT}
    | {TypeRoot.DATE, TypeRoot.TIME}
)
_TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_NUMPY_SCIENTIFIC_FROM = 1e6
"""From here on NumPy 2.4 prints a single float with an exponent; Java does so from 1e7 on."""


def row_texts(rows: pa.Array, types: Sequence[DataType]) -> list[pa.Array]:
    """Print the fields of serialized rows.

    Parameters
    ----------
    rows : BinaryArray
        Serialized BinaryRows, none null.

    Returns
    -------
    list of StringArray
        One per field; ``null`` for a null.

    Raises
    ------
    CorruptError
        A row does not have these types.
    UnsupportedError
        A row holds a value of a nested type.

    Examples
    --------
    >>> from tidelake.codec.binary_row import serialize_row
    >>> from tidelake.types import parse_type
    >>> types = [parse_type("INT"), parse_type("DECIMAL(5, 2)")]
    >>> rows = pa.array([serialize_row(r, types) for r in [(1, 250), (None, -5)]], pa.binary())
    >>> [texts.to_pylist() for texts in row_texts(rows, types)]
    [['1', 'null'], ['2.50', '-0.05']]
    """
    columns = [
        field_column(rows, i, fields_count=len(types), data_type=data_type)
        for i, data_type in enumerate(types)
    ]
    texts = [
        None if column is None else _texts(column, data_type)
        for column, data_type in zip(columns, types, strict=True)
    ]
    one_by_one = np.zeros(len(rows), dtype=bool)
    for column, printed in zip(columns, texts, strict=True):
        one_by_one |= True if column is None or printed is None else ~column.sound
    if not one_by_one.any() and all(printed is not None for printed in texts):
        return texts
    rows_left = np.flatnonzero(one_by_one)
    found = [decode_row(rows[i].as_py(), types) for i in rows_left.tolist()]
    out: list[pa.Array] = []
    for i, (printed, data_type) in enumerate(zip(texts, types, strict=True)):
        slow = pa.array([java_text(row[i], data_type) for row in found], pa.string())
        if printed is None or len(rows_left) == len(rows):
            out.append(slow)
        else:
            out.append(pc.replace_with_mask(printed, pa.array(one_by_one), slow))
    return out


def concat_texts(*parts: pa.Array | str) -> pa.Array:
    """Join texts row by row.

    Examples
    --------
    >>> concat_texts("[", pa.array(["a", "b"]), "]").to_pylist()
    ['[a]', '[b]']
    """
    return pc.binary_join_element_wise(*parts, "")


def _texts(column: FieldColumn, data_type: DataType) -> pa.Array | None:
    """The texts of a column; None if it must be read row by row."""
    root, known = data_type.root, column.known
    values: Any = column.values
    if root in _TEXTS:
        try:
            printed = values.cast(pa.string())
        except pa.ArrowInvalid:  # a text that is not UTF-8
            return None
    elif root in _INTEGERS:
        printed = pa.array(values).cast(pa.string())
    elif root is TypeRoot.BOOLEAN:
        printed = pc.if_else(pa.array(values != 0), "true", "false")
    elif root is TypeRoot.DECIMAL:
        printed = _decimal_texts(values, data_type.scale or 0)
    elif root in _TIMESTAMPS:
        printed = _time_texts(np.where(known, values, 0))
    elif root in _FLOATS:
        printed = _float_texts(np.where(known, values, 0.0), data_type)
    else:
        printed = _distinct_texts(values, data_type)
    return printed if known.all() else pc.if_else(pa.array(known), printed, NULL)


def _decimal_texts(unscaled: NDArray[np.int64], scale: int) -> pa.Array:
    sign = pc.if_else(pa.array(unscaled < 0), "-", "")
    digits = pa.array(np.abs(unscaled)).cast(pa.string())
    if not scale:
        return concat_texts(sign, digits)
    digits = pc.utf8_lpad(digits, scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    return concat_texts(sign, whole, ".", pc.utf8_slice_codeunits(digits, -scale))


def _time_texts(nanos: NDArray[np.int64]) -> pa.Array:
    """As ``LocalDateTime``: no seconds if they are zero, and of the fraction 3, 6 or 9 digits."""
    seconds, fraction = np.divmod(nanos, NS_PER_S)
    whole = pa.array(np.datetime_as_string(seconds.astype("datetime64[s]")), pa.string())
    short = pc.replace_substring_regex(whole, ":00$", "")
    printed = pc.if_else(pa.array(fraction == 0), short, whole)
    rest = fraction != 0
    for width, step in ((3, 10**6), (6, 10**3), (9, 1)):
        mask = rest & (fraction % step == 0)
        if mask.any():
            digits = pc.utf8_lpad(pa.array(fraction // step).cast(pa.string()), width, "0")
            printed = pc.if_else(pa.array(mask), concat_texts(printed, ".", digits), printed)
            rest &= ~mask
    return printed


def _float_texts(values: NDArray[np.float64], data_type: DataType) -> pa.Array:
    size = np.abs(values)
    is_single = data_type.root is TypeRoot.FLOAT
    plain = (size >= PLAIN_FROM) & (
        size < (_NUMPY_SCIENTIFIC_FROM if is_single else SCIENTIFIC_FROM)
    )
    own = values.astype(np.float32) if is_single else values
    # the fewest digits that distinguish the value from its neighbours, as in Java
    printed = pa.array(np.where(plain, own, own.dtype.type(1)).astype("U32"), pa.string())
    if plain.all():
        return printed
    return pc.replace_with_mask(
        printed, pa.array(~plain), _distinct_texts(values[~plain], data_type)
    )


def _distinct_texts(values: NDArray[np.float64] | pa.Array, data_type: DataType) -> pa.Array:
    """Texts by the scalar rules, each distinct value once."""
    if isinstance(values, np.ndarray):
        # by their bits: -0.0 and NaN are distinct values
        bits, inverse = np.unique(values.view(np.int64), return_inverse=True)
        distinct = bits.view(np.float64).tolist()
        indices = pa.array(inverse)
    else:
        encoded = values.dictionary_encode()
        distinct, indices = encoded.dictionary.to_pylist(), encoded.indices
    return pa.array([java_text(v, data_type) for v in distinct], pa.string()).take(indices)
