"""Single values in Iceberg's binary form, which bounds have, and in that of its Avro files.

=======================  ======================================  =============================
type                     bounds                                  Avro
=======================  ======================================  =============================
boolean                  1 byte, 0 or 1                          boolean
int, date                4 bytes, little-endian                  int
long                     8 bytes, little-endian                  long
timestamp                8 bytes, little-endian: us, or ns       long
float, double            4 or 8 bytes, little-endian             float, double
string                   UTF-8                                   string
binary                   the bytes                               bytes
decimal                  unscaled, shortest two's complement,    the same, in a fixed length
                         big-endian
=======================  ======================================  =============================

Source: the Iceberg specification, "Binary single-value serialization" and "Avro".
"""

from __future__ import annotations

import math
import struct
from typing import Any

from tidelake.commit.iceberg.iceberg_schema import is_nanoseconds
from tidelake.types import DataType
from tidelake.types.data_type import TypeRoot

NANOS_PER_MICRO = 1000
_NUMBERS = {
    TypeRoot.BOOLEAN: struct.Struct("<?"),
    TypeRoot.INT: struct.Struct("<i"),
    TypeRoot.DATE: struct.Struct("<i"),
    TypeRoot.BIGINT: struct.Struct("<q"),
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
    TypeRoot.TIMESTAMP: struct.Struct("<q"),
    TypeRoot.TIMESTAMP_LTZ: struct.Struct("<q"),
}
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def bound_of(value: Any, data_type: DataType) -> bytes:
    """The binary form of a storage value that is not null.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> bound_of(1, parse_type("BIGINT")).hex(), bound_of(-129, parse_type("DECIMAL(5, 2)")).hex()
    ('0100000000000000', 'ff7f')
    """
    if data_type.root is TypeRoot.DECIMAL:
        return int(value).to_bytes(_bytes_count(value), "big", signed=True)
    if data_type.root in _NUMBERS:
        return _NUMBERS[data_type.root].pack(_number(value, data_type))
    return value.encode() if isinstance(value, str) else bytes(value)


def avro_value(value: Any, data_type: DataType) -> Any:
    """A storage value as it is in an Avro file; None stays."""
    if value is None:
        return None
    if data_type.root is TypeRoot.DECIMAL:
        return int(value).to_bytes(decimal_bytes_max(data_type), "big", signed=True)
    return _number(value, data_type)


def storage_value(value: Any, data_type: DataType) -> Any:
    """The storage value of one in an Avro file; None stays."""
    if value is None:
        return None
    if data_type.root is TypeRoot.DECIMAL:
        return int.from_bytes(value, "big", signed=True)
    if data_type.root in _TIMESTAMPS and not is_nanoseconds(data_type):
        return value * NANOS_PER_MICRO
    return value


def _number(value: Any, data_type: DataType) -> Any:
    if data_type.root in _TIMESTAMPS and not is_nanoseconds(data_type):
        return value // NANOS_PER_MICRO
    return value


def is_nan(value: Any) -> bool:
    """Whether a storage value is not a number: no bound may be one."""
    return isinstance(value, float) and math.isnan(value)


def decimal_bytes_max(data_type: DataType) -> int:
    """The length of a decimal in Avro files: the least that holds all its digits.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> [decimal_bytes_max(parse_type(f"DECIMAL({p}, 0)")) for p in (1, 2, 3, 9, 18, 38)]
    [1, 1, 2, 4, 8, 16]
    """
    return _bytes_count(10 ** int(data_type.precision or 0) - 1)


def _bytes_count(number: int) -> int:
    """The bytes of a number in two's complement."""
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return (bits + 7) // 8
