"""Thrift's compact protocol, as far as a Parquet footer needs it.

::

    field    u8: bits 4-7 its id less that of the field before, or 0 and the id as a varint follows
             bits 0-3 its type: 1, 2 true, false   3 i8   4, 5, 6 varint   7 double   8 bytes
             9, 10 list   11 map   12 struct; a byte 0 ends a struct
    list     u8: bits 4-7 how many, or 15 and the count as a varint follows; bits 0-3 their type

Numbers and bytes stay as they are encoded: what is not understood is written back as it was.

Source: Thrift's "Compact protocol encoding".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "Struct",
    "inner_struct",
    "inner_structs",
    "read_struct",
    "unsigned",
    "value_of",
    "write_struct",
]

DEPTH_MAX = 100
VARINT_BYTES_MAX = 10
_LISTS, _STRUCT = (9, 10), 12

Struct = list[tuple[int, int, Any]]
"""Id, type and value of each field."""


def read_struct(data: bytes) -> Struct:
    r"""Take a struct apart.

    Raises
    ------
    ValueError
        The bytes are no Thrift.

    Examples
    --------
    >>> struct = read_struct(bytes.fromhex("15 06 00"))
    >>> struct, unsigned(value_of(struct, 1))
    ([(1, 5, b'\x06')], 6)
    """
    return _Reader(data).struct()


def write_struct(struct: Struct) -> bytes:
    r"""Encode a struct.

    Examples
    --------
    >>> write_struct([(1, 5, b"\x06")]).hex()
    '150600'
    """
    return _written(_STRUCT, struct)


def value_of(struct: Struct, field_id: int) -> Any:
    """The value of a field as it is encoded; None where it is absent."""
    return next((value for number, _, value in struct if number == field_id), None)


def inner_structs(struct: Struct, field_id: int) -> list[Struct]:
    """The structs of a list; none where the field is absent or something else."""
    for number, kind, value in struct:
        if number == field_id and kind in _LISTS and value[0] == _STRUCT:
            items: list[Struct] = value[1]
            return items
    return []


def inner_struct(struct: Struct, field_id: int) -> Struct | None:
    """A struct inside; None where the field is absent or something else."""
    found = (v for number, kind, v in struct if number == field_id and kind == _STRUCT)
    return next(found, None)


@dataclass(slots=True)
class _Reader:
    """Takes a struct apart."""

    data: bytes
    place: int = 0

    def struct(self, depth: int = 0) -> Struct:
        if depth > DEPTH_MAX:
            raise ValueError("its footer is nested too deep")
        fields: Struct = []
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
                return length + self._take(unsigned(length))
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth)
        raise ValueError(f"its footer has a field of type {kind}")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._take(1)[0]
        count = head >> 4
        if count == 15:
            count = unsigned(self._varint())
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
        value = unsigned(self._varint())
        return (value >> 1) ^ -(value & 1)


def unsigned(varint: bytes) -> int:
    """A varint as a number, before zigzag."""
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
