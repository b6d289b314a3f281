"""The memory of Arrow columns as numpy arrays: values, validity, string bytes.

All functions take slices (offset not 0) and give arrays of exactly the slice's rows. Values under
a null are undefined, as in Arrow; callers mask them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.telemetry import invariants_on
from tidelake.types.arrow import to_arrow_type
from tidelake.types.data_type import DataType

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_TAKE_ROWS_MIN = 1024  # below, checking the lengths costs more than it saves
_OFFSET_MAX = 2**31 - 1
_MEMORY = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.complex128}
"""The numpy type that moves values of a width in bits; numpy has no single bits."""

Words = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def contiguous(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> pa.Array:
    """Give a column as one Arrow array of its type's own Arrow type (or the large form of it).

    Parameters
    ----------
    column : pyarrow.Array or pyarrow.ChunkedArray
        Dictionaries, views and other units are cast without loss; chunks are joined.
    """
    arrow_type = to_arrow_type(data_type)
    large_type = _LARGE.get(arrow_type, arrow_type)
    if column.type not in {arrow_type, large_type}:
        column = column.cast(large_type)
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        # 32-bit offsets end at 2 GiB of text, which several chunks may exceed together
        column = column.cast(large_type)
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], large_type)
    return column


def joined(chunks: Sequence[pa.Array]) -> pa.Array:
    """Return chunks as one array; chunks that are adjacent in memory are not copied.

    So a large batch that was cut into parts on its way is joined for free.

    Parameters
    ----------
    chunks : sequence of pyarrow.Array
        At least one, of one type.

    Examples
    --------
    >>> whole = pa.array([1, 2, 3, 4])
    >>> joined([whole.slice(0, 1), whole.slice(1, 3)]).to_pylist()
    [1, 2, 3, 4]
    """
    first = chunks[0]
    if len(chunks) == 1:
        return first
    if first.type.num_fields or pa.types.is_dictionary(first.type):
        return pa.concat_arrays(chunks)
    memory = _addresses(first)
    at = first.offset
    for chunk in chunks:
        if chunk.offset != at or _addresses(chunk) != memory:
            return pa.concat_arrays(chunks)
        at += len(chunk)
    count = at - first.offset
    return pa.Array.from_buffers(first.type, count, first.buffers(), offset=first.offset)


def _addresses(array: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


def valid_rows(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which rows are not null; None if all are valid.

    Examples
    --------
    >>> valid_rows(pa.array([1, None, 3]).slice(1)).tolist()
    [False, True]
    """
    if not array.null_count:
        return None
    memory = array.buffers()[0]
    # the type null has no bits; a dictionary may hold its nulls among its values
    if memory is None or pa.types.is_dictionary(array.type):
        valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
        return valid
    # a fifth of the time of Arrow's own way, which copies the bits before unpacking
    return _unpacked(memory, array.offset, len(array)).view(np.bool_)


def _unpacked(memory: pa.Buffer, offset: int, count: int) -> npt.NDArray[np.uint8]:
    """Give bits as bytes of 0 and 1 [count]."""
    first_byte = offset // 8
    bits = np.frombuffer(memory, np.uint8)[first_byte : (offset + count + 7) // 8]
    begin = offset - 8 * first_byte
    return np.unpackbits(bits, bitorder="little")[begin : begin + count]


def fixed_values(array: pa.Array, dtype: npt.DTypeLike, *, per_row: int = 1) -> npt.NDArray[Any]:
    """Give the values of a fixed-width column without a copy (booleans are unpacked).

    Parameters
    ----------
    array : pyarrow.Array [n]
        The column.
    per_row : int
        Items of `dtype` per row.

    Returns
    -------
    array [n * per_row]

    Examples
    --------
    >>> fixed_values(pa.array([7, 8, 9], pa.int32()).slice(1), np.int32).tolist()
    [8, 9]
    """
    dtype = np.dtype(dtype)
    memory = array.buffers()[1]
    if len(array) == 0 or memory is None:
        return np.zeros(len(array) * per_row, dtype)
    if pa.types.is_boolean(array.type):
        return _unpacked(memory, array.offset, len(array)).astype(dtype, copy=False)
    offset = array.offset * per_row * dtype.itemsize
    return np.frombuffer(memory, dtype, count=len(array) * per_row, offset=offset)


def string_words(array: pa.Array) -> Words:
    """Give a string or binary column as memory that may be read 8 bytes at a time anywhere.

    Returns
    -------
    words : uint64 array
        ``words[i]`` is the 8 bytes from byte i on, little-endian; zero bytes follow the last value.
    starts : int64 array [n]
        Where each value begins.
    lengths : int64 array [n]
        Its bytes; 0 under a null.

    Notes
    -----
    Copies the slice's bytes once: 8 bytes after the last value must be readable, which foreign
    buffers do not guarantee.
    """
    offsets = _offsets(array).astype(np.int64)
    bytes_memory = array.buffers()[2]
    begin, end = int(offsets[0]), int(offsets[-1])
    memory = np.zeros(end - begin + 16, np.uint8)
    if end > begin:
        memory[: end - begin] = np.frombuffer(bytes_memory, np.uint8)[begin:end]
    words: npt.NDArray[np.uint64] = np.ndarray(
        (end - begin + 9,), dtype="<u8", buffer=memory, strides=(1,)
    )
    starts = offsets[:-1] - begin
    lengths = np.diff(offsets)
    valid = valid_rows(array)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    return words, starts, lengths


def longest_bytes(array: pa.Array) -> int:
    """Give the bytes of the longest value of a string or binary column.

    Examples
    --------
    >>> longest_bytes(pa.array(["a", None, "é€"]))
    5
    """
    lengths = np.diff(_offsets(array))
    if len(lengths) == 0:
        return 0
    valid = valid_rows(array)
    return int(lengths.max() if valid is None else np.where(valid, lengths, 0).max())


def take_rows(
    array: pa.Array,
    positions: npt.NDArray[np.int64],
    *,
    near: bool = False,
    or_null: bool = False,
) -> pa.Array:
    """Return the rows at these positions.

    Values of fixed width are taken as if none were null, and validity is taken separately: Arrow's
    gather of numbers with nulls costs two to three times as much. Text of one length (hashes,
    UUIDs, codes, dates) is taken as fixed-width memory, without the offsets: for scattered rows a
    third of the cost of Arrow's own gather.

    Requires: each position is within the column, or negative if `or_null` allows it; this is not
    checked below.

    Parameters
    ----------
    positions : int64 array [n]
        Row numbers.
    near : bool
        Whether rows are read in the order of a few sorted runs. Then the next row is usually in
        the cache, and Arrow's own gather of text is cheaper.
    or_null : bool
        Whether positions may be negative; these give null.

    Examples
    --------
    >>> take_rows(pa.array(["a", "b", "c"]), np.array([2, 0])).to_pylist()
    ['c', 'a']
    >>> take_rows(pa.array([7, None, 9]), np.array([2, -1, 1]), or_null=True).to_pylist()
    [9, None, None]
    """
    if invariants_on():
        is_inside = (positions < len(array)) & ((positions >= 0) | or_null)
        assert bool(is_inside.all()), "rows outside the column"
    none = positions < 0 if or_null and int(positions.min(initial=0)) < 0 else None
    if none is None and not array.null_count:
        return _values_taken(array, positions, near=near)
    if len(array) and _has_fixed_width(array.type):
        return _fixed_taken(array, positions, none)
    if none is not None:
        valid = valid_rows(array)
        if valid is None:
            return array.take(pa.array(positions, mask=none))
        # a null position costs Arrow twice as much as the position of a null value
        positions = np.where(none, np.argmin(valid), positions)
    return pc.take(array, pa.array(positions), boundscheck=False)


def rows_replaced(
    array: pa.Array,
    positions: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    values: pa.Array,
) -> pa.Array:
    """Return the rows at these positions, with other values at some positions.

    Parameters
    ----------
    positions : int64 array [n]
        Row numbers within the column.
    at : int64 array [m]
        Positions in the result, each once.
    values : pyarrow.Array [m]
        Their values, of the column's type.

    Examples
    --------
    >>> own = pa.array([9])
    >>> rows_replaced(pa.array([5, 6]), np.array([1, 0, 1]), np.array([1]), own).to_pylist()
    [6, 9, 6]
    """
    assert values.type == array.type, f"{values.type} among {array.type}"
    is_bits = pa.types.is_boolean(array.type)
    dtype = _MEMORY.get(array.type.bit_width) if _has_fixed_width(array.type) else None
    if (dtype is None and not is_bits) or not len(positions):
        index = positions.copy()
        index[at] = len(array) + np.arange(len(values))
        return take_rows(pa.concat_arrays([array, values]), index, near=True)
    if dtype is None:
        bits = fixed_values(array, np.uint8).take(positions)
        bits[at] = fixed_values(values, np.uint8)
        memory = pa.py_buffer(np.packbits(bits, bitorder="little"))
    else:
        memory = _bare_taken(array, positions).buffers()[1]
        np.frombuffer(memory, dtype)[at] = fixed_values(values, dtype)  # no other object holds it
    validity = None
    valid, own = valid_rows(array), valid_rows(values)
    if valid is not None or own is not None:
        known = np.ones(len(positions), np.bool_) if valid is None else valid.take(positions)
        known[at] = True if own is None else own
        validity = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(positions), [validity, memory])


def _has_fixed_width(arrow_type: pa.DataType) -> bool:
    """Whether all values of a column have the same number of bits."""
    return (
        pa.types.is_primitive(arrow_type)
        or pa.types.is_decimal(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
    )


def _fixed_taken(
    array: pa.Array, positions: npt.NDArray[np.int64], none: npt.NDArray[np.bool_] | None
) -> pa.Array:
    """Take values and validity separately; null if `none` says so, whatever the position."""
    valid = valid_rows(array)
    known = np.ones(len(positions), np.bool_) if valid is None else valid.take(positions)
    if none is not None:
        positions = np.where(none, 0, positions)
        known &= ~none
    taken = _bare_taken(array, positions)
    memory = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(taken.type, len(taken), [memory, *taken.buffers()[1:]])


def _bare_taken(array: pa.Array, positions: npt.NDArray[np.int64]) -> pa.Array:
    """Take values of fixed width as if none were null."""
    buffers = [None, *array.buffers()[1:]]
    bare = pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)
    return pc.take(bare, pa.array(positions), boundscheck=False)


def _values_taken(array: pa.Array, positions: npt.NDArray[np.int64], *, near: bool) -> pa.Array:
    """Take rows of a column without nulls."""
    width = None if near else _uniform_width(array, len(positions))
    if width is None:
        return pc.take(array, pa.array(positions), boundscheck=False)
    begin = int(_offsets(array)[0])
    memory = array.buffers()[2].slice(begin, len(array) * width)
    fixed = pa.Array.from_buffers(pa.binary(width), len(array), [None, memory])
    taken = pc.take(fixed, pa.array(positions), boundscheck=False)
    ends = np.arange(0, (len(positions) + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), taken.buffers()[1]]
    return pa.Array.from_buffers(array.type, len(positions), buffers)


def _uniform_width(array: pa.Array, taken_count: int) -> int | None:
    """The bytes of each value of a text without nulls, if all are equally long."""
    if array.type not in _LARGE or min(len(array), taken_count) < _TAKE_ROWS_MIN:
        return None
    offsets = _offsets(array)
    width = int(offsets[1]) - int(offsets[0])
    if width == 0 or int(offsets[-1]) - int(offsets[0]) != width * len(array):
        return None
    # most columns of varying lengths show it in their first rows
    for part in (offsets[:64], offsets):
        if not (np.diff(part) == width).all():
            return None
    return width if (taken_count + 1) * width <= _OFFSET_MAX else None


def _offsets(array: pa.Array) -> npt.NDArray[Any]:
    is_large = array.type in {pa.large_string(), pa.large_binary()}
    dtype = np.dtype(np.int64 if is_large else np.int32)
    memory = array.buffers()[1]
    if len(array) == 0 or memory is None:
        return np.zeros(len(array) + 1, dtype)
    return np.frombuffer(memory, dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
