"""Rows as Avro's bytes, column by column.

Each column becomes some Arrow arrays of bytes (length and content, or the number), and Arrow joins
them row by row: no Python runs per row. A number takes seven bits a byte, so its bytes are made as
a matrix and cut to each row's length. The elements of lists and the entries of maps are joined
first; their bytes are then adjacent, so those of a whole list run from its first element to its
last. A list has one block: its count, the elements, and a zero.

Source: Avro specification 1.11, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.format.avro.schema import entry_types, is_text
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types
from tidelake.types.nested import list_parts, struct_children

_DECIMAL_BYTES = 16
_TEXT_OR_BYTES = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})


def encode_rows(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.Array:
    """Encode each row.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Requires: at least one column, no null in a NOT NULL one, and less than 2 GiB in total.

    Returns
    -------
    pyarrow.BinaryArray
        One value per row, none null.
    """
    slots = zip(batch.columns, fields, strict=True)
    return _joined([part for column, field in slots for part in _slot(column, field.type)])


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*parts, pa.scalar(b""))


def _slot(column: pa.Array, data_type: DataType) -> list[pa.Array]:
    """The bytes of a nullable value."""
    valid = pc.is_valid(column)
    parts = _encoded(column, data_type)
    if column.null_count:
        parts = [pc.if_else(valid, part, pa.scalar(b"")) for part in parts]
    if data_type.nullable:
        parts.insert(0, pc.if_else(valid, pa.scalar(b"\x02"), pa.scalar(b"\x00")))
    return parts


def _encoded(column: pa.Array, data_type: DataType) -> list[pa.Array]:
    """The bytes of each value; undefined for a null."""
    root = data_type.root
    if root is TypeRoot.ROW:
        inside = zip(struct_children(column), child_types(data_type), strict=True)
        return [part for child, (_, kind) in inside for part in _slot(child, kind)]
    if data_type.is_nested:
        return _blocks(column, data_type)
    if root in _TEXT_OR_BYTES:
        content = column.cast(pa.binary())
        lengths = pc.fill_null(pc.binary_length(content), 0).to_numpy()
        return [_varints(lengths.astype(np.int64)), content]
    if root is TypeRoot.DECIMAL:
        return _decimals(column)
    if root is TypeRoot.BOOLEAN:
        flags = pc.fill_null(column, False).cast(pa.uint8()).to_numpy()
        return [_fixed(flags)]
    if root is TypeRoot.FLOAT:
        return [_fixed(pc.fill_null(column, 0.0).to_numpy().astype("<f4"))]
    if root is TypeRoot.DOUBLE:
        return [_fixed(pc.fill_null(column, 0.0).to_numpy().astype("<f8"))]
    whole = column
    if root in {TypeRoot.DATE, TypeRoot.TIME}:
        whole = column.view(pa.int32())
    elif root in {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        whole = column.view(pa.int64())
    return [_varints(pc.fill_null(whole, 0).to_numpy().astype(np.int64))]


def _blocks(column: pa.Array, data_type: DataType) -> list[pa.Array]:
    """The bytes of lists and maps."""
    parts = list_parts(column)
    if data_type.root is TypeRoot.ARRAY:
        items = _slot(parts.children[0], data_type.children[0])
    else:
        keys, values = parts.children
        key, value = entry_types(data_type)
        encoded_keys = _encoded(keys, key) if is_text(key) else _slot(keys, key)
        items = [*encoded_keys, *_slot(values, value)]
    offsets = parts.offsets.to_numpy()
    counts = np.diff(offsets)
    content = pa.array([b""] * len(counts), pa.binary())
    if offsets[-1]:
        _, ends, data = _joined(items).buffers()
        content = _binary(data, np.frombuffer(ends, np.int32)[offsets])
    end = pc.if_else(pa.array(counts > 0), pa.scalar(b"\x00"), pa.scalar(b""))
    return [_varints(counts.astype(np.int64)), content, end]


def _varints(values: NDArray[np.int64]) -> pa.Array:
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(zigzag.max(initial=0))
    width = max(1, -(-largest.bit_length() // 7))
    shifts = (7 * np.arange(width)).astype(np.uint64)
    groups = (zigzag[:, None] >> shifts).astype(np.uint8) & np.uint8(0x7F)
    used = np.ones((len(values), width), bool)
    if width > 1:
        used[:, 1:] = (zigzag[:, None] >> shifts[1:]) > 0
    lengths = used.sum(axis=1)
    more = np.arange(width)[None, :] < (lengths - 1)[:, None]
    groups |= more.astype(np.uint8) << np.uint8(7)
    return _cut(groups, used, lengths)


def _decimals(column: pa.Array) -> list[pa.Array]:
    zeroed = column if not column.null_count else pc.fill_null(column, pa.scalar(0, column.type))
    memory = np.frombuffer(zeroed.buffers()[1], np.uint8)
    begin = zeroed.offset * _DECIMAL_BYTES
    stored = memory[begin : begin + len(zeroed) * _DECIMAL_BYTES]
    digits = stored.reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = np.where(digits[:, 0] & 0x80, np.uint8(0xFF), np.uint8(0))[:, None]
    other = digits != sign
    first = np.where(other.any(axis=1), other.argmax(axis=1), _DECIMAL_BYTES - 1)
    lead = digits[np.arange(len(digits)), first]
    # the first byte kept must still show the sign
    hidden = ((lead ^ sign[:, 0]) & 0x80) != 0
    first = first - hidden
    used = np.arange(_DECIMAL_BYTES)[None, :] >= first[:, None]
    lengths = _DECIMAL_BYTES - first
    return [_varints(lengths.astype(np.int64)), _cut(digits, used, lengths)]


def _fixed(values: NDArray[np.generic]) -> pa.Array:
    width = values.dtype.itemsize
    offsets = np.arange(len(values) + 1, dtype=np.int32) * np.int32(width)
    return _binary(np.ascontiguousarray(values).tobytes(), offsets)


def _cut(
    matrix: NDArray[np.uint8], used: NDArray[np.bool_], lengths: NDArray[np.int64]
) -> pa.Array:
    offsets = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return _binary(matrix[used].tobytes(), offsets)


def _binary(data: bytes | pa.Buffer, offsets: NDArray[np.int32]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
