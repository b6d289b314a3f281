"""Hive's hash of bucket keys, for whole columns at once (``bucket-function.type`` = hive).

The hash of a row is ``31 * (31 * h(a) + h(b)) + h(c)`` and so on, modulo 2^32; a null is 0. Of a
value it is

=====================================  ===========================================================
BOOLEAN, TINYINT, SMALLINT, INT        the number
DATE, TIME                             the number of days, of milliseconds
BIGINT                                 the two halves xor each other
FLOAT, DOUBLE                          the same of their bits; both zeros are 0, all NaN are one
CHAR, VARCHAR, BINARY, VARBINARY       31 * h + byte over the (signed) bytes of the value
DECIMAL                                Java's hash of the BigDecimal without trailing zeros
=====================================  ===========================================================

Other types have none in Paimon. The sum over a value's bytes needs no loop: 31 is odd, so it has an
inverse modulo 2^32, and ``sum(b[j] * 31^-j)`` over the whole column is one running sum. A value is
the difference of two of its elements times a power of 31.

Source: ``HiveBucketFunction`` and ``HiveHasher`` of Paimon 2.1-SNAPSHOT, which came after 1.3.1.
The golden ``tests/golden/bucket_hive.txt`` holds Java's results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import contiguous, fixed_values, valid_rows
from tidelake.types.data_type import DataType, TypeRoot

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]

_NUMBERS = {
    TypeRoot.BOOLEAN: np.uint8,
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
    TypeRoot.TIME: np.int32,
}
_BYTES = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_HASHED = (
    _BYTES
    | frozenset(_NUMBERS)
    | {
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    }
)
_FACTOR = np.uint32(31)
_INVERSE = np.uint32(pow(31, -1, 1 << 32))
_FLOAT_NAN, _DOUBLE_NAN = np.uint32(0x7FC00000), np.uint64(0x7FF8000000000000)
_SHIFT_32 = np.uint64(32)
_WORD = (1 << 32) - 1
BLOCK_BYTES = 1 << 20
"""Bytes of values whose powers and running sums are held at a time."""


def has_hive_hash(data_type: DataType) -> bool:
    """Whether a key column may have the type.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> has_hive_hash(parse_type("STRING")), has_hive_hash(parse_type("TIMESTAMP(3)"))
    (True, False)
    """
    return data_type.root in _HASHED


def hive_hashes(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> npt.NDArray[np.int32]:
    """Give the hash of each row of key columns.

    Requires: every type has one (:func:`has_hive_hash`); at least one column.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> hive_hashes([pa.array(["hello"])], [parse_type("STRING")]).tolist()
    [99162322]
    """
    hashes = np.zeros(len(columns[0]), np.uint32)
    for column, data_type in zip(columns, types, strict=True):
        array = contiguous(column, data_type)
        own = _column_hashes(array, data_type)
        valid = valid_rows(array)
        if valid is not None:
            own = np.where(valid, own, np.uint32(0))
        hashes = hashes * _FACTOR + own
    return hashes.view(np.int32)


def _column_hashes(array: pa.Array, data_type: DataType) -> U32:
    root = data_type.root
    if root in _NUMBERS:
        return fixed_values(array, _NUMBERS[root]).astype(np.int32).view(np.uint32)
    if root is TypeRoot.BIGINT:
        return _folded(fixed_values(array, np.uint64))
    if root is TypeRoot.FLOAT:
        single = fixed_values(array, np.float32)
        bits = np.where(single == 0, np.uint32(0), single.view(np.uint32))
        return np.where(np.isnan(single), _FLOAT_NAN, bits)
    if root is TypeRoot.DOUBLE:
        double = fixed_values(array, np.float64)
        wide = np.where(double == 0, np.uint64(0), double.view(np.uint64))
        return _folded(np.where(np.isnan(double), _DOUBLE_NAN, wide))
    if root is TypeRoot.DECIMAL:
        halves = fixed_values(array, np.uint64, per_row=2).reshape(-1, 2)
        return _decimal_hashes(halves[:, 0], halves[:, 1], data_type.scale or 0)
    assert root in _BYTES, f"no Hive hash for {data_type}"
    return _byte_hashes(array)


def _folded(values: npt.NDArray[np.uint64]) -> U32:
    return (values ^ (values >> _SHIFT_32)).astype(np.uint32)


def _byte_hashes(array: pa.Array) -> U32:
    wide = array.cast(pa.large_binary()) if len(array) else pa.array([], pa.large_binary())
    _, offset_buffer, data = wide.buffers()
    count = len(wide)
    if not count:
        return np.zeros(0, np.uint32)
    offsets = np.frombuffer(offset_buffer, np.int64)[wide.offset : wide.offset + count + 1]
    memory = np.frombuffer(data, np.int8) if data is not None else np.zeros(0, np.int8)
    hashes = np.empty(count, np.uint32)
    begin = 0
    while begin < count:  # a block of rows, of about BLOCK_BYTES
        limit = np.searchsorted(offsets, offsets[begin] + BLOCK_BYTES, side="right") - 1
        end = min(count, max(begin + 1, int(limit)))
        starts = offsets[begin : end + 1] - offsets[begin]
        block = memory[offsets[begin] : offsets[end]]
        hashes[begin:end] = _block_hashes(block, starts)
        begin = end
    return hashes


def _block_hashes(values: npt.NDArray[np.int8], offsets: I64) -> U32:
    """Hashes of ``values[offsets[i]:offsets[i + 1]]``."""
    size = len(values)
    down = np.full(size, _INVERSE, np.uint32)
    up = np.full(size + 1, _FACTOR, np.uint32)
    if size:
        down[0] = 1
    up[0] = 1
    np.multiply.accumulate(down, out=down)
    np.multiply.accumulate(up, out=up)
    sums = np.zeros(size + 1, np.uint32)
    np.add.accumulate(values.astype(np.int32).view(np.uint32) * down, out=sums[1:])
    lengths = np.diff(offsets)
    last = np.where(lengths > 0, offsets[1:] - 1, 0)
    return (sums[offsets[1:]] - sums[offsets[:-1]]) * up[last]


def _decimal_hashes(low: npt.NDArray[np.uint64], high: npt.NDArray[np.uint64], scale: int) -> U32:
    """Java's ``BigDecimal.hashCode``: ``31 * hash of the unscaled value + scale``."""
    signed = low.view(np.int64)
    small = (high.view(np.int64) == signed >> np.int64(63)) & (signed != np.int64(-(2**63)))
    unscaled = np.where(small, signed, np.int64(0))
    scales = np.where(unscaled == 0, 0, scale)
    for _ in range(scale):
        divisible = (scales > 0) & (unscaled % 10 == 0)
        if not divisible.any():
            break
        unscaled = np.where(divisible, unscaled // 10, unscaled)
        scales -= divisible
    sizes = np.abs(unscaled).view(np.uint64)
    words = (sizes >> _SHIFT_32).astype(np.uint32) * _FACTOR + sizes.astype(np.uint32)
    hashes = np.where(unscaled < 0, -words.view(np.int32), words.view(np.int32)).view(np.uint32)
    hashes = hashes * _FACTOR + scales.astype(np.uint32)
    # values beyond 64 bits are rare; a Python loop, 3 us each
    for row in np.flatnonzero(~small).tolist():
        value = (int(high.view(np.int64)[row]) << 64) | int(low[row])
        hashes[row] = _wide_hash(value, scale)
    return hashes


def _wide_hash(value: int, scale: int) -> int:
    while scale > 0 and value % 10 == 0:
        value, scale = value // 10, scale - 1
    size, words = abs(value), 0
    for shift in range((size.bit_length() - 1) // 32 * 32, -1, -32):
        words = (words * 31 + (size >> shift & _WORD)) & _WORD
    signed = -words if value < 0 else words
    return (signed * 31 + scale) & _WORD
