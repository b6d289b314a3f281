"""Thrift's compact protocol, as far as a Parquet footer needs it.

::

    field    u8: bits 4-7 its id less that of the field before, or 0 and the id as a varint follows
             bits 0-3 its type: 1, 2 true, false   3 i8   4, 5, 6 varint   7 double   8 bytes
             9, 10 list   11 map   12 struct; a byte 0 ends a struct
    list     u8: bits 4-7 how many, or 15 and the count as a varint follows; bits 0-3 their type

Numbers and bytes stay encoded, so unknown fields are written back unchanged.

Source: Thrift's "Compact protocol encoding".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelake.codec import varint

DEPTH_MAX = 100
_NUMBERS, _LISTS, _STRUCT = (4, 5, 6), (9, 10), 12

Struct = list[tuple[int, int, Any]]
"""Id, type and value of each field."""


def read_struct(data: bytes) -> Struct:
    r"""Decode a struct to its fields.

    Raises
    ------
    ValueError
        The bytes are not Thrift.

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
    """Return the encoded value of a field; None if it is absent."""
    return next((value for number, _, value in struct if number == field_id), None)


def inner_structs(struct: Struct, field_id: int) -> list[Struct]:
    """Return the structs of a list; none if the field is absent or of another type."""
    for number, kind, value in struct:
        if number == field_id and kind in _LISTS and value[0] == _STRUCT:
            items: list[Struct] = value[1]
            return items
    return []


def inner_struct(struct: Struct, field_id: int) -> Struct | None:
    """Return an inner struct; None if the field is absent or of another type."""
    found = (v for number, kind, v in struct if number == field_id and kind == _STRUCT)
    return next(found, None)


@dataclass(slots=True)
class _Reader:
    """Decodes structs."""

    data: bytes
    place: int = 0

    def struct(self, depth: int = 0) -> Struct:
        if depth > DEPTH_MAX:
            raise ValueError("its footer is nested too deep")
        fields: Struct = []
        number = 0
        while head := self._take(1)[0]:
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            fields.append((number, kind, self._read(kind, depth + 1)))
        return fields

    def _read(self, kind: int, depth: int) -> Any:
        if kind in _NUMBERS:  # nearly all fields, so first
            return self._varint()
        match kind:
            case 8:
                length = self._varint()
                return length + self._take(unsigned(length))
            case 12:
                return self.struct(depth)
            case 9 | 10:
                return self._list(depth)
            case 1 | 2:
                return b""
            case 3:
                return self._take(1)
            case 7:
                return self._take(8)
        raise ValueError(f"its footer has a field of type {kind}")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._take(1)[0]
        count = head >> 4
        if count == 15:
            count = unsigned(self._varint())
        kind = head & 15
        # a flag as an element of a list takes a byte
        return kind, [self._take(1) if kind <= 2 else self._read(kind, depth) for _ in range(count)]

    def _take(self, length: int) -> bytes:
        part = self.data[self.place : self.place + length]
        if len(part) != length:
            raise ValueError("its footer is cut short")
        self.place += length
        return part

    def _varint(self) -> bytes:
        data, begin = self.data, self.place
        end = begin
        try:
            while data[end] >= 0x80:
                end += 1
        except IndexError:
            raise ValueError("its footer is cut short") from None
        if end - begin >= varint.BYTES_MAX:
            raise ValueError("its footer has a number of more than 64 bits")
        self.place = end + 1
        return data[begin : self.place]

    def _zigzag(self) -> int:
        return varint.unzigzag(unsigned(self._varint()))


def unsigned(encoded: bytes) -> int:
    """Decode a varint as a number, without zigzag."""
    return encoded[0] if len(encoded) == 1 else varint.decode(encoded)[0]


def _written(kind: int, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if kind != _STRUCT:
        inner, items = value
        head = bytes([len(items) << 4 | inner])
        if len(items) >= 15:
            head = bytes([0xF0 | inner]) + varint.encode(len(items))
        return head + b"".join(_written(inner, item) for item in items)
    out = bytearray()
    before = 0
    for number, field_kind, content in value:
        delta = number - before
        short = 0 < delta <= 15
        out += bytes([(delta << 4 if short else 0) | field_kind])
        out += b"" if short else varint.encode(varint.zigzag(number))
        out += _written(field_kind, content)
        before = number
    return bytes(out + b"\0")
