"""A type of PostgreSQL and its type in the lake.

The table is that of Paimon (``PostgresTypeUtils.java``), with arrays of every type in it. A type
that is not in the table has no type in the lake, unless ``unknown-to-string`` is on.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.cdc.source.type_mapping import Switch, TypeMapping
from tidelake.types import DataType, TypeRoot
from tidelake.types.data_type import STRING_LENGTH_MAX

_STRING = DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX)
_BYTES = DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
_FIXED = {
    "bool": DataType(TypeRoot.BOOLEAN),
    "bytea": _BYTES,
    "int2": DataType(TypeRoot.SMALLINT),
    "int4": DataType(TypeRoot.INT),
    "int8": DataType(TypeRoot.BIGINT),
    "float4": DataType(TypeRoot.FLOAT),
    "float8": DataType(TypeRoot.DOUBLE),
    "text": _STRING,
    "json": _STRING,
    "jsonb": _STRING,
    "uuid": _STRING,
    "enum": _STRING,
    "date": DataType(TypeRoot.DATE),
}
_DIGITS_MAX, _DIGITS_FREE_SCALE, _FRACTION_DIGITS = 38, 18, 6
_HEADER = 4
"""Bytes that a modifier counts with a length."""

BUILT_IN = {
    16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 114: "json",
    700: "float4", 701: "float8", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time",
    1114: "timestamp", 1184: "timestamptz", 1560: "bit", 1562: "varbit", 1700: "numeric",
    2950: "uuid", 3802: "jsonb",
}  # fmt: skip
"""Names of the types of the table by their oid, which no server changes."""

BUILT_IN_ARRAYS = {
    1000: 16, 1001: 17, 1016: 20, 1005: 21, 1007: 23, 1009: 25, 199: 114, 1021: 700, 1022: 701,
    1014: 1042, 1015: 1043, 1182: 1082, 1183: 1083, 1115: 1114, 1185: 1184, 1561: 1560, 1563: 1562,
    1231: 1700, 2951: 2950, 3807: 3802,
}  # fmt: skip
"""Oid of an array to that of its element."""


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type of PostgreSQL.

    Parameters
    ----------
    word : str
        Its name in ``pg_type``, ``enum`` for all enums; empty for one that has no type in the lake.
        Of an array the element's.
    modifier : int
        ``atttypmod``: length, or precision and scale; -1 for none.
    is_array : bool
        Of any number of dimensions.
    """

    word: str
    modifier: int = -1
    is_array: bool = False

    @classmethod
    def built_in(cls, oid: int, modifier: int) -> PostgresType | None:
        """The type of an oid that is the same in every server; None if it is another one.

        Examples
        --------
        >>> PostgresType.built_in(1231, -1)
        PostgresType(word='numeric', modifier=-1, is_array=True)
        """
        word = BUILT_IN.get(BUILT_IN_ARRAYS.get(oid, oid))
        return None if word is None else cls(word, modifier, oid in BUILT_IN_ARRAYS)

    @property
    def shown(self) -> str:
        """Its name in SQL, without length and precision."""
        name = _SHOWN.get(self.word, self.word or "unknown")
        return f"{name}[]" if self.is_array else name

    def lake_type(self, mapping: TypeMapping) -> DataType | None:
        """Its type in the lake, nullable; None for none.

        Examples
        --------
        >>> str(PostgresType("numeric", (12 << 16 | 2) + 4).lake_type(TypeMapping()))
        'DECIMAL(12, 2)'
        >>> PostgresType("", -1).lake_type(TypeMapping()) is None
        True
        """
        if Switch.TO_STRING in mapping:
            return _STRING
        found = self._element(mapping)
        if found is None:
            return _STRING if Switch.UNKNOWN_TO_STRING in mapping else None
        return DataType(TypeRoot.ARRAY, children=(found,)) if self.is_array else found

    def _element(self, mapping: TypeMapping) -> DataType | None:
        if self.word in _FIXED:
            return _FIXED[self.word]
        match self.word:
            case "numeric":
                return _decimal(self.modifier)
            case "bpchar" | "varchar":
                length = self.modifier - _HEADER
                if Switch.CHAR_TO_STRING in mapping or length < 1:
                    return _STRING
                root = TypeRoot.CHAR if self.word == "bpchar" else TypeRoot.VARCHAR
                return DataType(root, length=length)
            case "bit" | "varbit":
                return _bits(self.word, self.modifier)
            case "time" | "timestamp" | "timestamptz":
                root = {
                    "time": TypeRoot.TIME,
                    "timestamp": TypeRoot.TIMESTAMP,
                    "timestamptz": TypeRoot.TIMESTAMP_LTZ,
                }[self.word]
                digits = self.modifier if self.modifier >= 0 else _FRACTION_DIGITS
                return DataType(root, precision=digits)
        return None


_SHOWN = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bpchar": "character",
    "varchar": "character varying",
    "varbit": "bit varying",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
}


def _decimal(modifier: int) -> DataType:
    if modifier < 0:
        return DataType(TypeRoot.DECIMAL, precision=_DIGITS_MAX, scale=_DIGITS_FREE_SCALE)
    digits = ((modifier - _HEADER) >> 16) & 0xFFFF
    # eleven bits with a sign since PostgreSQL 15
    scale = (((modifier - _HEADER) & 0x7FF) ^ 1024) - 1024
    if digits > _DIGITS_MAX or not 0 <= scale <= digits:
        return _STRING
    return DataType(TypeRoot.DECIMAL, precision=digits, scale=scale)


def _bits(word: str, modifier: int) -> DataType:
    if modifier < 0 and word == "varbit":
        return DataType(TypeRoot.BINARY, length=STRING_LENGTH_MAX // 8)
    if modifier <= 1:
        return DataType(TypeRoot.BOOLEAN)
    return DataType(TypeRoot.BINARY, length=(modifier + 7) // 8)
