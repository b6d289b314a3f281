"""Types of MySQL and MariaDB: read from their text or from the log, and what they are in the lake.

Source of the mapping: org.apache.paimon.flink.action.cdc.mysql.MySqlTypeUtils; a type that it does
not know has no type in the lake, unless the switch ``unknown-to-string`` is on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.cdc.mysql.binlog.table_map import BINARY_COLLATION, ColumnType, MappedColumn
from tidelake.cdc.source.type_mapping import Switch, TypeMapping
from tidelake.types import DataType, TypeRoot
from tidelake.types.data_type import STRING_LENGTH_MAX

DECIMAL_DIGITS_MAX = 38

_T = ColumnType
_TEXT = re.compile(r"\s*([a-z0-9_]+)\s*(?:\((.*)\))?([^()]*)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_SAME = {
    "bool": "tinyint", "boolean": "tinyint", "integer": "int", "dec": "decimal", "fixed": "decimal",
    "numeric": "decimal", "real": "double", "geomcollection": "geometrycollection",
}  # fmt: skip
_INTEGERS = {
    "tinyint": (TypeRoot.TINYINT, TypeRoot.SMALLINT), "smallint": (TypeRoot.SMALLINT, TypeRoot.INT),
    "mediumint": (TypeRoot.INT, TypeRoot.BIGINT), "int": (TypeRoot.INT, TypeRoot.BIGINT),
}  # fmt: skip
_WITH_LENGTH = frozenset({"char", "varchar", "binary", "varbinary", "bit"})
_WITH_DIGITS = frozenset({"time", "datetime", "timestamp"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BLOBS = frozenset({"tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
              "multipolygon", "geometrycollection")  # fmt: skip
_LOG_INTEGERS = {_T.TINY: "tinyint", _T.SHORT: "smallint", _T.INT24: "mediumint", _T.LONG: "int",
                 _T.LONGLONG: "bigint"}  # fmt: skip
_LOG_PLAIN = {_T.FLOAT: "float", _T.DOUBLE: "double", _T.YEAR: "year", _T.DATE: "date",
              _T.NEWDATE: "date", _T.TIME: "time", _T.DATETIME: "datetime",
              _T.TIMESTAMP: "timestamp", _T.JSON: "json", _T.VECTOR: "vector"}  # fmt: skip
_LOG_TIMES = {_T.TIME2: "time", _T.DATETIME2: "datetime", _T.TIMESTAMP2: "timestamp"}
_SIZES = ("", "tiny", "", "medium", "long")


@dataclass(frozen=True, slots=True)
class MySqlType:
    """A type as the server has it, without what changes no value: display widths, ZEROFILL.

    Parameters
    ----------
    name : str
        In small letters: ``int``, ``varchar``.
    length : int
        Characters, bytes, bits, digits of DECIMAL, or digits of a second's fraction; 1 of
        ``tinyint(1)``; else 0.
    labels : tuple of str
        Values of ENUM and SET.
    """

    name: str
    length: int = 0
    scale: int = 0
    is_unsigned: bool = False
    labels: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> MySqlType:
        """Read a type as the server prints it.

        Examples
        --------
        >>> str(MySqlType.parse("int(10) unsigned zerofill")), str(MySqlType.parse("TINYINT(1)"))
        ('int unsigned', 'tinyint(1)')
        >>> MySqlType.parse("enum('a','it''s')").labels
        ('a', "it's")
        """
        found = _TEXT.match(text)
        assert found is not None, text
        name = found[1].lower()
        is_bool = name in {"bool", "boolean"}
        name = _SAME.get(name, name)
        inside, after = (found[2] or "").strip(), found[3].lower()
        if name in {"enum", "set"}:
            return cls(name, labels=tuple(_unquoted(one) for one in _LABEL.findall(inside)))
        numbers = [int(part) for part in inside.split(",")] if inside else []
        is_unsigned = "unsigned" in after or "zerofill" in after
        if name == "decimal":
            precision = numbers[0] if numbers else 10
            return cls(name, precision, numbers[1] if len(numbers) > 1 else 0, is_unsigned)
        if name in _WITH_LENGTH:
            return cls(name, numbers[0] if numbers else 1)
        if name in _WITH_DIGITS:
            return cls(name, numbers[0] if numbers else 0)
        if name == "tinyint" and (is_bool or numbers[:1] == [1]) and not is_unsigned:
            return cls(name, 1)
        return cls(name, is_unsigned=is_unsigned and name != "year")

    def __str__(self) -> str:
        text = self.name
        if self.labels:
            text += "(" + ",".join("'" + one.replace("'", "''") + "'" for one in self.labels) + ")"
        elif self.name == "decimal":
            text += f"({self.length},{self.scale})"
        elif self.length:
            text += f"({self.length})"
        return f"{text} unsigned" if self.is_unsigned else text


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text.replace("''", "'"), flags=re.DOTALL)


def native_type_of(column: MappedColumn, labels: tuple[str, ...], char_bytes: int) -> MySqlType:
    """Give the type that the log tells; it does not know ``tinyint(1)``.

    Parameters
    ----------
    labels : tuple of str
        The values of ENUM and SET as text.
    char_bytes : int
        Bytes of one character at most.
    """
    kind, is_unsigned = ColumnType(column.type), bool(column.is_unsigned)
    is_binary = column.collation == BINARY_COLLATION
    if kind in _LOG_INTEGERS:
        return MySqlType(_LOG_INTEGERS[kind], is_unsigned=is_unsigned)
    if kind == _T.NEWDECIMAL:
        return MySqlType("decimal", column.precision, column.scale, is_unsigned)
    if kind in _LOG_PLAIN:
        number = kind in {_T.FLOAT, _T.DOUBLE}
        return MySqlType(_LOG_PLAIN[kind], is_unsigned=is_unsigned and number)
    if kind in _LOG_TIMES:
        return MySqlType(_LOG_TIMES[kind], column.size)
    if kind == _T.BIT:
        return MySqlType("bit", column.size)
    if kind in {_T.ENUM, _T.SET}:
        return MySqlType("enum" if kind == _T.ENUM else "set", labels=labels)
    if kind == _T.GEOMETRY:
        return MySqlType(GEOMETRIES[column.geometry or 0])
    if kind == _T.BLOB:
        return MySqlType(_SIZES[column.size] + ("blob" if is_binary else "text"))
    if kind in {_T.VARCHAR, _T.VAR_STRING}:
        if is_binary:
            return MySqlType("varbinary", column.size)
        return MySqlType("varchar", column.size // char_bytes)
    if kind == _T.STRING:
        if is_binary:
            return MySqlType("binary", column.size)
        return MySqlType("char", column.size // char_bytes)
    return MySqlType(f"compressed {kind.name.lower()}")


def to_lake_type(native: MySqlType, mapping: TypeMapping) -> DataType | None:
    """Give the nullable type in the lake; None where there is none.

    Examples
    --------
    >>> str(to_lake_type(MySqlType.parse("bigint unsigned"), TypeMapping()))
    'DECIMAL(20, 0)'
    >>> str(to_lake_type(MySqlType.parse("set('a','b')"), TypeMapping()))
    'ARRAY<STRING>'
    """
    found = _mapped(native, mapping)
    if found is None:
        return STRING if Switch.UNKNOWN_TO_STRING in mapping and native.name in SPECIALS else None
    return STRING if Switch.TO_STRING in mapping else found


STRING = DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX)
BYTES = DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
SPECIALS = frozenset({"inet4", "inet6"})
"""Types of MariaDB that only ``unknown-to-string`` takes."""


def _mapped(native: MySqlType, mapping: TypeMapping) -> DataType | None:
    name, length = native.name, native.length
    if name == "tinyint" and length == 1 and Switch.TINYINT1_NOT_BOOL not in mapping:
        return DataType(TypeRoot.BOOLEAN)
    if name in _INTEGERS:
        return DataType(_INTEGERS[name][native.is_unsigned])
    if name == "bigint":
        if native.is_unsigned and Switch.BIGINT_UNSIGNED_TO_BIGINT not in mapping:
            return DataType(TypeRoot.DECIMAL, precision=20, scale=0)
        return DataType(TypeRoot.BIGINT)
    if name == "decimal":
        if length > DECIMAL_DIGITS_MAX:
            return STRING
        return DataType(TypeRoot.DECIMAL, precision=length, scale=native.scale)
    if name == "bit":
        if length <= 1:
            return DataType(TypeRoot.BOOLEAN)
        return DataType(TypeRoot.BINARY, length=(length + 7) // 8)
    if name in {"datetime", "timestamp"}:
        return DataType(TypeRoot.TIMESTAMP, precision=length)
    if name in {"char", "varchar"}:
        if not length or Switch.CHAR_TO_STRING in mapping:
            return STRING
        root = TypeRoot.CHAR if name == "char" else TypeRoot.VARCHAR
        return DataType(root, length=length)
    if name in {"binary", "varbinary"}:
        return DataType(TypeRoot.VARBINARY, length=length or STRING_LENGTH_MAX)
    if name == "longtext" and Switch.LONGTEXT_TO_BYTES in mapping:
        return BYTES
    return _PLAIN.get(name)


_PLAIN = {
    "year": DataType(TypeRoot.INT),
    "float": DataType(TypeRoot.FLOAT),
    "double": DataType(TypeRoot.DOUBLE),
    "date": DataType(TypeRoot.DATE),
    "time": DataType(TypeRoot.TIME, precision=0),
    "json": STRING,
    "enum": STRING,
    "set": DataType(TypeRoot.ARRAY, children=(STRING,)),
    **dict.fromkeys(BLOBS, BYTES),
    **dict.fromkeys(TEXTS - {"char", "varchar"}, STRING),
    **dict.fromkeys(GEOMETRIES, STRING),
}
