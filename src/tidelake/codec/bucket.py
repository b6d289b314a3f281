"""The bucket of a row: Java's Murmur hash of its bucket key, for whole columns at once.

1. The hash runs over the words (u32, little-endian) of the key's BinaryRow. Header and slots have
   the same position in every row, so each of their words is one array, mixed in one vector step.
2. The variable part differs from row to row: column by column, rows with remaining bytes are mixed
   8 bytes per step; finished rows drop out. A few very long values are finished one by one.
3. Rows go in blocks whose arrays stay in the processor's cache.

Cost: O(bytes of the key rows) in time, one block in memory, however long single values are.
Source of the bytes: :mod:`tidelake.codec.binary_row`; of the hash: ``MurmurHashUtils`` of Paimon
1.3.1; of the bucket: ``DefaultBucketFunction`` (remainder of the signed hash, sign dropped),
``ModBucketFunction`` (floor modulus) and ``HiveBucketFunction`` (:mod:`tidelake.codec.hive_hash`;
remainder of the hash without its sign bit). The golden ``tests/golden/bucket.txt`` holds Java's
results.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import Words, contiguous, fixed_values, string_words, valid_rows
from tidelake.codec.binary_row import (
    INLINE_BYTES_MAX,
    header_size_bytes,
    is_wide_decimal,
    is_wide_timestamp,
)
from tidelake.codec.hive_hash import has_hive_hash, hive_hashes
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.types.arrow import NANOS_PER_UNIT, timestamp_unit
from tidelake.types.data_type import DataType, TypeRoot

__all__ = ["buckets_of", "check_bucket_function", "hash_bytes", "hash_rows", "slot_hash"]

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

SEED = 42
_C1, _C2, _C3 = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35
_MASK = 0xFFFFFFFF
INT_MAX = np.int32(0x7FFFFFFF)
BLOCK_ROWS = 16_384
ROWS_FINISHED_SINGLY = 24
"""A vector step costs about as much as 24 rows in plain Python; fewer rows are cheaper there."""

_FIXED = {
    TypeRoot.BOOLEAN: (np.uint8, np.uint8),
    TypeRoot.TINYINT: (np.int8, np.uint8),
    TypeRoot.SMALLINT: (np.int16, np.uint16),
    TypeRoot.INT: (np.int32, np.uint32),
    TypeRoot.DATE: (np.int32, np.uint32),
    TypeRoot.TIME: (np.int32, np.uint32),
    TypeRoot.BIGINT: (np.int64, np.uint64),
    TypeRoot.FLOAT: (np.float32, np.uint32),
    TypeRoot.DOUBLE: (np.float64, np.uint64),
}
_STRINGS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_MOD_ROOTS = frozenset({TypeRoot.INT, TypeRoot.BIGINT})
_EIGHT = np.uint64(8)
_SHIFT_32 = np.uint64(32)


def buckets_of(
    columns: Sequence[pa.Array | pa.ChunkedArray],
    types: Sequence[DataType],
    buckets_count: int,
    *,
    function: str = "default",
) -> npt.NDArray[np.int32]:
    """Give the bucket of each row.

    Parameters
    ----------
    columns : sequence of pyarrow.Array or pyarrow.ChunkedArray [n]
        The bucket-key columns in the order of the ``bucket-key`` option.
    buckets_count : int
        Number of buckets, at least 1.
    function : str
        ``bucket-function.type``: ``default``, ``mod`` or ``hive``.

    Returns
    -------
    int32 array [n]

    Raises
    ------
    InvalidInputError
        The function does not take a key of these types.
    UnsupportedError
        Another function.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> buckets_of([pa.array([1, 0, -1], pa.int32())], [parse_type("INT")], 7).tolist()
    [5, 1, 6]
    """
    assert buckets_count > 0, "a fixed number of buckets"
    if function == "default":
        if buckets_count == 1:
            return np.zeros(len(columns[0]), np.int32)
        hashes = hash_rows(columns, types).astype(np.int64)
        return (np.abs(hashes) % buckets_count).astype(np.int32)
    check_bucket_function(function, types)
    if function == "hive":
        return (hive_hashes(columns, types) & INT_MAX) % np.int32(buckets_count)
    if function == "mod":
        array = contiguous(columns[0], types[0])
        values = fixed_values(array, _FIXED[types[0].root][0]).astype(np.int64)
        valid = valid_rows(array)
        if valid is not None:
            values = np.where(valid, values, 0)  # Java reads the slot of a null, which is zero
        return (values % buckets_count).astype(np.int32)
    message = (
        f"'bucket-function.type' = '{function}' is not covered by this version: use 'default',"
        " 'mod' or 'hive'."
    )
    raise UnsupportedError(message, kind="bucket_function")


def check_bucket_function(function: str, types: Sequence[DataType]) -> None:
    """Refuse a bucket key of types that a function does not support.

    Raises
    ------
    InvalidInputError
        The key has other types.
    """
    taken = ""
    if function == "mod" and (len(types) != 1 or types[0].root not in _MOD_ROOTS):
        taken = "one bucket-key column of type INT or BIGINT"
    elif function == "hive" and not all(map(has_hive_hash, types)):
        taken = "bucket-key columns of types that Hive hashes (no timestamps)"
    if taken:
        message = (
            f"'bucket-function.type' = '{function}' needs {taken}, not"
            f" ({', '.join(str(t) for t in types)}). Use 'default' or another bucket-key."
        )
        raise InvalidInputError(message, kind="bucket_function")


def hash_rows(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]
) -> npt.NDArray[np.int32]:
    """Give the hash of each row of key columns.

    Parameters
    ----------
    columns : sequence of pyarrow.Array or pyarrow.ChunkedArray [n]
        At least one column; nulls allowed.

    Returns
    -------
    int32 array [n]
        Equal to ``hash_bytes(encode_row(row, types))`` for each row.

    Raises
    ------
    UnsupportedError
        A column of a nested type or VARIANT.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> hash_rows([pa.array(["hello world"])], [parse_type("STRING")]).tolist()
    [161593394]
    """
    assert columns, "a hash needs a key"
    assert len(columns) == len(types), "one type per column"
    arrays = [contiguous(c, t) for c, t in zip(columns, types, strict=True)]
    rows_count = len(arrays[0])
    assert all(len(a) == rows_count for a in arrays), "columns of one length"
    hashes = np.empty(rows_count, np.uint32)
    for begin in range(0, rows_count, BLOCK_ROWS):
        block = [a.slice(begin, BLOCK_ROWS) for a in arrays]
        hashes[begin : begin + BLOCK_ROWS] = _hash_block(block, types)
    return hashes.view(np.int32)


def hash_bytes(row: bytes) -> int:
    """Give the hash of one raw row.

    Requires: a multiple of 4 bytes, as rows are.

    Examples
    --------
    >>> hash_bytes(bytes(8))
    -1670924195
    """
    state = _mix_bytes(SEED, row) ^ len(row)
    state ^= state >> 16
    state = state * _F1 & _MASK
    state ^= state >> 13
    state = state * _F2 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def slot_hash(slot: int) -> int:
    """Give :func:`hash_bytes` of a row with one slot and no null, in a third of the time.

    Parameters
    ----------
    slot : int
        The slot of 8 bytes as a number without a sign.

    Examples
    --------
    >>> slot_hash(7) == hash_bytes(bytes(8) + (7).to_bytes(8, "little"))
    True
    """
    word = (slot & _MASK) * _C1 & _MASK
    state = _HEADER_MIXED ^ ((word << 15 | word >> 17) * _C2 & _MASK)
    state = ((state << 13 | state >> 19) * 5 + _C3) & _MASK
    word = (slot >> 32) * _C1 & _MASK
    state ^= (word << 15 | word >> 17) * _C2 & _MASK
    state = (((state << 13 | state >> 19) * 5 + _C3) & _MASK) ^ 16
    state = (state ^ state >> 16) * _F1 & _MASK
    state = (state ^ state >> 13) * _F2 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _mix_bytes(state: int, raw: bytes) -> int:
    for (word,) in struct.iter_unpack("<I", raw):
        word = word * _C1 & _MASK
        word = (word << 15 | word >> 17) * _C2 & _MASK
        state ^= word
        state = ((state << 13 | state >> 19) * 5 + _C3) & _MASK
    return state


_HEADER_MIXED = _mix_bytes(SEED, bytes(8))
"""After the header of a row without nulls."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column of a block as its rows hold it.

    Parameters
    ----------
    slots : uint64 array [n]
        The 8-byte slots.
    high_zero : bool
        Whether the upper words of all slots are zero.
    tail : sequence of uint64 arrays [n]
        Variable part of the same size in every row.
    words : Words, optional
        Variable part of different sizes: memory, starts, lengths (0 where inline).
    """

    slots: U64
    high_zero: bool = False
    tail: tuple[U64, ...] = ()
    words: Words | None = None


def _hash_block(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> U32:
    rows_count = len(arrays[0])
    header_bytes = header_size_bytes(len(types))
    sizes = np.full(rows_count, header_bytes + 8 * len(types), np.int64)
    header: list[U64 | None] = [None] * (header_bytes // 8)
    cells = []
    for i, (array, data_type) in enumerate(zip(arrays, types, strict=True)):
        valid = valid_rows(array)
        if valid is not None:
            place, bit = divmod(i + 8, 64)
            bits = (~valid).astype(np.uint64) << np.uint64(bit)
            before = header[place]
            header[place] = bits if before is None else before | bits
        cells.append(_cells(array, data_type, valid, sizes))
    state = np.full(rows_count, SEED, np.uint32)
    for word in header:
        _mix_slot(state, word, high_zero=False)
    for column in cells:
        _mix_slot(state, column.slots, high_zero=column.high_zero)
    for column in cells:
        for word in column.tail:
            _mix_slot(state, word, high_zero=False)
        if column.words is not None:
            _mix_strings(state, *column.words)
    return _finish(state, sizes)


def _cells(
    array: pa.Array,
    data_type: DataType,
    valid: npt.NDArray[np.bool_] | None,
    sizes: npt.NDArray[np.int64],
) -> _Cells:
    """Lay a column out; `sizes` are the rows' bytes so far and grow by the variable part."""
    root = data_type.root
    if root in _FIXED:
        dtype, unsigned = _FIXED[root]
        values = fixed_values(array, dtype).view(unsigned).astype(np.uint64)
        return _Cells(_nulls_zero(values, valid), high_zero=np.dtype(unsigned).itemsize < 8)
    if root in _STRINGS:
        return _string_cells(array, valid, sizes)
    if root is TypeRoot.DECIMAL:
        halves = fixed_values(array, np.uint64, per_row=2).reshape(-1, 2)
        low, high = (_nulls_zero(halves[:, i], valid) for i in (0, 1))
        if is_wide_decimal(data_type):
            return _decimal_cells(low, high, valid, sizes)
        return _Cells(low)
    if root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        values = fixed_values(array, np.int64)
        if valid is not None:
            values = np.where(valid, values, 0)
        if not is_wide_timestamp(data_type):
            return _Cells(values.view(np.uint64))
        nanos_per_unit = NANOS_PER_UNIT[timestamp_unit(data_type)]
        ms, rest = np.divmod(values, 1_000_000 // nanos_per_unit)
        slots = _references(sizes, (rest * nanos_per_unit).view(np.uint64))
        sizes += 8
        return _Cells(slots, tail=(ms.view(np.uint64),))
    message = f"A column of type {data_type}, nested or a variant, cannot decide a row's bucket."
    raise UnsupportedError(message, kind="column_type")


def _nulls_zero(values: U64, valid: npt.NDArray[np.bool_] | None) -> U64:
    return values if valid is None else np.where(valid, values, np.uint64(0))


def _references(offsets: npt.NDArray[np.int64], low: U64) -> U64:
    return (offsets.view(np.uint64) << _SHIFT_32) | low


def _string_cells(
    array: pa.Array, valid: npt.NDArray[np.bool_] | None, sizes: npt.NDArray[np.int64]
) -> _Cells:
    words, starts, lengths = string_words(array)
    inline = lengths <= INLINE_BYTES_MAX
    sizes_u64 = lengths.view(np.uint64)
    if inline.any():
        bits = np.where(inline, sizes_u64, np.uint64(0)) * _EIGHT
        mask = (np.uint64(1) << bits) - np.uint64(1)
        slots = (words[starts] & mask) | ((sizes_u64 | np.uint64(0x80)) << np.uint64(56))
        if inline.all():
            return _Cells(_nulls_zero(slots, valid))
        slots = np.where(inline, slots, _references(sizes, sizes_u64))
        lengths = np.where(inline, 0, lengths)
    else:
        slots = _references(sizes, sizes_u64)
    sizes += (lengths + 7) // 8 * 8
    return _Cells(_nulls_zero(slots, valid), words=(words, starts, lengths))


_LOW_LIMITS = np.array([1 << (8 * k - 1) for k in range(1, 9)], np.uint64)
_HIGH_LIMITS = _LOW_LIMITS[:7]


def _decimal_cells(
    low: U64, high: U64, valid: npt.NDArray[np.bool_] | None, sizes: npt.NDArray[np.int64]
) -> _Cells:
    """DECIMAL in 16 bytes: the shortest two's complement, big-endian, left-aligned."""
    sign = (high.view(np.int64) >> np.int64(63)).view(np.uint64)
    low_bits, high_bits = low ^ sign, high ^ sign  # bits that a shorter form must keep
    lengths = np.where(
        high_bits == 0,
        1 + np.searchsorted(_LOW_LIMITS, low_bits, side="right"),
        9 + np.searchsorted(_HIGH_LIMITS, high_bits, side="right"),
    ).astype(np.uint64)
    short = lengths <= _EIGHT
    shift = np.where(short, _EIGHT - lengths, np.uint64(16) - lengths) * _EIGHT  # 0 to 56
    carried = (low >> np.uint64(1)) >> (np.uint64(63) - shift)
    first = np.where(short, low << shift, (high << shift) | carried)
    second = np.where(short, np.uint64(0), low << shift)
    slots = _references(sizes, _nulls_zero(lengths, valid))
    sizes += 16
    return _Cells(slots, tail=(first.byteswap(), second.byteswap()))


def _mix_slot(state: U32, slot: U64 | None, *, high_zero: bool) -> None:
    """Mix 8 bytes into each row's state, in place; None stands for zeros."""
    if slot is None:
        _mix(state, None)
        _mix(state, None)
        return
    _mix(state, slot.astype(np.uint32))
    _mix(state, None if high_zero else (slot >> _SHIFT_32).astype(np.uint32))


def _mix(state: U32, word: U32 | None) -> None:
    """Mix one word per row into the states; both arrays are overwritten."""
    if word is not None:  # mixing a zero word changes nothing before the rotation
        word *= np.uint32(_C1)
        upper = word << np.uint32(15)
        word >>= np.uint32(17)
        word |= upper
        word *= np.uint32(_C2)
        state ^= word
    upper = state << np.uint32(13)
    state >>= np.uint32(19)
    state |= upper
    state *= np.uint32(5)
    state += np.uint32(_C3)


def _mix_strings(
    states: U32, words: U64, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> None:
    """Mix the rows' values, padded with zeros to 8 bytes, into their states."""
    rows = np.flatnonzero(lengths)
    state, at, left = states[rows], starts[rows], lengths[rows]
    while len(rows) > ROWS_FINISHED_SINGLY or (len(rows) and int(left.max()) <= 64):
        slot = words[at]
        last = left <= 8
        ends = bool(last.any())
        if ends:
            bits = np.minimum(left, 8).view(np.uint64) * _EIGHT
            slot &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - bits)
        _mix_slot(state, slot, high_zero=False)
        if ends:
            states[rows[last]] = state[last]
            more = ~last
            rows, state, at, left = rows[more], state[more], at[more], left[more]
        at += 8
        left -= 8
    memory = words.base
    assert isinstance(memory, np.ndarray), "words are a view of bytes"
    rest = zip(rows.tolist(), state.tolist(), at.tolist(), left.tolist(), strict=True)
    for row, value, begin, size in rest:
        # at most 24 rows of a block come here, so their number does not grow with the rows
        raw = memory[begin : begin + size].tobytes()
        states[row] = _mix_bytes(value, raw + bytes(-size % 8))


def _finish(state: U32, sizes: npt.NDArray[np.int64]) -> U32:
    state ^= sizes.astype(np.uint32)
    state ^= state >> np.uint32(16)
    state *= np.uint32(_F1)
    state ^= state >> np.uint32(13)
    state *= np.uint32(_F2)
    state ^= state >> np.uint32(16)
    return state
