"""One field of many serialized BinaryRows as an array; :mod:`binary_row` reads one by one.

The rows are adjacent in an Arrow binary array, each at its offset, so that one gather reads a field
of all. A damaged row, or a value that this module does not know, is not *sound*:
:func:`tidelake.codec.binary_row.decode_row` then finds the fault. Source: the layout there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.codec.binary_row import (
    INLINE_BYTES_MAX,
    NANOS_PER_MS,
    header_size_bytes,
    is_wide_decimal,
    is_wide_timestamp,
)
from tidelake.types.arrow import MS_PER_DAY
from tidelake.types.data_type import DataType, TypeRoot

_ARITY_BYTES = 4
_MS_MAX = (2**63 - 1) // NANOS_PER_MS - 1
"""Nanoseconds beyond these bounds do not fit 64 bits."""
_INTEGERS = {
    TypeRoot.TINYINT: "<i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
}
_FLOATS = {TypeRoot.FLOAT: "<f4", TypeRoot.DOUBLE: "<f8"}
_TEXT_OR_BYTES = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A field's storage values.

    Parameters
    ----------
    values : ndarray of int64 or float64, or BinaryArray
        Undefined if not `known`. Text as its UTF-8 bytes, which compare like its characters.
    known : ndarray of bool
        Whether there is a value: sound and not null.
    sound : ndarray of bool
        Whether the row could be read here.
    """

    values: NDArray[np.int64] | NDArray[np.float64] | pa.Array
    known: NDArray[np.bool_]
    sound: NDArray[np.bool_]


def field_column(
    rows: pa.Array, position: int, *, fields_count: int, data_type: DataType
) -> FieldColumn | None:
    """Read one field of all rows.

    Parameters
    ----------
    rows : BinaryArray
        Serialized rows, none null.
    fields_count : int
        How many fields a row has; one with another number is not sound.

    Returns
    -------
    FieldColumn or None
        None for a type that is read row by row only.

    Examples
    --------
    >>> from tidelake.codec.binary_row import serialize_row
    >>> from tidelake.types import parse_type
    >>> types = [parse_type("INT"), parse_type("STRING")]
    >>> rows = pa.array([serialize_row(r, types) for r in [(1, "a"), (None, "b")]])
    >>> column = field_column(rows, 0, fields_count=2, data_type=types[0])
    >>> column.values[column.known], column.known
    (array([1]), array([ True, False]))
    """
    if not _is_read(data_type):
        return None
    count = len(rows)
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)[rows.offset :][: count + 1]
    begins, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    header_bytes = header_size_bytes(fields_count)
    fixed_bytes = _ARITY_BYTES + header_bytes + 8 * fields_count
    sound = ends - begins >= fixed_bytes
    if not sound.any():
        is_text = data_type.root in _TEXT_OR_BYTES
        nothing = pa.array([b""] * count, pa.binary()) if is_text else np.zeros(count, np.int64)
        return FieldColumn(nothing, sound, sound)
    data = np.frombuffer(rows.buffers()[2], dtype=np.uint8)
    # a row that is too short is read elsewhere, and not used
    other = int(np.argmax(sound))
    begins, ends = (np.where(sound, at, at[other]) for at in (begins, ends))
    sound &= _words(data, begins, ">u4") == fields_count
    null_bits = data[begins + _ARITY_BYTES + ((position + 8) >> 3)]
    known = sound & ((null_bits >> (position & 7)) & 1 == 0)
    slots = begins + (_ARITY_BYTES + header_bytes + 8 * position)
    values, fine = _values(data, begins + _ARITY_BYTES, ends, slots, data_type)
    fine |= ~known
    if isinstance(values, _Texts):
        values = values.gather(rows.buffers()[2], known & fine)
    return FieldColumn(values, known & fine, sound & fine)


def _is_read(data_type: DataType) -> bool:
    root = data_type.root
    return (
        root in _INTEGERS
        or root in _FLOATS
        or root in _TEXT_OR_BYTES
        or root in _TIMESTAMPS
        or root is TypeRoot.BOOLEAN
        or (root is TypeRoot.DECIMAL and not is_wide_decimal(data_type))
    )


@dataclass(frozen=True, slots=True)
class _Texts:
    """The positions of texts, in row order."""

    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def gather(self, buffer: pa.Buffer, known: NDArray[np.bool_]) -> pa.Array:
        """Copy them; empty where not known."""
        # the bytes between two texts form an element too: every second one is ours
        offsets = np.empty(2 * len(known), dtype=np.int32)
        offsets[0::2] = self.begins
        offsets[1::2] = self.begins + np.where(known, self.lengths, 0)
        buffers = [None, pa.py_buffer(offsets), buffer]
        elements = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return elements.take(pa.array(np.arange(0, len(offsets), 2)))


def _values(
    data: NDArray[np.uint8],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    data_type: DataType,
) -> tuple[Any, NDArray[np.bool_]]:
    """Values of a field, and whether each could be read; undefined for rows with a null."""
    root = data_type.root
    if root in _FLOATS:
        return _words(data, slots, _FLOATS[root]).astype(np.float64), np.ones(len(slots), bool)
    if root in _TEXT_OR_BYTES:
        mark = data[slots + INLINE_BYTES_MAX].astype(np.int64)
        is_inline = mark >= 0x80
        far_lengths = _words(data, slots, "<u4").astype(np.int64)
        far_begins = begins + _words(data, slots + 4, "<u4")
        lengths = np.where(is_inline, mark & 0x7F, far_lengths)
        found = np.where(is_inline, slots, far_begins)
        fine = np.where(is_inline, lengths <= INLINE_BYTES_MAX, found + lengths <= ends)
        return _Texts(np.where(fine, found, slots), np.where(fine, lengths, 0)), fine
    if root in _TIMESTAMPS and is_wide_timestamp(data_type):
        nanos = _words(data, slots, "<u4").astype(np.int64)
        found = begins + _words(data, slots + 4, "<u4")
        fine = (nanos < NANOS_PER_MS) & (found + 8 <= ends)
        ms = _words(data, np.where(fine, found, slots), "<i8")
        fine &= np.abs(ms) <= _MS_MAX
        return np.where(fine, ms, 0) * NANOS_PER_MS + nanos, fine
    if root in _TIMESTAMPS:
        ms = _words(data, slots, "<i8")
        fine = np.abs(ms) <= _MS_MAX
        return np.where(fine, ms, 0) * NANOS_PER_MS, fine
    if root is TypeRoot.DECIMAL:
        unscaled = _words(data, slots, "<i8")
        return unscaled, np.abs(unscaled) < 10 ** (data_type.precision or 0)
    if root is TypeRoot.BOOLEAN:
        return (data[slots] != 0).astype(np.int64), np.ones(len(slots), bool)
    numbers = _words(data, slots, _INTEGERS[root]).astype(np.int64)
    if root is TypeRoot.TIME:
        return numbers, (numbers >= 0) & (numbers < MS_PER_DAY)
    return numbers, np.ones(len(slots), bool)


def _words(data: NDArray[np.uint8], at: NDArray[np.int64], dtype: str) -> NDArray[Any]:
    """Words at any position. Requires: they end inside."""
    size_bytes = np.dtype(dtype).itemsize
    raw = np.lib.stride_tricks.sliding_window_view(data, size_bytes)[at]
    return np.ascontiguousarray(raw).view(dtype)[:, 0]
