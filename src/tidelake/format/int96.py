"""INT96 timestamps as they lie in a Parquet file: nanoseconds of the day, and the day.

Arrow gives INT96 as one number of 64 bits, which wraps around outside the years 1677 to 2262. Of
times before 1970 Java Paimon writes the day nearer to 1970 and nanoseconds that count backwards.
The one number is right then too; but by itself it cannot be told from one that has wrapped around.
The twelve bytes tell it:

1. The file's footer is made anew, with each INT96 column as one of twelve plain bytes, which are
   encoded the same way, and Arrow reads the column's bytes by that footer.
2. Each value is its day and its nanoseconds, which may count backwards; what nanoseconds in 64 bits
   cannot hold is refused.

The footer is a struct of Thrift's compact protocol::

    field    u8: bits 4-7 its id less that of the field before, or 0 and the id as a varint follows
             bits 0-3 its type: 1, 2 true, false   3 i8   4, 5, 6 varint   7 double   8 bytes
             9, 10 list   11 map   12 struct; a byte 0 ends a struct
    list     u8: bits 4-7 how many, or 15 and the count as a varint follows; bits 0-3 their type

Source: ``parquet.thrift`` of apache/parquet-format; Thrift's "Compact protocol encoding"; Paimon's
``ParquetRowDataWriter`` (1.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelake.errors import UnsupportedError
from tidelake.format.read_error import corrupt
from tidelake.types.nested import (
    ListParts,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)

__all__ = ["bytes_metadata", "moments"]

DEPTH_MAX = 100
VARINT_BYTES_MAX = 10
_INT96, _FIXED = b"\x06", b"\x0e"  # 3 and 7, as zigzag varints
_WIDTH = b"\x18"  # 12
_I32, _STRUCT = 5, 12
_JULIAN_DAY_1970 = 2_440_588
_DAY_NS = 86_400 * 10**9
_DAYS_MAX = 2**63 // _DAY_NS
_RECORD = np.dtype([("nanos", "<i8"), ("day", "<u4")])

_Struct = list[tuple[int, int, Any]]
"""Id, type and value of each field."""


def bytes_metadata(source: pa.NativeFile) -> pq.FileMetaData:
    """Give a file's metadata with its INT96 columns as twelve bytes each.

    Raises
    ------
    ValueError
        The footer is no Thrift.
    """
    size = source.size()
    length = int.from_bytes(source.read_at(8, size - 8)[:4], "little")
    footer = _Reader(source.read_at(length, size - 8 - length)).struct()
    for element in _value(footer, 2)[1]:
        if _value(element, 1) == _INT96:
            element[:] = [(1, _I32, _FIXED), (2, _I32, _WIDTH), *(f for f in element if f[0] > 2)]
    for group in _value(footer, 4)[1]:
        for chunk in _value(group, 1)[1]:
            column = _value(chunk, 3)
            if _value(column, 1) == _INT96:
                column[:] = [(1, _I32, _FIXED), *(f for f in column if f[0] > 1)]
    out = _written(_STRUCT, footer)
    tail = len(out).to_bytes(4, "little") + b"PAR1"
    return pq.read_metadata(pa.BufferReader(b"PAR1" + out + tail))


def _value(struct: _Struct, field_id: int) -> Any:
    for number, _, value in struct:
        if number == field_id:
            return value
    return None if field_id == 1 else (_STRUCT, [])


@dataclass(slots=True)
class _Reader:
    """Takes a footer apart."""

    data: bytes
    place: int = 0

    def struct(self, depth: int = 0) -> _Struct:
        if depth > DEPTH_MAX:
            raise ValueError("its footer is nested too deep")
        fields: _Struct = []
        number = 0
        while head := self._take(1)[0]:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields.append((number, head & 15, self._read(head & 15, depth + 1)))
        return fields

    def _read(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2:
                return b""
            case 3:
                return self._take(1)
            case 4 | 5 | 6:
                return self._varint()
            case 7:
                return self._take(8)
            case 8:
                length = self._varint()
                return length + self._take(_unsigned(length))
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth)
        raise ValueError(f"its footer has a field of type {kind}")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._take(1)[0]
        count = head >> 4
        if count == 15:
            count = _unsigned(self._varint())
        kind = head & 15
        # a flag takes a byte where it is an element
        return kind, [self._take(1) if kind <= 2 else self._read(kind, depth) for _ in range(count)]

    def _take(self, length: int) -> bytes:
        part = self.data[self.place : self.place + length]
        if len(part) != length:
            raise ValueError("its footer is cut short")
        self.place += length
        return part

    def _varint(self) -> bytes:
        begin = self.place
        while self._take(1)[0] >= 0x80:
            if self.place - begin == VARINT_BYTES_MAX:
                raise ValueError("its footer has a number of more than 64 bits")
        return self.data[begin : self.place]

    def _zigzag(self) -> int:
        value = _unsigned(self._varint())
        return (value >> 1) ^ -(value & 1)


def _unsigned(varint: bytes) -> int:
    return sum((byte & 0x7F) << (7 * at) for at, byte in enumerate(varint))


def _written(kind: int, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if kind != _STRUCT:
        inner, items = value
        head = bytes([len(items) << 4 | inner])
        if len(items) >= 15:
            head = bytes([0xF0 | inner]) + _varint(len(items))
        return head + b"".join(_written(inner, item) for item in items)
    out = bytearray()
    before = 0
    for number, field_kind, content in value:
        delta = number - before
        short = 0 < delta <= 15
        out += bytes([(delta << 4 if short else 0) | field_kind])
        out += b"" if short else _varint((number << 1) ^ (number >> 63))
        out += _written(field_kind, content)
        before = number
    return bytes(out + b"\0")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def moments(raw: pa.Array, like: pa.DataType, *, name: str, path: str) -> pa.Array:
    """Turn the twelve bytes of timestamps into nanoseconds, inside nested columns too.

    Parameters
    ----------
    raw : pyarrow.Array
        A column as it is read with :func:`bytes_metadata`.
    like : pyarrow.DataType
        The same column's type as Arrow gives it otherwise.
    name, path : str
        Column and file, for messages.

    Raises
    ------
    UnsupportedError
        A time is outside the years 1677 to 2262.
    CorruptError
        Nanoseconds reach beyond a day.
    """
    if pa.types.is_fixed_size_binary(raw.type) and pa.types.is_timestamp(like):
        return _moments(raw, like, name, path)
    if pa.types.is_struct(raw.type):
        inside = zip(struct_children(raw), like, strict=True)
        children = [moments(c, f.type, name=name, path=path) for c, f in inside]
        return struct_of(children, like, raw)
    if not pa.types.is_nested(raw.type):
        return raw
    parts = list_parts(raw)
    is_map = pa.types.is_map(like)
    types = [like.key_type, like.item_type] if is_map else [like.value_type]
    inside = zip(parts.children, types, strict=True)
    flat = tuple(moments(c, t, name=name, path=path) for c, t in inside)
    parts = ListParts(parts.offsets, parts.nulls, flat)
    return map_of(parts, like) if is_map else list_of(parts, like)


def _moments(raw: pa.Array, like: pa.DataType, name: str, path: str) -> pa.Array:
    valid = raw.is_valid().to_numpy(zero_copy_only=False)
    memory = raw.buffers()[1]
    values = np.frombuffer(memory, _RECORD, count=raw.offset + len(raw))[raw.offset :]
    nanos = np.where(valid, values["nanos"], 0)
    days = np.where(valid, values["day"].astype(np.int64) - _JULIAN_DAY_1970, 0)
    if np.any(np.abs(nanos) >= _DAY_NS):
        raise corrupt(path, f"a timestamp in column '{name}' has more nanoseconds than a day")
    if np.any(np.abs(days) >= _DAYS_MAX):
        message = (
            f"Column '{name}' of file {path} holds a timestamp outside the years 1677 to 2262,"
            " which nanoseconds in 64 bits cannot hold: read the other columns."
        )
        raise UnsupportedError(message, kind="value_range", path=path, column=name)
    return pa.array(days * _DAY_NS + nanos, mask=~valid).cast(like)
