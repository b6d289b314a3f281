"""Paimon's data types as values, with their text and JSON forms.

An atomic type is written as SQL-like text (``"DECIMAL(10, 2) NOT NULL"``), a constructed one as a
JSON object (``{"type": "ARRAY", "element": ...}``). Users may write constructed types as text too
(:func:`parse_type_text`). A schema file never holds such text, because it lacks field ids. Source
of the forms: the schema files of Paimon 1.3.1 and 2.1; see ``docs/format/schema.md``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import Any

from tidelake.errors import CorruptError, UnsupportedError

STRING_LENGTH_MAX = 2_147_483_647
NESTED_DEPTH_MAX = 64


class TypeRoot(enum.Enum):
    """The kinds of types; the value is the word in the schema file (on disk: never rename)."""

    # a member is only equal to itself; Enum's own hash is Python code, 0.2 us for each lookup
    __hash__ = object.__hash__

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"
    VARIANT = "VARIANT"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"


_NESTED = frozenset({TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW})


@dataclass(frozen=True, slots=True)
class DataType:
    """One Paimon data type.

    Parameters
    ----------
    nullable : bool
        Whether a value may be null.
    length : int, optional
        CHAR, VARCHAR, BINARY, VARBINARY: largest number of characters or bytes.
    precision : int, optional
        DECIMAL: digits; TIME, TIMESTAMP, TIMESTAMP_LTZ: digits of the second's fraction, 0 to 9.
    scale : int, optional
        DECIMAL: digits after the point.
    children : tuple of DataType
        ARRAY and MULTISET: the element; MAP: key and value; ROW: one per field.
    child_fields : tuple of (int, str)
        ROW: id and name of each field.
    child_details : tuple of (str or None, str or None)
        ROW: description and default value of each field; empty if no field has any.

    Examples
    --------
    >>> str(DataType(TypeRoot.DECIMAL, precision=10, scale=2, nullable=False))
    'DECIMAL(10, 2) NOT NULL'
    """

    root: TypeRoot
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    children: tuple[DataType, ...] = ()
    child_fields: tuple[tuple[int, str], ...] = ()
    child_details: tuple[tuple[str | None, str | None], ...] = ()

    @property
    def is_nested(self) -> bool:
        """Whether the type has inner types."""
        return self.root in _NESTED

    def not_null(self) -> DataType:
        """The same type without nulls."""
        return replace(self, nullable=False)

    def as_nullable(self) -> DataType:
        """The same type with nulls."""
        return self if self.nullable else replace(self, nullable=True)

    def __str__(self) -> str:
        text = self._base_text()
        return text if self.nullable else f"{text} NOT NULL"

    def _base_text(self) -> str:
        match self.root:
            case TypeRoot.DECIMAL:
                return f"DECIMAL({self.precision}, {self.scale})"
            case TypeRoot.VARCHAR if self.length == STRING_LENGTH_MAX:
                return "STRING"
            case TypeRoot.VARBINARY if self.length == STRING_LENGTH_MAX:
                return "BYTES"
            case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
                return f"{self.root.value}({self.length})"
            case TypeRoot.TIME | TypeRoot.TIMESTAMP:
                return f"{self.root.value}({self.precision})"
            case TypeRoot.TIMESTAMP_LTZ:
                return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"
            case TypeRoot.ARRAY | TypeRoot.MULTISET | TypeRoot.MAP:
                return f"{self.root.value}<{', '.join(str(c) for c in self.children)}>"
            case TypeRoot.ROW:
                parts = [
                    f"`{name}` {child}"
                    for (_, name), child in zip(self.child_fields, self.children, strict=True)
                ]
                return f"ROW<{', '.join(parts)}>"
            case _:
                return self.root.value


_LENGTH_MIN = 1
_DECIMAL_DIGITS_MAX = 38
_FRACTION_DIGITS_MAX = 9


def fault_of(data_type: DataType) -> str | None:
    """Describe an invalid length, precision or scale of a type; None if the type is valid.

    Examples
    --------
    >>> fault_of(DataType(TypeRoot.DECIMAL, precision=39, scale=0))
    'its precision must be 1 to 38'
    """
    precision, scale, length = data_type.precision, data_type.scale, data_type.length
    if data_type.root is TypeRoot.DECIMAL:
        if precision is None or not 1 <= precision <= _DECIMAL_DIGITS_MAX:
            return f"its precision must be 1 to {_DECIMAL_DIGITS_MAX}"
        if scale is None or not 0 <= scale <= precision:
            return "its scale must be 0 to its precision"
    elif data_type.root in {TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}:
        if precision is None or not 0 <= precision <= _FRACTION_DIGITS_MAX:
            return f"its precision must be 0 to {_FRACTION_DIGITS_MAX}"
    elif data_type.root in _SIZED.values() and (
        length is None or not _LENGTH_MIN <= length <= STRING_LENGTH_MAX
    ):
        return f"its length must be {_LENGTH_MIN} to {STRING_LENGTH_MAX}"
    return None


_ATOMIC_PART = re.compile(
    r"\s*(?P<name>[A-Z_]+)(?:\s*\(\s*(?P<a>\d+)\s*(?:,\s*(?P<b>\d+)\s*)?\))?"
    r"(?P<ltz>\s+WITH\s+LOCAL\s+TIME\s+ZONE\b)?(?P<notz>\s+WITHOUT\s+TIME\s+ZONE\b)?"
    r"(?P<nn>\s+NOT\s+NULL\b)?(?P<nul>\s+NULL\b)?",
    re.IGNORECASE,
)
_ATOMIC = re.compile(_ATOMIC_PART.pattern + r"\s*$", re.IGNORECASE)
_PLAIN = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "DOUBLE": TypeRoot.DOUBLE,
    "DATE": TypeRoot.DATE,
    "VARIANT": TypeRoot.VARIANT,
}
_SIZED = {
    "CHAR": TypeRoot.CHAR,
    "VARCHAR": TypeRoot.VARCHAR,
    "BINARY": TypeRoot.BINARY,
    "VARBINARY": TypeRoot.VARBINARY,
}
_UNSUPPORTED_NAMES = frozenset({"BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"})


def parse_type(form: str | dict[str, Any], *, _depth: int = 0) -> DataType:
    """Parse a type from its form in a schema file.

    Parameters
    ----------
    form : str or dict
        SQL-like text of an atomic type, or the JSON object of a constructed one.

    Returns
    -------
    DataType

    Raises
    ------
    CorruptError
        The form is not a type.
    UnsupportedError
        A type of a later Paimon that Tidelake does not know.

    Examples
    --------
    >>> parse_type("DECIMAL(10,2)").precision
    10
    >>> str(parse_type({"type": "ARRAY NOT NULL", "element": "INT"}))
    'ARRAY<INT> NOT NULL'
    """
    if _depth > NESTED_DEPTH_MAX:
        message = (
            f"A type is nested more than {NESTED_DEPTH_MAX} levels deep; the schema is refused."
        )
        raise CorruptError(message, kind="type_too_deep")
    parsed = _parse_atomic(form) if isinstance(form, str) else _parse_nested(form, _depth)
    fault = fault_of(parsed)
    if fault is not None:
        raise CorruptError(f"{form!r} is not a Paimon type: {fault}.", kind="bad_type")
    return parsed


def _parse_atomic(text: str) -> DataType:
    match = _ATOMIC.match(text)
    if match is None:
        raise _no_type(repr(text))
    name, nullable = match["name"].upper(), match["nn"] is None
    a = int(match["a"]) if match["a"] else None
    b = int(match["b"]) if match["b"] else None
    if name in _PLAIN:
        return DataType(_PLAIN[name], nullable)
    if name in _SIZED:
        return DataType(_SIZED[name], nullable, length=a if a is not None else 1)
    if name == "STRING":
        return DataType(TypeRoot.VARCHAR, nullable, length=STRING_LENGTH_MAX)
    if name == "BYTES":
        return DataType(TypeRoot.VARBINARY, nullable, length=STRING_LENGTH_MAX)
    if name in {"DECIMAL", "NUMERIC", "DEC"}:
        return DataType(
            TypeRoot.DECIMAL, nullable, precision=10 if a is None else a, scale=b if b else 0
        )
    if name == "TIME":
        return DataType(TypeRoot.TIME, nullable, precision=0 if a is None else a)
    if name in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        ltz = name == "TIMESTAMP_LTZ" or match["ltz"] is not None
        root = TypeRoot.TIMESTAMP_LTZ if ltz else TypeRoot.TIMESTAMP
        return DataType(root, nullable, precision=6 if a is None else a)
    if name in _UNSUPPORTED_NAMES:
        raise UnsupportedError(f"Type '{text}' is not supported by this version.", kind="type")
    raise _no_type(repr(text))


_NESTED_WORD = re.compile(r"\s*(ARRAY|MULTISET|MAP|ROW|STRUCT)\s*([<(])", re.IGNORECASE)
_FIELD_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*:?")
_COMMENT = re.compile(r"\s*(?:COMMENT\s*)?'((?:[^']|'')*)'", re.IGNORECASE)
_NULLABILITY = re.compile(r"(?:\s*(NOT\s+NULL|NULL)\b)?", re.IGNORECASE)
_CLOSING = {"<": ">", "(": ")"}


def parse_type_text(text: str) -> DataType:
    """Parse a type that a user wrote, including constructed ones.

    Parameters
    ----------
    text : str
        Upper or lower case, spaces where one likes: ``MAP<STRING, INT>``, ``ARRAY<DECIMAL(10,2)>``,
        ``MULTISET<T>``, ``ROW<a INT NOT NULL, `b c` STRING 'a comment'>``, ``ROW(a INT)``,
        ``STRUCT<a: INT>``.

    Returns
    -------
    DataType
        Fields of rows have the id 0.

    Raises
    ------
    CorruptError, UnsupportedError
        As of :func:`parse_type`.

    Examples
    --------
    >>> str(parse_type_text("map<string,row<a int not null, b: array<date>>> NOT NULL"))
    'MAP<STRING, ROW<`a` INT NOT NULL, `b` ARRAY<DATE>>> NOT NULL'
    """
    data_type, end = _type_at(text, 0, 0)
    if text[end:].strip():
        raise _no_type(repr(text))
    return data_type


def _type_at(text: str, start: int, depth: int) -> tuple[DataType, int]:
    """The type that begins at a position of a text, and its end."""
    if depth > NESTED_DEPTH_MAX:
        message = f"A type is nested more than {NESTED_DEPTH_MAX} levels deep; it is refused."
        raise CorruptError(message, kind="type_too_deep")
    nested = _NESTED_WORD.match(text, start)
    if nested is None:
        atomic = _ATOMIC_PART.match(text, start)
        if atomic is None:
            raise _no_type(repr(text))
        return parse_type(atomic[0]), atomic.end()
    root = TypeRoot["ROW" if nested[1].upper() == "STRUCT" else nested[1].upper()]
    if nested[2] == "(" and root is not TypeRoot.ROW:
        raise _no_type(repr(text))
    children, names, comments = [], [], []
    place, separator = nested.end(), ","
    while separator == ",":
        if root is TypeRoot.ROW:
            name = _FIELD_NAME.match(text, place)
            if name is None:
                raise _no_type(repr(text))
            names.append(name[2] or name[1].replace("``", "`"))
            place = name.end()
        child, place = _type_at(text, place, depth + 1)
        children.append(child)
        comment = _COMMENT.match(text, place) if names else None
        comments.append((comment[1].replace("''", "'") if comment else None, None))
        place = place if comment is None else comment.end()
        rest = text[place:].lstrip()
        separator, place = rest[:1], len(text) - len(rest) + 1
    wanted = {TypeRoot.MAP: 2, TypeRoot.ROW: len(children)}.get(root, 1)
    if separator != _CLOSING[nested[2]] or len(children) != wanted or len(set(names)) < len(names):
        raise _no_type(repr(text))
    ending = _NULLABILITY.match(text, place)
    assert ending is not None, "it may be empty"
    found = DataType(
        root,
        nullable=(ending[1] or "NULL").upper() == "NULL",
        children=tuple(children),
        child_fields=tuple((0, name) for name in names),
        child_details=tuple(comments) if any(map(any, comments)) else (),
    )
    return found, ending.end()


def _parse_nested(form: dict[str, Any], depth: int) -> DataType:
    word, _, rest = str(form.get("type", "")).strip().upper().partition(" ")
    nullable = rest.strip() != "NOT NULL"
    try:
        match word:
            case "ARRAY" | "MULTISET":
                element = parse_type(form["element"], _depth=depth + 1)
                return DataType(TypeRoot[word], nullable, children=(element,))
            case "MAP":
                key = parse_type(form["key"], _depth=depth + 1)
                value = parse_type(form["value"], _depth=depth + 1)
                return DataType(TypeRoot.MAP, nullable, children=(key, value))
            case "ROW":
                fields = form["fields"]
                details = tuple((f.get("description"), f.get("defaultValue")) for f in fields)
                return DataType(
                    TypeRoot.ROW,
                    nullable,
                    children=tuple(parse_type(f["type"], _depth=depth + 1) for f in fields),
                    child_fields=tuple((int(f["id"]), str(f["name"])) for f in fields),
                    child_details=details if any(map(any, details)) else (),
                )
            case _ if word in _UNSUPPORTED_NAMES:
                raise UnsupportedError(
                    f"Type '{word}' is not supported by this version.", kind="type"
                )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, (CorruptError, UnsupportedError)):
            raise
        raise CorruptError(f"The type {form!r} lacks a part: {error}.", kind="bad_type") from error
    raise _no_type(repr(form))


def _no_type(shown: str) -> CorruptError:
    message = f"{shown} is not a Paimon type, such as INT, STRING, DECIMAL(10, 2) or TIMESTAMP(6)."
    return CorruptError(message, kind="bad_type")


def type_to_json(data_type: DataType) -> str | dict[str, Any]:
    """Return the form of a type in a schema file: text, or an object for a constructed type.

    Examples
    --------
    >>> type_to_json(parse_type("VARCHAR(10) NOT NULL"))
    'VARCHAR(10) NOT NULL'
    """
    if not data_type.is_nested:
        return str(data_type)
    word = data_type.root.value + ("" if data_type.nullable else " NOT NULL")
    if data_type.root is TypeRoot.MAP:
        key, value = data_type.children
        return {"type": word, "key": type_to_json(key), "value": type_to_json(value)}
    if data_type.root is TypeRoot.ROW:
        return {"type": word, "fields": _row_fields_to_json(data_type)}
    return {"type": word, "element": type_to_json(data_type.children[0])}


def _row_fields_to_json(row: DataType) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = []
    details = row.child_details or ((None, None),) * len(row.children)
    for (field_id, name), child, (description, default) in zip(
        row.child_fields, row.children, details, strict=True
    ):
        document = {"id": field_id, "name": name, "type": type_to_json(child)}
        if description is not None:
            document["description"] = description
        if default is not None:
            document["defaultValue"] = default
        documents.append(document)
    return documents
