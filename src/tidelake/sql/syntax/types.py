"""Data types in statements, in Flink's and in Spark's spelling.

Where the two give one word different meanings, the form of the statement decides
(:class:`Spelling`):

==================  ==============================  ==============================
Word                Flink's form                    Spark's form
==================  ==============================  ==============================
``TIMESTAMP``       ``TIMESTAMP(6)``                ``TIMESTAMP(6) WITH LOCAL TIME ZONE``
``TIMESTAMP(p)``    ``TIMESTAMP(p)``                the same: only Flink writes it
``TIME``            ``TIME(0)``                     ``TIME(6)``
``BINARY``          ``BINARY(1)``                   ``BYTES``
``CHAR, VARCHAR``   of length 1                     refused: a length is required
==================  ==============================  ==============================
"""

from __future__ import annotations

import enum
from dataclasses import replace

from tidelake.errors import TidelakeError, near_names
from tidelake.sql.syntax.cursor import Cursor
from tidelake.types import DataType, TypeRoot
from tidelake.types.data_type import STRING_LENGTH_MAX, fault_of


class Spelling(enum.Enum):
    """Dialect of a statement."""

    FLINK = "Flink"
    SPARK = "Spark"


_PLAIN = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "BYTE": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "SHORT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "LONG": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "REAL": TypeRoot.FLOAT,
    "DATE": TypeRoot.DATE,
    "VARIANT": TypeRoot.VARIANT,
}
_SIZED = {
    "CHAR": TypeRoot.CHAR,
    "CHARACTER": TypeRoot.CHAR,
    "VARCHAR": TypeRoot.VARCHAR,
    "BINARY": TypeRoot.BINARY,
    "VARBINARY": TypeRoot.VARBINARY,
}
_DECIMALS = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_NESTED = frozenset({"ARRAY", "MAP", "MULTISET", "ROW", "STRUCT"})
_TIMES = frozenset({"TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_OTHERS = frozenset({"STRING", "BYTES", "DOUBLE"})
_KNOWN = sorted(_PLAIN.keys() | _SIZED.keys() | _DECIMALS | _NESTED | _TIMES | _OTHERS)
_REFUSED = {
    "INTERVAL": "store its length as a BIGINT",
    "RAW": "store the value as BYTES",
    "NULL": "give the column the type that its values will have",
    "VOID": "give the column the type that its values will have",
    "GEOMETRY": "store the shape as BYTES (WKB)",
    "GEOGRAPHY": "store the shape as BYTES (WKB)",
    "BLOB": "use BYTES",
    "VECTOR": "use ARRAY<FLOAT>",
}
DIGITS_DEFAULT = 6
DECIMAL_PRECISION_DEFAULT = 10


def read_type(cursor: Cursor, spelling: Spelling) -> DataType:
    """Read a type with its NOT NULL.

    Parameters
    ----------
    cursor : Cursor
        At the first token of the type.

    Returns
    -------
    DataType
        Row fields have no ids.

    Raises
    ------
    InvalidInputError, UnsupportedError
        Shows the wrong token.

    Examples
    --------
    >>> from tidelake.sql.syntax.tokens import tokenize
    >>> text = "MAP<STRING, ROW<a INT NOT NULL, b TIMESTAMP(3)>>"
    >>> str(read_type(Cursor(text, tokenize(text)), Spelling.FLINK))
    'MAP<STRING, ROW<`a` INT NOT NULL, `b` TIMESTAMP(3)>>'
    """
    start = cursor.position
    data_type = _unchecked(cursor, spelling)
    fault = fault_of(data_type)
    if fault is not None:
        raise cursor.error(f"Invalid type: {fault}.", start=start, kind="sql_type")
    if cursor.accept("NOT", "NULL"):
        return data_type.not_null()
    cursor.accept("NULL")
    return data_type


def _unchecked(cursor: Cursor, spelling: Spelling) -> DataType:
    start = cursor.position
    token = cursor.name("type").upper()
    if token in _PLAIN:
        return DataType(_PLAIN[token])
    if token == "DOUBLE":
        cursor.accept("PRECISION")
        return DataType(TypeRoot.DOUBLE)
    if token == "STRING":
        return DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX)
    if token == "BYTES":
        return DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
    if token in _SIZED:
        return _sized(cursor, token, spelling, start)
    if token in _DECIMALS:
        numbers = _numbers(cursor, most=2)
        precision, scale = (*numbers, *(DECIMAL_PRECISION_DEFAULT, 0)[len(numbers) :])
        return DataType(TypeRoot.DECIMAL, precision=precision, scale=scale)
    if token in _TIMES:
        return _time(cursor, token, spelling)
    if token in _NESTED:
        return _nested(cursor, token, spelling)
    raise _no_type(cursor, token, start)


def _no_type(cursor: Cursor, token: str, start: int) -> TidelakeError:
    if token in _REFUSED:
        return cursor.unsupported(
            f"Type {token} cannot be stored: {_REFUSED[token]}.", start=start, kind="sql_type"
        )
    return cursor.error(
        f"There is no type '{token}'.{near_names(token, _KNOWN)}", start=start, kind="sql_type"
    )


def _numbers(cursor: Cursor, *, most: int) -> list[int]:
    if not cursor.peek("("):
        return []
    start = cursor.position
    numbers = cursor.parenthesized("the numbers of a type", lambda: cursor.number("number"))
    if len(numbers) > most:
        raise cursor.error(f"This type takes {most} at most.", start=start, kind="sql_type")
    return numbers


def _sized(cursor: Cursor, token: str, spelling: Spelling, start: int) -> DataType:
    numbers = _numbers(cursor, most=1)
    if numbers:
        return DataType(_SIZED[token], length=numbers[0])
    if spelling is Spelling.FLINK:
        return DataType(_SIZED[token], length=1)
    if _SIZED[token] in {TypeRoot.BINARY, TypeRoot.VARBINARY}:
        return DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
    raise cursor.error(
        f"{token} needs a length, as in {token}(10); STRING has none.", start=start, kind="sql_type"
    )


def _time(cursor: Cursor, token: str, spelling: Spelling) -> DataType:
    numbers = _numbers(cursor, most=1)
    if token == "TIME":
        default = 0 if spelling is Spelling.FLINK else DIGITS_DEFAULT
        _zone(cursor)
        return DataType(TypeRoot.TIME, precision=numbers[0] if numbers else default)
    zone = _zone(cursor)
    if token == "TIMESTAMP_LTZ" or zone == "WITH":
        root = TypeRoot.TIMESTAMP_LTZ
    elif token == "TIMESTAMP_NTZ" or zone == "WITHOUT" or numbers or spelling is Spelling.FLINK:
        root = TypeRoot.TIMESTAMP
    else:
        root = TypeRoot.TIMESTAMP_LTZ
    return DataType(root, precision=numbers[0] if numbers else DIGITS_DEFAULT)


def _zone(cursor: Cursor) -> str:
    """Read WITH [LOCAL] or WITHOUT TIME ZONE."""
    if cursor.accept("WITH", "LOCAL", "TIME", "ZONE"):
        return "WITH"
    if cursor.peek("WITH", "TIME", "ZONE"):
        raise cursor.unsupported(
            "A time with its own zone cannot be stored: use TIMESTAMP_LTZ, an instant.",
            kind="sql_type",
        )
    return "WITHOUT" if cursor.accept("WITHOUT", "TIME", "ZONE") else ""


def _nested(cursor: Cursor, token: str, spelling: Spelling) -> DataType:
    if token in {"ROW", "STRUCT"}:
        return _row(cursor, spelling)
    cursor.expect("<", why=f" after {token}")
    first = read_type(cursor, spelling)
    children: tuple[DataType, ...] = (first,)
    if token == "MAP":
        cursor.expect(",", why=" between the types of a map")
        # in Spark a map key is not null
        key = first.not_null() if spelling is Spelling.SPARK else first
        children = (key, read_type(cursor, spelling))
    cursor.expect(">", why=f" after the type inside {token}")
    return DataType(TypeRoot[token], children=children)


def _row(cursor: Cursor, spelling: Spelling) -> DataType:
    closing = ")" if cursor.peek("(") else ">"
    cursor.expect("(" if closing == ")" else "<", why=" before the fields of a row")
    names: list[str] = []
    types: list[DataType] = []
    details: list[tuple[str | None, str | None]] = []
    while True:
        start = cursor.position
        name = cursor.name("name of a field")
        if name in names:
            raise cursor.error(f"Field '{name}' is listed twice.", start=start)
        names.append(name)
        cursor.accept(":")
        types.append(read_type(cursor, spelling))
        if cursor.accept("COMMENT") or (cursor.token is not None and cursor.token.is_string):
            details.append((cursor.string("comment"), None))
        else:
            details.append((None, None))
        if not cursor.accept(","):
            break
    cursor.expect(closing, why=" after the fields of a row")
    return replace(
        DataType(TypeRoot.ROW),
        children=tuple(types),
        child_fields=tuple((0, name) for name in names),
        child_details=tuple(details) if any(map(any, details)) else (),
    )
