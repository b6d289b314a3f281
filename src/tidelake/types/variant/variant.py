"""Variants: any JSON-like value in two binaries, by the public Variant encoding of Parquet.

The bytes are made in :mod:`tidelake.types.variant.variant_bytes`.

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

It also reads: float, time (as ``datetime.time``), timestamps of nanoseconds (as
``numpy.datetime64``). Source: ``VariantEncoding.md`` of apache/parquet-format; Paimon's
``GenericVariantUtil`` (1.3.1) writes the same bytes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.errors import CorruptError, InvalidInputError, shortened
from tidelake.types.arrow import VARIANT_STORAGE
from tidelake.types.variant.variant_bytes import (
    BINARY,
    DATE,
    DECIMALS,
    DEPTH_MAX,
    DOUBLE,
    FALSE,
    INTEGERS,
    NULL,
    PRIMITIVE,
    SHORT_TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMP_NTZ,
    TIMESTAMP_NTZ_NS,
    TRUE,
    UUID,
    array_of,
    binary_of,
    container,
    decimal_of,
    integer_of,
    metadata_keys,
    metadata_of,
    number_at,
    object_of,
    part_of,
    primitive,
    text_of,
)

SIZE_BYTES_MAX = 128 << 20
"""The most bytes of either binary; Paimon's own limit."""
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamp_ntz has no zone
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DATE = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def variants(objects: Iterable[object]) -> pa.StructArray:
    """Convert Python objects to a column of variants; None is SQL's null, not JSON's.

    Parameters
    ----------
    objects : iterable
        Results of ``json.loads``, and the other types of the module's table.

    Returns
    -------
    pyarrow.StructArray
        For a VARIANT column: ``struct<value: binary, metadata: binary>``.

    Raises
    ------
    InvalidInputError
        An object cannot be a variant.

    Examples
    --------
    >>> variant_objects(variants([{"a": [1, None]}, "text", None]))
    [{'a': [1, None]}, 'text', None]
    """
    pairs = [None if o is None else encode_variant(o) for o in objects]
    rows = [None if p is None else {"value": p[0], "metadata": p[1]} for p in pairs]
    return pa.array(rows, VARIANT_STORAGE)


def variant_objects(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Convert a column of variants to Python objects; null is None.

    Raises
    ------
    CorruptError
        A value is not a variant.
    """
    return [
        None if row is None else decode_variant(row["value"], row["metadata"])
        for row in column.to_pylist()
    ]


def encode_variant(value: object) -> tuple[bytes, bytes]:
    """Encode an object as a variant: its value and its metadata.

    Raises
    ------
    InvalidInputError
        The object, or one inside it, cannot be a variant.

    Examples
    --------
    >>> [part.hex() for part in encode_variant({"a": 1})]
    ['02010000020c01', '0101000161']
    """
    keys: dict[str, int] = {}
    out = _encoded(value, keys, 0)
    metadata = metadata_of(keys)
    if max(len(out), len(metadata)) > SIZE_BYTES_MAX:
        raise _no_variant(value, f"is larger than {SIZE_BYTES_MAX} bytes")
    return out, metadata


def _no_variant(value: object, reason: str) -> InvalidInputError:
    message = f"{shortened(repr(value))} {reason}, so it cannot be stored as a VARIANT."
    return InvalidInputError(message, kind="value_type")


def _encoded(value: object, keys: dict[str, int], depth: int) -> bytes:
    if depth > DEPTH_MAX:
        raise _no_variant(value, f"is nested more than {DEPTH_MAX} levels deep")
    match value:
        case None:
            return primitive(NULL)
        case bool() | np.bool_():
            return primitive(TRUE if value else FALSE)
        case int() | np.integer():
            return _encoded_integer(int(value))
        case float() | np.floating():
            return primitive(DOUBLE, struct.pack("<d", value))
        case str():
            return _encoded_text(value)
        case bytes() | bytearray() | memoryview():
            return binary_of(bytes(value))
        case decimal.Decimal():
            return _encoded_decimal(value)
        case dt.datetime():
            zoned = value.utcoffset() is not None
            micros = (value - (_EPOCH_UTC if zoned else _EPOCH)) // _MICROSECOND
            return primitive(TIMESTAMP if zoned else TIMESTAMP_NTZ, struct.pack("<q", micros))
        case dt.date():
            return primitive(DATE, struct.pack("<i", (value - _EPOCH_DATE).days))
        case uuid.UUID():
            return primitive(UUID, value.bytes)
        case list() | tuple():
            return array_of([_encoded(v, keys, depth + 1) for v in value])
        case Mapping():
            return _encoded_object(value, keys, depth)
    raise _no_variant(value, f"is of the type {type(value).__name__}")


def _encoded_integer(value: int) -> bytes:
    found = integer_of(value)
    return _encoded_decimal(decimal.Decimal(value)) if found is None else found


def _encoded_text(text: str) -> bytes:
    try:
        return text_of(text.encode())
    except UnicodeEncodeError as error:
        raise _no_variant(text, "holds half a character (a lone surrogate)") from error


def _encoded_decimal(value: decimal.Decimal) -> bytes:
    if not value.is_finite():
        raise _no_variant(value, "is not a number")
    found = decimal_of(value)
    if found is None:
        raise _no_variant(value, "has more than 38 digits")
    return found


def _encoded_object(value: Mapping[Any, object], keys: dict[str, int], depth: int) -> bytes:
    if not all(isinstance(key, str) for key in value):
        raise _no_variant(value, "has keys that are not text")
    names = sorted(value)
    ids = [keys.setdefault(name, len(keys)) for name in names]
    for name in names:
        _encoded_text(name)  # refuses text without UTF-8
    parts = [_encoded(value[name], keys, depth + 1) for name in names]
    return object_of(zip(names, ids, parts, strict=True))


def decode_variant(value: bytes, metadata: bytes) -> object:
    """Decode a variant to a Python object.

    Raises
    ------
    CorruptError
        The bytes are not a variant.

    Examples
    --------
    >>> decode_variant(bytes.fromhex("02010000020c01"), bytes.fromhex("0101000161"))
    {'a': 1}
    """
    try:
        return _Decoder(metadata_keys(memoryview(metadata)), len(value)).value(memoryview(value), 0)
    except (IndexError, ValueError, struct.error, OverflowError) as error:
        message = f"The bytes {shortened(value.hex())} are not a variant: {error}."
        raise CorruptError(message, kind="variant") from error


class _Decoder:
    """Decodes one value; it decodes at most as many inner values as there are bytes."""

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
        if kind == SHORT_TEXT:
            return str(part_of(memory, 1, info), "utf-8")
        if kind == PRIMITIVE:
            return _decoded_primitive(info, memory[1:])
        inside = container(memory)
        values = [self.value(memory[start:], depth + 1) for start in inside.starts]
        if inside.ids is None:
            return values
        return dict(zip((self._keys[i] for i in inside.ids), values, strict=True))


def _decoded_primitive(number: int, content: memoryview) -> object:
    if number in INTEGERS:
        form = INTEGERS[number]
        return struct.unpack(form, part_of(content, 0, struct.calcsize(form)))[0]
    if number in DECIMALS:
        unscaled = int.from_bytes(part_of(content, 1, DECIMALS[number]), "little", signed=True)
        return decimal.Decimal(unscaled).scaleb(-content[0], context=decimal.Context(prec=60))
    match number:
        case 0 | 1 | 2:
            return (None, True, False)[number]
        case 7:
            return struct.unpack("<d", part_of(content, 0, 8))[0]
        case 14:
            return struct.unpack("<f", part_of(content, 0, 4))[0]
        case 15 | 16:
            raw = bytes(part_of(content, 4, number_at(content, 0, 4)))
            return raw if number == BINARY else raw.decode()
        case 20:
            return uuid.UUID(bytes=bytes(part_of(content, 0, 16)))
        case 11:
            return _EPOCH_DATE + dt.timedelta(days=struct.unpack("<i", part_of(content, 0, 4))[0])
        case 12 | 13 | 17 | 18 | 19:
            return _decoded_time(number, struct.unpack("<q", part_of(content, 0, 8))[0])
    raise ValueError(f"its type number {number} is not known")


def _decoded_time(number: int, count: int) -> object:
    if number in {TIMESTAMP_NS, TIMESTAMP_NTZ_NS}:
        return np.datetime64(count, "ns")
    moment = (_EPOCH_UTC if number == TIMESTAMP else _EPOCH) + count * _MICROSECOND
    if number != TIME:
        return moment
    if not 0 <= count < 86_400_000_000:
        raise ValueError("its time is outside one day")
    return moment.time()
