"""Paimon's types as Hive's, in the words of a metastore's columns, and back for views.

Hive has fewer types: TIME becomes a string, and lengths above Hive's own are strings. Source:
``HiveTypeUtils`` of paimon-hive-common (2.1).
"""

from __future__ import annotations

import re

from tidelake.errors import UnsupportedError, shortened
from tidelake.types.data_type import STRING_LENGTH_MAX, DataType, TypeRoot

CHAR_LENGTH_MAX = 255
VARCHAR_LENGTH_MAX = 65_535
_SIMPLE = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.DATE: "date",
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp",
    TypeRoot.VARIANT: "struct<value:binary,metadata:binary>",
}
_SIZED = re.compile(r"(char|varchar|decimal)\((\d+)(?:,(\d+))?\)")
_FRACTION_DIGITS = 6
_WORDS = {
    "boolean": DataType(TypeRoot.BOOLEAN),
    "tinyint": DataType(TypeRoot.TINYINT),
    "smallint": DataType(TypeRoot.SMALLINT),
    "int": DataType(TypeRoot.INT),
    "bigint": DataType(TypeRoot.BIGINT),
    "float": DataType(TypeRoot.FLOAT),
    "double": DataType(TypeRoot.DOUBLE),
    "string": DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX),
    "binary": DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX),
    "date": DataType(TypeRoot.DATE),
    "timestamp": DataType(TypeRoot.TIMESTAMP, precision=_FRACTION_DIGITS),
}


def hive_type(data_type: DataType) -> str:
    """Hive's words for a type.

    Examples
    --------
    >>> from tidelake.types.data_type import parse_type
    >>> hive_type(parse_type({"type": "ARRAY", "element": "DECIMAL(10, 2)"}))
    'array<decimal(10,2)>'
    >>> hive_type(parse_type("VARCHAR(70000)"))
    'string'
    """
    match data_type.root:
        case TypeRoot.DECIMAL:
            return f"decimal({data_type.precision},{data_type.scale})"
        case TypeRoot.CHAR:
            return _sized("char", data_type.length, CHAR_LENGTH_MAX)
        case TypeRoot.VARCHAR:
            return _sized("varchar", data_type.length, VARCHAR_LENGTH_MAX)
        case TypeRoot.ARRAY:
            return f"array<{hive_type(data_type.children[0])}>"
        case TypeRoot.MULTISET:
            return f"map<{hive_type(data_type.children[0])},int>"
        case TypeRoot.MAP:
            key, value = data_type.children
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case TypeRoot.ROW:
            named = zip(data_type.child_fields, data_type.children, strict=True)
            return f"struct<{','.join(f'{name}:{hive_type(t)}' for (_, name), t in named)}>"
        case root:
            return _SIMPLE[root]


def _sized(word: str, length: int | None, length_max: int) -> str:
    return "string" if length is None or length > length_max else f"{word}({length})"


def paimon_type(text: str) -> DataType:
    """The type of a view's column.

    Raises
    ------
    UnsupportedError
        It is none that a view of Paimon has: nested, or of Hive alone.

    Examples
    --------
    >>> str(paimon_type("decimal(10,2)"))
    'DECIMAL(10, 2)'
    """
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    found = _SIZED.fullmatch(word)
    if found is None:
        message = f"Hive's type '{shortened(text)}' of a view's column is not supported."
        raise UnsupportedError(message, kind="hive_type", type=text)
    size, scale = int(found[2]), int(found[3] or 0)
    if found[1] == "decimal":
        return DataType(TypeRoot.DECIMAL, precision=size, scale=scale)
    return DataType(TypeRoot[found[1].upper()], length=size)
