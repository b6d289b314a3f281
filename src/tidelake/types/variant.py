"""Variants: any JSON-like value in two binaries, by the public Variant encoding of Parquet.

::

    metadata   u8 version 1 | bit 4 sorted | bits 6-7 bytes of an offset - 1
               size, then size + 1 offsets (little-endian, as wide as said), then the keys' UTF-8
    value      u8: bits 0-1 basic type, bits 2-7 what follows
               0 primitive   type number, then its bytes (little-endian; counts of 4 bytes)
               1 short text  length up to 63, then UTF-8
               2 object      widths; size, ids of the keys in their order, size + 1 offsets, values
               3 array       widths; size, size + 1 offsets, values

=============================  ========================================================
Python                         variant
=============================  ========================================================
None, bool                     null, true / false
int                            the smallest of int8, int16, int32, int64; then decimal
float                          double
Decimal                        decimal of up to 38 digits
str, bytes                     text, binary
date                           date
datetime                       timestamp_ntz; with a zone: timestamp (microseconds)
uuid.UUID                      uuid
list, tuple; dict              array; object (keys are text, no key twice)
=============================  ========================================================

Read are, beside these: float, time (as ``datetime.time``), timestamps of nanoseconds (as
``numpy.datetime64``). Source: ``VariantEncoding.md`` of apache/parquet-format;
Paimon's ``GenericVariantUtil`` (1.3.1) has the same bytes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import uuid
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.errors import CorruptError, InvalidInputError, shortened
from tidelake.types.arrow import VARIANT_STORAGE

__all__ = ["decode_variant", "encode_variant", "variant_objects", "variants"]

VERSION = 1
DEPTH_MAX = 200
SIZE_BYTES_MAX = 128 << 20
"""Of either binary; Paimon's own limit."""
SHORT_TEXT_MAX = 63
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
# on disk: never renumber
_NULL, _TRUE, _FALSE = 0, 1, 2
_INTEGERS = {3: "<b", 4: "<h", 5: "<i", 6: "<q"}
_DOUBLE, _FLOAT = 7, 14
_DECIMALS = {8: 4, 9: 8, 10: 16}
_DATE, _TIMESTAMP, _TIMESTAMP_NTZ = 11, 12, 13
_BINARY, _TEXT = 15, 16
_TIME, _TIMESTAMP_NS, _TIMESTAMP_NTZ_NS, _UUID = 17, 18, 19, 20
_DECIMAL_DIGITS = {8: 9, 9: 18, 10: 38}
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamp_ntz has no zone
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DATE = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def variants(objects: Iterable[object]) -> pa.StructArray:
    """Give Python objects as a column of variants; None is SQL's null, not JSON's.

    Parameters
    ----------
    objects : iterable
        What ``json.loads`` gives, and the other types of the module's table.

    Returns
    -------
    pyarrow.StructArray
        For a VARIANT column: ``struct<value: binary, metadata: binary>``.

    Raises
    ------
    InvalidInputError
        An object has no variant.

    Examples
    --------
    >>> variant_objects(variants([{"a": [1, None]}, "text", None]))
    [{'a': [1, None]}, 'text', None]
    """
    pairs = [None if o is None else encode_variant(o) for o in objects]
    rows = [None if p is None else {"value": p[0], "metadata": p[1]} for p in pairs]
    return pa.array(rows, VARIANT_STORAGE)


def variant_objects(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Give a column of variants as Python objects; null is None.

    Raises
    ------
    CorruptError
        A value is no variant.
    """
    return [
        None if row is None else decode_variant(row["value"], row["metadata"])
        for row in column.to_pylist()
    ]


def encode_variant(value: object) -> tuple[bytes, bytes]:
    """Give an object as a variant: its value and its metadata.

    Raises
    ------
    InvalidInputError
        The object, or one inside it, has no variant.

    Examples
    --------
    >>> [part.hex() for part in encode_variant({"a": 1})]
    ['02010000020c01', '0101000161']
    """
    keys: dict[str, int] = {}
    out = _encoded(value, keys, 0)
    names = [key.encode() for key in keys]
    total = sum(map(len, names))
    width = _width(max(total, len(names)))
    header = VERSION | (width - 1) << 6
    metadata = bytes([header]) + _unsigned(len(names), width) + _offsets(names, width)
    metadata += b"".join(names)
    if max(len(out), len(metadata)) > SIZE_BYTES_MAX:
        raise _no_variant(value, f"is larger than {SIZE_BYTES_MAX} bytes")
    return out, metadata


def _no_variant(value: object, reason: str) -> InvalidInputError:
    message = f"{shortened(repr(value))} {reason}, so it cannot be stored as a VARIANT."
    return InvalidInputError(message, kind="value_type")


def _primitive(number: int, content: bytes = b"") -> bytes:
    return bytes([number << 2]) + content


def _encoded(value: object, keys: dict[str, int], depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise _no_variant(value, f"is nested more than {DEPTH_MAX} levels deep")
    match value:
        case None:
            return _primitive(_NULL)
        case bool() | np.bool_():
            return _primitive(_TRUE if value else _FALSE)
        case int() | np.integer():
            return _encoded_integer(int(value))
        case float() | np.floating():
            return _primitive(_DOUBLE, struct.pack("<d", value))
        case str():
            return _encoded_text(value)
        case bytes() | bytearray() | memoryview():
            raw = bytes(value)
            return _primitive(_BINARY, _unsigned(len(raw), 4) + raw)
        case decimal.Decimal():
            return _encoded_decimal(value)
        case dt.datetime():
            zoned = value.utcoffset() is not None
            micros = (value - (_EPOCH_UTC if zoned else _EPOCH)) // _MICROSECOND
            return _primitive(_TIMESTAMP if zoned else _TIMESTAMP_NTZ, struct.pack("<q", micros))
        case dt.date():
            return _primitive(_DATE, struct.pack("<i", (value - _EPOCH_DATE).days))
        case uuid.UUID():
            return _primitive(_UUID, value.bytes)
        case list() | tuple():
            parts = [_encoded(v, keys, depth + 1) for v in value]
            return _encoded_array(parts)
        case Mapping():
            return _encoded_object(value, keys, depth)
    raise _no_variant(value, f"is of the type {type(value).__name__}")


def _encoded_integer(value: int) -> bytes:
    for number, form in _INTEGERS.items():
        bits = 8 * struct.calcsize(form)
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return _primitive(number, struct.pack(form, value))
    return _encoded_decimal(decimal.Decimal(value))


def _encoded_text(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise _no_variant(text, "holds half a character (a lone surrogate)") from error
    if len(raw) <= SHORT_TEXT_MAX:
        return bytes([len(raw) << 2 | _SHORT_TEXT]) + raw
    return _primitive(_TEXT, _unsigned(len(raw), 4) + raw)


def _encoded_decimal(value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise _no_variant(value, "is not a number")
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent)
    scale = max(0, -exponent)
    needed = max(len(str(unscaled)), scale)
    for number, size in _DECIMALS.items():
        if needed <= _DECIMAL_DIGITS[number]:
            signed = -unscaled if sign else unscaled
            return _primitive(number, bytes([scale]) + signed.to_bytes(size, "little", signed=True))
    raise _no_variant(value, "has more than 38 digits")


def _encoded_array(parts: list[bytes]) -> bytes:
    width = _width(sum(map(len, parts)))
    large = len(parts) > 255
    header = bytes([(large << 2 | (width - 1)) << 2 | _ARRAY])
    size = _unsigned(len(parts), 4 if large else 1)
    return header + size + _offsets(parts, width) + b"".join(parts)


def _encoded_object(value: Mapping[Any, object], keys: dict[str, int], depth: int) -> bytes:
    if not all(isinstance(key, str) for key in value):
        raise _no_variant(value, "has keys that are no texts")
    # the order of the encoding is that of the keys' bytes, which is that of code points
    names = sorted(value)
    ids = [keys.setdefault(name, len(keys)) for name in names]
    for name in names:
        _encoded_text(name)  # refuses what has no UTF-8
    parts = [_encoded(value[name], keys, depth + 1) for name in names]
    id_width, width = _width(max(ids, default=0)), _width(sum(map(len, parts)))
    large = len(parts) > 255
    header = bytes([(large << 4 | (id_width - 1) << 2 | (width - 1)) << 2 | _OBJECT])
    size = _unsigned(len(parts), 4 if large else 1)
    listed = b"".join(_unsigned(i, id_width) for i in ids)
    return header + size + listed + _offsets(parts, width) + b"".join(parts)


def _offsets(parts: list[bytes], width: int) -> bytes:
    ends, at = [0], 0
    for part in parts:
        at += len(part)
        ends.append(at)
    return b"".join(_unsigned(end, width) for end in ends)


def _unsigned(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little")


def _width(largest: int) -> int:
    return max(1, -(-largest.bit_length() // 8))


def decode_variant(value: bytes, metadata: bytes) -> object:
    """Give a variant as a Python object.

    Raises
    ------
    CorruptError
        The bytes are no variant.

    Examples
    --------
    >>> decode_variant(bytes.fromhex("02010000020c01"), bytes.fromhex("0101000161"))
    {'a': 1}
    """
    try:
        return _Decoder(_keys_of(memoryview(metadata)), len(value)).value(memoryview(value), 0)
    except (IndexError, ValueError, struct.error, OverflowError) as error:
        message = f"The bytes {shortened(value.hex())} are no variant: {error}."
        raise CorruptError(message, kind="variant") from error


def _keys_of(metadata: memoryview) -> list[str]:
    if metadata[0] & 0x0F != VERSION:
        raise ValueError(f"its version is {metadata[0] & 0x0F}")
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    return [str(part, "utf-8") for part in _parts(metadata, 1 + width, count, width)]


def _number(memory: memoryview, at: int, width: int) -> int:
    return int.from_bytes(_slice(memory, at, width), "little")


def _slice(memory: memoryview, at: int, size: int) -> memoryview:
    part = memory[at : at + size]
    if len(part) != size:
        raise ValueError("it ends too early")
    return part


def _parts(memory: memoryview, at: int, count: int, width: int) -> list[memoryview]:
    """Cut what `count` + 1 offsets at a place say lies behind them."""
    begin = at + (count + 1) * width
    if begin > len(memory):
        raise ValueError("it ends too early")
    ends = [_number(memory, at + i * width, width) for i in range(count + 1)]
    return [_slice(memory, begin + a, b - a) for a, b in pairwise(ends)]


class _Decoder:
    """Decodes one value; what is inside may not be decoded more often than there are bytes."""

    def __init__(self, keys: list[str], values_max: int) -> None:
        self._keys = keys
        self._values_left = values_max

    def value(self, memory: memoryview, depth: int) -> object:
        self._values_left -= 1
        if self._values_left < 0:
            raise ValueError("it holds more values than bytes")
        if depth > DEPTH_MAX:
            raise ValueError(f"it is nested more than {DEPTH_MAX} levels deep")
        kind, info = memory[0] & 3, memory[0] >> 2
        if kind == _SHORT_TEXT:
            return str(_slice(memory, 1, info), "utf-8")
        if kind == _PRIMITIVE:
            return _decoded_primitive(info, memory[1:])
        is_object = kind == _OBJECT
        large = info >> (4 if is_object else 2) & 1
        size_width, width = 4 if large else 1, (info & 3) + 1
        id_width = (info >> 2 & 3) + 1 if is_object else 0
        count = _number(memory, 1, size_width)
        at = 1 + size_width + count * id_width
        begin = at + (count + 1) * width
        if begin > len(memory):
            raise ValueError("it ends too early")
        # a value knows its own end; those of an object may lie in another order than its keys
        starts = [begin + _number(memory, at + i * width, width) for i in range(count)]
        values = [self.value(memory[start:], depth + 1) for start in starts]
        if not is_object:
            return values
        ids = [_number(memory, 1 + size_width + i * id_width, id_width) for i in range(count)]
        return dict(zip((self._keys[i] for i in ids), values, strict=True))


def _decoded_primitive(number: int, content: memoryview) -> object:
    if number in _INTEGERS:
        form = _INTEGERS[number]
        return struct.unpack(form, _slice(content, 0, struct.calcsize(form)))[0]
    if number in _DECIMALS:
        unscaled = int.from_bytes(_slice(content, 1, _DECIMALS[number]), "little", signed=True)
        return decimal.Decimal(unscaled).scaleb(-content[0], context=decimal.Context(prec=60))
    match number:
        case 0 | 1 | 2:
            return (None, True, False)[number]
        case 7:
            return struct.unpack("<d", _slice(content, 0, 8))[0]
        case 14:
            return struct.unpack("<f", _slice(content, 0, 4))[0]
        case 15 | 16:
            raw = bytes(_slice(content, 4, _number(content, 0, 4)))
            return raw if number == _BINARY else raw.decode()
        case 20:
            return uuid.UUID(bytes=bytes(_slice(content, 0, 16)))
        case 11:
            return _EPOCH_DATE + dt.timedelta(days=struct.unpack("<i", _slice(content, 0, 4))[0])
        case 12 | 13 | 17 | 18 | 19:
            return _decoded_time(number, struct.unpack("<q", _slice(content, 0, 8))[0])
    raise ValueError(f"its type number {number} is not known")


def _decoded_time(number: int, count: int) -> object:
    if number in {_TIMESTAMP_NS, _TIMESTAMP_NTZ_NS}:
        return np.datetime64(count, "ns")
    moment = (_EPOCH_UTC if number == _TIMESTAMP else _EPOCH) + count * _MICROSECOND
    if number != _TIME:
        return moment
    if not 0 <= count < 86_400_000_000:
        raise ValueError("its time is outside one day")
    return moment.time()
