r"""BinaryRow: the one encoding of partitions, keys, statistics and bucket hashes.

Layout of a raw row of n fields, all little-endian::

    offset        size           content
    0             1              row kind: 0 +I, 1 -U, 2 +U, 3 -D (we write 0)
    1             h - 1          null bits: field i is bit i + 8 of the header, lowest bit first
    h             8 * n          one slot per field
    h + 8 * n     8 * k          variable part: values start at multiples of 8, padded with zeros

with h = (n + 63 + 8) / 64 * 8, integer division. Slots:

=====================================  =========================================================
BOOLEAN, TINYINT .. INT, FLOAT,        value in the low bytes, rest zero
DATE (days), TIME (ms of day)
BIGINT, DOUBLE, DECIMAL to p = 18,     8 bytes (decimal: unscaled; timestamp: ms)
TIMESTAMP and LTZ to p = 3
CHAR .. VARBINARY to 7 bytes           the bytes, then 0x80 | length in the last byte
CHAR .. VARBINARY from 8 bytes         u32 length, u32 offset of the bytes from the row's start
DECIMAL from p = 19                    u32 length, u32 offset; 16 bytes are reserved, holding the
                                       shortest big-endian two's complement, left-aligned
TIMESTAMP and LTZ from p = 4           u32 nanoseconds of the millisecond, u32 offset of i64 ms
null                                   zero; DECIMAL from p = 19 and TIMESTAMP from p = 4 still
                                       reserve their bytes: u32 0, u32 offset
=====================================  =========================================================

The *serialized* form in metadata files puts the number of fields (u32, big-endian) before the raw
row; hashes are over the raw row. Source: ``BinaryRow``, ``BinaryRowWriter`` and
``SerializationUtils`` of Paimon 1.3.1; ``tests/golden/binary_row.txt`` holds its bytes. On disk:
never change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tidelake.errors import CorruptError, InvalidInputError, UnsupportedError
from tidelake.types.arrow import MS_PER_DAY
from tidelake.types.data_type import DataType, TypeRoot

__all__ = [
    "DECIMAL_RESERVED_BYTES",
    "INLINE_BYTES_MAX",
    "decode_row",
    "encode_row",
    "header_size_bytes",
    "is_wide_decimal",
    "is_wide_timestamp",
    "serialize_row",
]

INLINE_BYTES_MAX = 7
DECIMAL_RESERVED_BYTES = 16
NANOS_PER_MS = 1_000_000
NARROW_DECIMAL_PRECISION_MAX = 18
NARROW_TIMESTAMP_PRECISION_MAX = 3

_FIXED = {
    TypeRoot.BOOLEAN: struct.Struct("<?"),
    TypeRoot.TINYINT: struct.Struct("<b"),
    TypeRoot.SMALLINT: struct.Struct("<h"),
    TypeRoot.INT: struct.Struct("<i"),
    TypeRoot.DATE: struct.Struct("<i"),
    TypeRoot.TIME: struct.Struct("<i"),
    TypeRoot.BIGINT: struct.Struct("<q"),
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
_LONG = struct.Struct("<q")
_REFERENCE = struct.Struct("<II")  # low word, then offset
_ARITY = struct.Struct(">I")
_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BYTES = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def header_size_bytes(fields_count: int) -> int:
    """Bytes of row kind and null bits, a multiple of 8.

    Examples
    --------
    >>> header_size_bytes(56), header_size_bytes(57)
    (8, 16)
    """
    return (fields_count + 63 + 8) // 64 * 8


def is_wide_decimal(data_type: DataType) -> bool:
    """Whether the type is a DECIMAL kept in the variable part."""
    return (
        data_type.root is TypeRoot.DECIMAL
        and (data_type.precision or 0) > NARROW_DECIMAL_PRECISION_MAX
    )


def is_wide_timestamp(data_type: DataType) -> bool:
    """Whether the type is a timestamp kept in the variable part."""
    return (
        data_type.root in _TIMESTAMPS
        and (data_type.precision or 0) > NARROW_TIMESTAMP_PRECISION_MAX
    )


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Encode storage values as a raw row.

    Parameters
    ----------
    values : sequence of storage values
        As :mod:`tidelake.types.values` says; None is null.
    types : sequence of DataType
        One per value.

    Returns
    -------
    bytes
        A multiple of 8 bytes.

    Raises
    ------
    InvalidInputError
        A value is not a storage value of its type.
    UnsupportedError
        A nested type or VARIANT.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> encode_row((1,), (parse_type("INT"),)).hex(" ", 8)
    '0000000000000000 0100000000000000'
    """
    assert len(values) == len(types), "one type per value"
    header_bytes = header_size_bytes(len(types))
    fixed_bytes = header_bytes + 8 * len(types)
    row = bytearray(fixed_bytes)
    for i, (value, data_type) in enumerate(zip(values, types, strict=True)):
        slot = header_bytes + 8 * i
        if value is None:
            row[(i + 8) >> 3] |= 1 << (i & 7)
            if is_wide_decimal(data_type):
                _REFERENCE.pack_into(row, slot, 0, len(row))
                row += bytes(DECIMAL_RESERVED_BYTES)
            elif is_wide_timestamp(data_type):
                _REFERENCE.pack_into(row, slot, 0, len(row))
                row += bytes(8)
            continue
        try:
            _encode_value(row, slot, value, data_type)
        except (
            struct.error,
            OverflowError,
            AttributeError,
            TypeError,
            UnicodeEncodeError,
        ) as error:
            message = f"{value!r} is not a value of type {data_type}: {error}."
            raise InvalidInputError(message, kind="value_type") from error
    return bytes(row)


def _check_encodable(data_type: DataType) -> None:
    if data_type.is_nested or data_type.root is TypeRoot.VARIANT:
        message = (
            f"A row with a column of type {data_type} cannot be encoded by this version;"
            " leave the column out."
        )
        raise UnsupportedError(message, kind="column_type")


def _encode_value(row: bytearray, slot: int, value: object, data_type: DataType) -> None:
    root = data_type.root
    fixed = _FIXED.get(root)
    if fixed is not None:
        fixed.pack_into(row, slot, value)
    elif root in _TEXT:
        _encode_bytes(row, slot, value.encode())  # type: ignore[attr-defined]
    elif root in _BYTES:
        _encode_bytes(row, slot, memoryview(value).tobytes())  # type: ignore[arg-type]
    elif root is TypeRoot.DECIMAL:
        if not isinstance(value, int):
            raise TypeError("a DECIMAL is kept as its unscaled int")
        if is_wide_decimal(data_type):
            size_bytes = (value if value >= 0 else ~value).bit_length() // 8 + 1
            raw = value.to_bytes(size_bytes, "big", signed=True)
            if size_bytes > DECIMAL_RESERVED_BYTES:
                raise OverflowError("more than 16 bytes")
            _REFERENCE.pack_into(row, slot, size_bytes, len(row))
            row += raw.ljust(DECIMAL_RESERVED_BYTES, b"\0")
        else:
            _LONG.pack_into(row, slot, value)
    elif root in _TIMESTAMPS:
        if not isinstance(value, int):
            raise TypeError("a timestamp is kept as nanoseconds")
        ms, nanos = divmod(value, NANOS_PER_MS)
        if is_wide_timestamp(data_type):
            raw = _LONG.pack(ms)
            _REFERENCE.pack_into(row, slot, nanos, len(row))
            row += raw
        else:
            _LONG.pack_into(row, slot, ms)
    else:
        _check_encodable(data_type)


def _encode_bytes(row: bytearray, slot: int, raw: bytes) -> None:
    size_bytes = len(raw)
    if size_bytes <= INLINE_BYTES_MAX:
        row[slot : slot + size_bytes] = raw
        row[slot + INLINE_BYTES_MAX] = 0x80 | size_bytes
        return
    _REFERENCE.pack_into(row, slot, size_bytes, len(row))
    row += raw
    row += bytes(-size_bytes % 8)


def serialize_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Encode storage values in the form of metadata files: number of fields, then the raw row.

    Examples
    --------
    >>> serialize_row((), ()) == bytes(12)
    True
    """
    return _ARITY.pack(len(types)) + encode_row(values, types)


def decode_row(serialized: bytes, types: Sequence[DataType]) -> tuple[object, ...]:
    """Decode a row from a metadata file.

    Parameters
    ----------
    serialized : bytes
        Number of fields and raw row; arbitrary bytes are safe.
    types : sequence of DataType
        One per field.

    Returns
    -------
    tuple of storage values

    Raises
    ------
    CorruptError
        The bytes are not a row of these types.
    UnsupportedError
        A nested type or VARIANT that is not null.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> types = (parse_type("INT"), parse_type("STRING"))
    >>> decode_row(serialize_row((None, "hello world"), types), types)
    (None, 'hello world')
    """
    if len(serialized) < _ARITY.size:
        raise _corrupt(f"{len(serialized)} bytes are too few")
    fields_count = _ARITY.unpack_from(serialized)[0]
    if fields_count != len(types):
        raise _corrupt(f"it has {fields_count} fields where {len(types)} are expected")
    row = memoryview(serialized)[_ARITY.size :]
    header_bytes = header_size_bytes(fields_count)
    if len(row) < header_bytes + 8 * fields_count:
        raise _corrupt(f"{len(row)} bytes are too few for {fields_count} fields")
    return tuple(
        None
        if row[(i + 8) >> 3] >> (i & 7) & 1
        else _decode_value(row, header_bytes + 8 * i, data_type)
        for i, data_type in enumerate(types)
    )


def _decode_value(row: memoryview, slot: int, data_type: DataType) -> object:
    root = data_type.root
    fixed = _FIXED.get(root)
    if fixed is not None:
        value = fixed.unpack_from(row, slot)[0]
        if root is TypeRoot.TIME and not 0 <= value < MS_PER_DAY:
            raise _corrupt(f"{value} ms is not a time of day")
        return value
    if root in _TEXT:
        try:
            return str(_decode_bytes(row, slot), "utf-8")
        except UnicodeDecodeError as error:
            raise _corrupt("a string is not UTF-8") from error
    if root in _BYTES:
        return bytes(_decode_bytes(row, slot))
    if root is TypeRoot.DECIMAL:
        return _decode_decimal(row, slot, data_type)
    if root in _TIMESTAMPS:
        if not is_wide_timestamp(data_type):
            return _LONG.unpack_from(row, slot)[0] * NANOS_PER_MS
        nanos, offset = _REFERENCE.unpack_from(row, slot)
        if nanos >= NANOS_PER_MS:
            raise _corrupt(f"{nanos} nanoseconds are more than a millisecond")
        return _LONG.unpack(_variable(row, offset, 8))[0] * NANOS_PER_MS + nanos
    _check_encodable(data_type)
    raise AssertionError(f"no decoding for {data_type}")


def _decode_decimal(row: memoryview, slot: int, data_type: DataType) -> int:
    value: int
    if is_wide_decimal(data_type):
        size_bytes, offset = _REFERENCE.unpack_from(row, slot)
        if not 1 <= size_bytes <= DECIMAL_RESERVED_BYTES:
            raise _corrupt(f"a decimal of {size_bytes} bytes")
        value = int.from_bytes(_variable(row, offset, size_bytes), "big", signed=True)
    else:
        value = _LONG.unpack_from(row, slot)[0]
    if abs(value) >= 10 ** (data_type.precision or 0):
        raise _corrupt(f"{value} has more digits than {data_type}")
    return value


def _decode_bytes(row: memoryview, slot: int) -> memoryview:
    mark = row[slot + INLINE_BYTES_MAX]
    if mark & 0x80:
        size_bytes = mark & 0x7F
        if size_bytes > INLINE_BYTES_MAX:
            raise _corrupt(f"an inline value of {size_bytes} bytes")
        return row[slot : slot + size_bytes]
    size_bytes, offset = _REFERENCE.unpack_from(row, slot)
    return _variable(row, offset, size_bytes)


def _variable(row: memoryview, offset: int, size_bytes: int) -> memoryview:
    if offset + size_bytes > len(row):
        raise _corrupt(f"a value ends at byte {offset + size_bytes} of {len(row)}")
    return row[offset : offset + size_bytes]


def _corrupt(reason: str) -> CorruptError:
    message = (
        f"A row in the table's metadata is damaged: {reason}. Restore the metadata file that"
        " holds it from a backup."
    )
    return CorruptError(message, kind="binary_row")
