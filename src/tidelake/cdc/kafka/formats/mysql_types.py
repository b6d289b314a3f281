"""Columns from types of MySQL as texts, as Canal and Debezium's ``column.propagate`` send them.

Source of the mapping: Paimon's ``MySqlTypeUtils``. Values are texts of SQL; those of ENUM and SET
may be numbers, and bytes are texts with a character for each.
"""

from __future__ import annotations

import re

from tidelake.cdc.kafka.wire import BYTES, STRING, WireColumn, WireForm, column
from tidelake.cdc.source.type_mapping import Switch, TypeMapping
from tidelake.types import DataType, TypeRoot
from tidelake.types.data_type import STRING_LENGTH_MAX

DECIMAL_DIGITS_MAX = 38
_TYPE = re.compile(r"\s*([a-z ]+?)\s*(?:\((.*)\))?\s*(unsigned)?\s*(zerofill)?\s*$", re.I | re.S)
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.S)
_INTEGERS = {
    "tinyint": (TypeRoot.TINYINT, TypeRoot.SMALLINT),
    "smallint": (TypeRoot.SMALLINT, TypeRoot.INT),
    "mediumint": (TypeRoot.INT, TypeRoot.BIGINT),
    "int": (TypeRoot.INT, TypeRoot.BIGINT),
    "integer": (TypeRoot.INT, TypeRoot.BIGINT),
    "year": (TypeRoot.INT, TypeRoot.INT),
}
_DECIMALS = frozenset({"decimal", "numeric", "fixed", "dec"})
_PLAIN = {
    "bool": DataType(TypeRoot.BOOLEAN),
    "boolean": DataType(TypeRoot.BOOLEAN),
    "float": DataType(TypeRoot.FLOAT),
    "double": DataType(TypeRoot.DOUBLE),
    "double precision": DataType(TypeRoot.DOUBLE),
    "real": DataType(TypeRoot.DOUBLE),
    "date": DataType(TypeRoot.DATE),
    "time": DataType(TypeRoot.TIME, precision=0),
    "long": DataType(TypeRoot.BIGINT),
}
_TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext", "json", "string"})
_BLOBS = frozenset({"tinyblob", "blob", "mediumblob", "longblob"})
_GEOMETRIES = frozenset(
    {
        "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
        "multipolygon", "geometrycollection",
    }
)  # fmt: skip
_SIZED = frozenset({"bit", "char", "varchar", "binary", "varbinary"})
_JDBC_LENGTH = 19
"""Characters of a date and time; a length beyond counts the digits behind the point, and it."""


def mysql_column(name: str, text: str, mapping: TypeMapping) -> WireColumn:
    """Make the column of a type; one that is not known is a text.

    Examples
    --------
    >>> str(mysql_column("a", "TINYINT(2) unsigned zerofill", TypeMapping()).type)
    'SMALLINT'
    >>> mysql_column("a", "ENUM('x','it''s')", TypeMapping()).labels
    ('x', "it's")
    """
    found = _TYPE.fullmatch(text)
    if found is None:
        return column(name, text, STRING, WireForm.FROM_TEXT)
    kind, inside = found[1].lower(), found[2]
    is_unsigned = bool(found[3] or found[4])
    if kind in ("enum", "set"):
        labels = [re.sub(r"\\(.)", r"\1", one.replace("''", "'")) for one in _LABEL.findall(inside)]
        is_text = kind == "enum" or Switch.TO_STRING in mapping
        target = STRING if is_text else DataType(TypeRoot.ARRAY, children=(STRING,))
        return column(name, text, target, WireForm.ENUM if is_text else WireForm.SET, 0, labels)
    numbers = [int(part) for part in inside.split(",")] if inside else []
    target = _type(kind, numbers, mapping, is_unsigned=is_unsigned)
    if kind in _GEOMETRIES:
        return column(name, text, STRING, WireForm.GEOMETRY)
    if Switch.TO_STRING in mapping or target == STRING:
        return column(name, text, STRING, WireForm.FROM_TEXT)
    if target.root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return column(name, text, target, WireForm.LATIN1)
    return column(name, text, target, WireForm.FROM_TEXT)


def _type(kind: str, numbers: list[int], mapping: TypeMapping, *, is_unsigned: bool) -> DataType:
    length = numbers[0] if numbers else 0
    is_flag = kind == "tinyint" and length == 1 and not is_unsigned
    if is_flag and Switch.TINYINT1_NOT_BOOL not in mapping:
        return DataType(TypeRoot.BOOLEAN)
    if kind in _INTEGERS:
        return DataType(_INTEGERS[kind][is_unsigned])
    if kind in ("bigint", "serial"):
        is_wide = kind == "serial" or is_unsigned
        if is_wide and Switch.BIGINT_UNSIGNED_TO_BIGINT not in mapping:
            return DataType(TypeRoot.DECIMAL, precision=20, scale=0)
        return DataType(TypeRoot.BIGINT)
    if kind in _DECIMALS:
        if not 0 < length <= DECIMAL_DIGITS_MAX:
            return STRING
        scale = numbers[1] if len(numbers) > 1 else 0
        return DataType(TypeRoot.DECIMAL, precision=length, scale=scale)
    if kind in ("datetime", "timestamp"):
        digits = max(0, length - _JDBC_LENGTH - 1) if length >= _JDBC_LENGTH else length
        return DataType(TypeRoot.TIMESTAMP, precision=digits)
    if kind in _SIZED:
        return _sized(kind, length, mapping)
    if kind == "longtext" and Switch.LONGTEXT_TO_BYTES in mapping:
        return BYTES
    if kind in _TEXTS or kind in _GEOMETRIES:
        return STRING
    return BYTES if kind in _BLOBS else _PLAIN.get(kind, STRING)


def _sized(kind: str, length: int, mapping: TypeMapping) -> DataType:
    """A type of so many bits, characters or bytes."""
    if kind == "bit":
        if length <= 1:
            return DataType(TypeRoot.BOOLEAN)
        return DataType(TypeRoot.BINARY, length=(length + 7) // 8)
    if kind in ("binary", "varbinary"):
        return DataType(TypeRoot.VARBINARY, length=length or STRING_LENGTH_MAX)
    if not length or Switch.CHAR_TO_STRING in mapping:
        return STRING
    return DataType(TypeRoot.CHAR if kind == "char" else TypeRoot.VARCHAR, length=length)
