"""The parts of a variant's bytes: numbers, texts, lists and objects, and the keys.

::

    metadata   u8 version 1 | bit 4 sorted | bits 6-7 bytes of an offset - 1
               size, then size + 1 offsets (little-endian, as wide as said), then the keys' UTF-8
    value      u8: bits 0-1 basic type, bits 2-7 what follows
               0 primitive   type number, then its bytes (little-endian; counts of 4 bytes)
               1 short text  length up to 63, then UTF-8
               2 object      widths; size, ids of the keys in their order, size + 1 offsets, values
               3 array       widths; size, size + 1 offsets, values

Source: ``VariantEncoding.md`` of apache/parquet-format; Paimon's ``GenericVariantBuilder`` (1.3.1)
writes the same bytes.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

VERSION = 1
DEPTH_MAX = 200
SHORT_TEXT_MAX = 63
# on disk: never renumber
PRIMITIVE, SHORT_TEXT, OBJECT, ARRAY = range(4)
NULL, TRUE, FALSE = 0, 1, 2
INTEGERS = {3: "<b", 4: "<h", 5: "<i", 6: "<q"}
DOUBLE, FLOAT = 7, 14
DECIMALS = {8: 4, 9: 8, 10: 16}
DATE, TIMESTAMP, TIMESTAMP_NTZ = 11, 12, 13
BINARY, TEXT = 15, 16
TIME, TIMESTAMP_NS, TIMESTAMP_NTZ_NS, UUID = 17, 18, 19, 20
_DECIMAL_DIGITS = {8: 9, 9: 18, 10: 38}


def primitive(number: int, content: bytes = b"") -> bytes:
    """Give a primitive of a type number and its content."""
    return bytes([number << 2]) + content


def binary_of(raw: bytes) -> bytes:
    """Give bytes."""
    return primitive(BINARY, _unsigned(len(raw), 4) + raw)


def text_of(raw: bytes) -> bytes:
    """Give a text, of its UTF-8."""
    if len(raw) <= SHORT_TEXT_MAX:
        return bytes([len(raw) << 2 | SHORT_TEXT]) + raw
    return primitive(TEXT, _unsigned(len(raw), 4) + raw)


def integer_of(value: int) -> bytes | None:
    """Give an integer in the smallest type that holds it; None beyond 64 bits."""
    for number, form in INTEGERS.items():
        bits = 8 * struct.calcsize(form)
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return primitive(number, struct.pack(form, value))
    return None


def decimal_of(value: decimal.Decimal) -> bytes | None:
    """Give a finite decimal in the smallest type that holds it; None beyond 38 digits."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent)
    scale = max(0, -exponent)
    needed = max(len(str(unscaled)), scale)
    for number, size in DECIMALS.items():
        if needed <= _DECIMAL_DIGITS[number]:
            signed = -unscaled if sign else unscaled
            return primitive(number, bytes([scale]) + signed.to_bytes(size, "little", signed=True))
    return None


def array_of(parts: Sequence[bytes]) -> bytes:
    """Give an array of its elements."""
    width = _width(sum(map(len, parts)))
    large = len(parts) > 255
    header = bytes([(large << 2 | (width - 1)) << 2 | ARRAY])
    size = _unsigned(len(parts), 4 if large else 1)
    return header + size + _offsets(parts, width) + b"".join(parts)


def object_of(fields: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Encode an object from the key, the key's id and the value of each field.

    Ids are listed in the order of the keys' bytes, which is that of code points; values keep the
    given order. Requires: no key twice.
    """
    placed = []
    place = 0
    values = []
    for name, number, value in fields:
        placed.append((name, number, place))
        values.append(value)
        place += len(value)
    placed.sort()
    id_width, width = _width(max((n for _, n, _ in placed), default=0)), _width(place)
    large = len(placed) > 255
    header = bytes([(large << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | OBJECT])
    size = _unsigned(len(placed), 4 if large else 1)
    ids = b"".join(_unsigned(number, id_width) for _, number, _ in placed)
    begins = b"".join(_unsigned(begin, width) for *_, begin in placed)
    return header + size + ids + begins + _unsigned(place, width) + b"".join(values)


def metadata_of(keys: Iterable[str]) -> bytes:
    """Encode the metadata of keys, whose ids are their indexes."""
    names = [key.encode() for key in keys]
    total = sum(map(len, names))
    width = _width(max(total, len(names)))
    header = VERSION | (width - 1) << 6
    metadata = bytes([header]) + _unsigned(len(names), width) + _offsets(names, width)
    return metadata + b"".join(names)


def _offsets(parts: Sequence[bytes], width: int) -> bytes:
    ends, at = [0], 0
    for part in parts:
        at += len(part)
        ends.append(at)
    return b"".join(_unsigned(end, width) for end in ends)


def _unsigned(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little")


def _width(largest: int) -> int:
    return max(1, -(-largest.bit_length() // 8))


def metadata_keys(metadata: memoryview) -> list[str]:
    """Read the keys.

    Raises
    ------
    ValueError
        The bytes are not metadata; `IndexError` if there are none.
    """
    if metadata[0] & 0x0F != VERSION:
        raise ValueError(f"its version is {metadata[0] & 0x0F}")
    width = (metadata[0] >> 6) + 1
    count = number_at(metadata, 1, width)
    return [str(part, "utf-8") for part in _parts(metadata, 1 + width, count, width)]


def number_at(memory: memoryview, at: int, width: int) -> int:
    """Read an unsigned number."""
    return int.from_bytes(part_of(memory, at, width), "little")


def part_of(memory: memoryview, at: int, size: int) -> memoryview:
    """Cut a part out.

    Raises
    ------
    ValueError
        It exceeds the end.
    """
    part = memory[at : at + size]
    if len(part) != size:
        raise ValueError("it ends too early")
    return part


def _parts(memory: memoryview, at: int, count: int, width: int) -> list[memoryview]:
    """Cut out the parts between `count` + 1 offsets at a position."""
    begin = at + (count + 1) * width
    if begin > len(memory):
        raise ValueError("it ends too early")
    ends = [number_at(memory, at + i * width, width) for i in range(count + 1)]
    return [part_of(memory, begin + a, b - a) for a, b in pairwise(ends)]


@dataclass(frozen=True, slots=True)
class Container:
    """An array or object in memory.

    Parameters
    ----------
    ids : tuple of int or None
        For an object: the ids of the keys, in the keys' order.
    starts : tuple of int
        Where the values begin; a value knows its own end, and those of an object may be in
        another order than its keys.
    """

    ids: tuple[int, ...] | None
    starts: tuple[int, ...]


def container(memory: memoryview) -> Container:
    """Read the head of an array or object.

    Raises
    ------
    ValueError
        It exceeds the end.
    """
    kind, info = memory[0] & 3, memory[0] >> 2
    is_object = kind == OBJECT
    large = info >> (4 if is_object else 2) & 1
    size_width, width = 4 if large else 1, (info & 3) + 1
    id_width = (info >> 2 & 3) + 1 if is_object else 0
    count = number_at(memory, 1, size_width)
    at = 1 + size_width + count * id_width
    begin = at + (count + 1) * width
    if begin > len(memory):
        raise ValueError("it ends too early")
    starts = tuple(begin + number_at(memory, at + i * width, width) for i in range(count))
    if not is_object:
        return Container(None, starts)
    places = range(1 + size_width, at, id_width)
    return Container(tuple(number_at(memory, p, id_width) for p in places), starts)


_FIXED_BYTES = {NULL: 0, TRUE: 0, FALSE: 0, DOUBLE: 8, FLOAT: 4, DATE: 4, UUID: 16}
_FIXED_BYTES |= {number: struct.calcsize(form) for number, form in INTEGERS.items()}
_FIXED_BYTES |= {number: 1 + size for number, size in DECIMALS.items()}
_FIXED_BYTES |= dict.fromkeys((TIMESTAMP, TIMESTAMP_NTZ, TIME, TIMESTAMP_NS, TIMESTAMP_NTZ_NS), 8)


def scalar_bytes(memory: memoryview) -> bytes:
    """Cut out the text or primitive at the beginning of memory.

    Raises
    ------
    ValueError
        It exceeds the end, or its type is unknown.
    """
    kind, info = memory[0] & 3, memory[0] >> 2
    if kind == SHORT_TEXT:
        size = info
    elif info in {BINARY, TEXT}:
        size = 4 + number_at(memory, 1, 4)
    elif info in _FIXED_BYTES:
        size = _FIXED_BYTES[info]
    else:
        raise ValueError(f"its type number {info} is not known")
    return bytes(part_of(memory, 0, 1 + size))
