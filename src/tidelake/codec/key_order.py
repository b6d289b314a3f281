r"""Keys as numpy arrays that sort and compare as Paimon's comparators order rows.

1. Each column becomes big-endian bytes of a fixed width: integers, dates, times, timestamps and
   decimals with the sign bit flipped; floats in the order of ``Double.compare`` (-0.0 before 0.0,
   NaN last); strings and bytes padded with zeros to a common width and followed by their length,
   so that ``"a"`` comes before ``"a\0"``.
2. A nullable column has one byte in front: 0 for null, 1 for a value. Nulls are smallest.
3. The columns' bytes side by side are the key: up to 8 bytes as uint64, more as ``S{width}``. One
   NOT NULL integer-like column needs none of this: its int64 values are the key.

Keys compare between batches that were encoded with the same widths. numpy hides trailing zero bytes
of an ``S`` value, but compares, sorts and searches as if they were there.

Source: the comparators that Paimon 1.3.1 generates (``ComparatorCodeGenerator``); the golden
``tests/golden/key_order.txt`` holds samples. Cost: O(rows x width).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import (
    contiguous,
    fixed_values,
    longest_bytes,
    string_words,
    valid_rows,
)
from tidelake.codec.binary_row import is_wide_decimal
from tidelake.errors import UnsupportedError
from tidelake.types.data_type import DataType, TypeRoot

Bytes = npt.NDArray[np.uint8]

INTEGER_DTYPES: dict[TypeRoot, Any] = {
    TypeRoot.BOOLEAN: np.int8,
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
    TypeRoot.TIME: np.int32,
    TypeRoot.BIGINT: np.int64,
    TypeRoot.TIMESTAMP: np.int64,
    TypeRoot.TIMESTAMP_LTZ: np.int64,
    TypeRoot.DECIMAL: np.int64,
}
"""The numpy types of Arrow types with one integer; wide decimals are bytes instead."""
FLOAT_DTYPES: dict[TypeRoot, Any] = {TypeRoot.FLOAT: np.float32, TypeRoot.DOUBLE: np.float64}
_STRINGS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)


def key_widths(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> tuple[int, ...]:
    """Give the bytes that a batch's longest strings need.

    Returns
    -------
    tuple of int
        One per column: 0 for types of fixed width. The element-wise maximum over several batches
        serves them all.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> key_widths([pa.array(["a", "abc"]), pa.array([1, 2])],
    ...            [parse_type("STRING"), parse_type("BIGINT")])
    (3, 0)
    """
    widths = []
    for column, data_type in zip(columns, types, strict=True):
        longest = 0
        if data_type.root in _STRINGS and len(column):
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            longest = max((longest_bytes(contiguous(c, data_type)) for c in chunks), default=0)
        widths.append(longest)
    return tuple(widths)


def encode_keys(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    widths: Sequence[int],
) -> npt.NDArray[Any]:
    """Give one array whose order and equality are those of the rows of `columns`.

    Parameters
    ----------
    columns : sequence of pyarrow.Array or pyarrow.ChunkedArray [n]
        Most significant first. Nulls only where the type is nullable.
    widths : sequence of int
        At least what :func:`key_widths` gives for these columns.

    Returns
    -------
    array [n] of int64, uint64 or S{width}

    Raises
    ------
    UnsupportedError
        A column of a nested type or VARIANT, which has no order.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> encode_keys([pa.array([3, -1])], [parse_type("BIGINT NOT NULL")], (0,))
    array([ 3, -1])
    >>> encode_keys([pa.array(["b", "a"])], [parse_type("STRING NOT NULL")], (1,))
    array([25089, 24833], dtype=uint64)
    """
    assert columns, "a key has columns"
    assert len(columns) == len(types) == len(widths), "one type and one width per column"
    arrays = [contiguous(c, t) for c, t in zip(columns, types, strict=True)]
    for array, data_type in zip(arrays, types, strict=True):
        assert data_type.nullable or not array.null_count, f"nulls in a key column of {data_type}"
    if len(arrays) == 1 and not types[0].nullable and _is_integer_like(types[0]):
        return _integers(arrays[0], types[0]).astype(np.int64, copy=False)
    sizes = [_size_bytes(t, w) for t, w in zip(types, widths, strict=True)]
    total = sum(sizes)
    keys = np.zeros((len(arrays[0]), max(8, total)), np.uint8)
    at = keys.shape[1] - total
    for array, data_type, width, size in zip(arrays, types, widths, sizes, strict=True):
        _encode_column(keys[:, at : at + size], array, data_type, width)
        at += size
    if total <= 8:
        return keys.view(">u8").ravel().astype(np.uint64)
    return keys.view(f"S{total}").ravel()


def key_bytes(types: Sequence[DataType], widths: Sequence[int]) -> int:
    """Give the bytes of a key that :func:`encode_keys` makes.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> key_bytes([parse_type("STRING NOT NULL"), parse_type("INT NOT NULL")], (20, 0))
    25
    """
    return max(8, sum(_size_bytes(t, w) for t, w in zip(types, widths, strict=True)))


def _is_integer_like(data_type: DataType) -> bool:
    return data_type.root in INTEGER_DTYPES and not is_wide_decimal(data_type)


def _integers(array: pa.Array, data_type: DataType) -> npt.NDArray[Any]:
    if data_type.root is TypeRoot.DECIMAL:
        return fixed_values(array, np.int64, per_row=2)[::2]
    return fixed_values(array, INTEGER_DTYPES[data_type.root])


def _size_bytes(data_type: DataType, width: int) -> int:
    """Bytes of a column in the key, null mark included."""
    if data_type.root in _STRINGS:
        size = width + _length_size_bytes(width)
    elif data_type.root in FLOAT_DTYPES:
        size = np.dtype(FLOAT_DTYPES[data_type.root]).itemsize
    elif is_wide_decimal(data_type):
        size = 16
    elif data_type.root in INTEGER_DTYPES:
        size = np.dtype(INTEGER_DTYPES[data_type.root]).itemsize
    else:
        message = (
            f"A column of type {data_type} has no order, so it cannot be a key; use another column."
        )
        raise UnsupportedError(message, kind="key_type")
    return size + int(data_type.nullable)


def _length_size_bytes(width: int) -> int:
    return 1 if width < 1 << 8 else 2 if width < 1 << 16 else 4


def _encode_column(target: Bytes, array: pa.Array, data_type: DataType, width: int) -> None:
    """Fill a column's part of the keys; `target` is zero before, and stays so for nulls."""
    valid = valid_rows(array)
    if data_type.nullable:
        target[:, 0] = 1 if valid is None else valid
        target = target[:, 1:]
    if data_type.root in _STRINGS:
        _encode_strings(target, array, width)
        return
    if data_type.root in FLOAT_DTYPES:
        target[:] = _big_endian(
            _unsigned(float_ranks(fixed_values(array, FLOAT_DTYPES[data_type.root])))
        )
    elif is_wide_decimal(data_type):
        halves = fixed_values(array, np.uint64, per_row=2).reshape(-1, 2)
        target[:, :8] = _big_endian(halves[:, 1] ^ np.uint64(1 << 63))
        target[:, 8:] = _big_endian(halves[:, 0])
    else:
        target[:] = _big_endian(_unsigned(_integers(array, data_type)))
    if valid is not None:
        target[~valid] = 0


def _big_endian(values: npt.NDArray[Any]) -> Bytes:
    turned = values.byteswap()  # Arrow and numpy are little-endian here
    return np.ascontiguousarray(turned).view(np.uint8).reshape(-1, values.dtype.itemsize)


def _unsigned(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Signed integers as unsigned ones in the same order."""
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    return np.ascontiguousarray(values).view(unsigned) ^ sign


def float_ranks(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Give integers in the order of the floats; NaN, which has many bits, is one value.

    Examples
    --------
    >>> np.argsort(float_ranks(np.array([0.0, -0.0, float("nan"), -1.0]))).tolist()
    [3, 1, 0, 2]
    """
    unknown = np.isnan(values)
    if unknown.any():
        values = np.where(unknown, values.dtype.type(np.nan), values)
    return _flipped(values.view(f"i{values.dtype.itemsize}"))


def floats_of_ranks(ranks: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the floats of :func:`float_ranks`.

    Examples
    --------
    >>> floats_of_ranks(float_ranks(np.array([0.5, -2.0]))).tolist()
    [0.5, -2.0]
    """
    return _flipped(ranks).view(f"f{ranks.dtype.itemsize}")


def _flipped(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reverse the order of negative values: its own inverse."""
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max)


def _encode_strings(target: Bytes, array: pa.Array, width: int) -> None:
    """Fill in the bytes 8 at a time, zeros behind each string's end, then the length."""
    words, starts, lengths = string_words(array)
    count = len(lengths)
    if count == 0:
        return
    shortest, longest = int(lengths.min()), int(lengths.max())
    assert longest <= width, "keys wider than their width"
    one_stride = shortest == longest and int(starts[-1] - starts[0]) == shortest * (count - 1)
    for begin in range(0, longest, 8):
        size = min(8, width - begin)
        if one_stride:  # strings of one length lie at one stride: no gather
            first = words[begin + int(starts[0]) :]
            word = np.lib.stride_tricks.as_strided(first, (count,), (shortest,), writeable=False)
            word = word & _MASKS[min(8, shortest - begin)]
        elif shortest >= begin + 8:  # no string ends here
            word = words[starts + begin]
        else:
            ends = _MASKS[np.clip(lengths - begin, 0, 8)]
            word = words[np.minimum(starts + begin, len(words) - 1)] & ends
        if size == 8:
            target[:, begin : begin + 8].view(words.dtype)[:, 0] = word
        else:
            target[:, begin : begin + size] = _word_bytes(word)[:, :size]
    sizes = lengths.astype(np.uint32)
    target[:, width:] = _big_endian(sizes)[:, 4 - _length_size_bytes(width) :]


def _word_bytes(words: npt.NDArray[np.uint64]) -> Bytes:
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)
