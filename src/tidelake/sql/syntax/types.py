"""Types as statements write them, in Flink's spelling and in Spark's.

Where the two give one word different meanings, the form of the statement decides, in
:class:`Spelling`:

==================  ==============================  ==============================
Word                Flink's form                    Spark's form
==================  ==============================  ==============================
``TIMESTAMP``       ``TIMESTAMP(6)``                ``TIMESTAMP(6) WITH LOCAL TIME ZONE``
``TIMESTAMP(p)``    ``TIMESTAMP(p)``                the same: only Flink writes it
``TIME``            ``TIME(0)``                     ``TIME(6)``
``BINARY``          ``BINARY(1)``                   ``BYTES``
``CHAR, VARCHAR``   of length 1                     refused: a length must be said
==================  ==============================  ==============================
"""

from __future__ import annotations

import enum
from dataclasses import replace

from tidelake.errors import TidelakeError, near_names
from tidelake.sql.syntax.cursor import Reader
from tidelake.types import DataType, TypeRoot
from tidelake.types.data_type import STRING_LENGTH_MAX, fault_of

__all__ = ["Spelling", "read_type"]


class Spelling(enum.Enum):
    """Whose words a statement uses."""

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


def read_type(reader: Reader, spelling: Spelling) -> DataType:
    """Read a type with its NOT NULL.

    Parameters
    ----------
    reader : Reader
        At the type's first word.
    spelling : Spelling
        Who wrote the statement.

    Returns
    -------
    DataType
        Fields of rows without ids.

    Raises
    ------
    InvalidInputError, UnsupportedError
        At the word that is wrong.

    Examples
    --------
    >>> from tidelake.sql.syntax.tokens import words_of
    >>> text = "MAP<STRING, ROW<a INT NOT NULL, b TIMESTAMP(3)>>"
    >>> str(read_type(Reader(text, words_of(text)), Spelling.FLINK))
    'MAP<STRING, ROW<`a` INT NOT NULL, `b` TIMESTAMP(3)>>'
    """
    start = reader.place
    data_type = _unchecked(reader, spelling)
    fault = fault_of(data_type)
    if fault is not None:
        raise reader.fault(f"This is no type: {fault}.", start=start, kind="sql_type")
    if reader.take("NOT", "NULL"):
        return data_type.not_null()
    reader.take("NULL")
    return data_type


def _unchecked(reader: Reader, spelling: Spelling) -> DataType:
    start = reader.place
    word = reader.name("type").upper()
    if word in _PLAIN:
        return DataType(_PLAIN[word])
    if word == "DOUBLE":
        reader.take("PRECISION")
        return DataType(TypeRoot.DOUBLE)
    if word == "STRING":
        return DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX)
    if word == "BYTES":
        return DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
    if word in _SIZED:
        return _sized(reader, word, spelling, start)
    if word in _DECIMALS:
        numbers = _numbers(reader, most=2)
        precision, scale = (*numbers, *(DECIMAL_PRECISION_DEFAULT, 0)[len(numbers) :])
        return DataType(TypeRoot.DECIMAL, precision=precision, scale=scale)
    if word in _TIMES:
        return _time(reader, word, spelling)
    if word in _NESTED:
        return _nested(reader, word, spelling)
    raise _no_type(reader, word, start)


def _no_type(reader: Reader, word: str, start: int) -> TidelakeError:
    if word in _REFUSED:
        return reader.refusal(
            f"Type {word} cannot be stored: {_REFUSED[word]}.", start=start, kind="sql_type"
        )
    return reader.fault(
        f"There is no type '{word}'.{near_names(word, _KNOWN)}", start=start, kind="sql_type"
    )


def _numbers(reader: Reader, *, most: int) -> list[int]:
    if not reader.sees("("):
        return []
    start = reader.place
    numbers = reader.within("the numbers of a type", lambda: reader.number("number"))
    if len(numbers) > most:
        raise reader.fault(f"This type takes {most} at most.", start=start, kind="sql_type")
    return numbers


def _sized(reader: Reader, word: str, spelling: Spelling, start: int) -> DataType:
    numbers = _numbers(reader, most=1)
    if numbers:
        return DataType(_SIZED[word], length=numbers[0])
    if spelling is Spelling.FLINK:
        return DataType(_SIZED[word], length=1)
    if _SIZED[word] in {TypeRoot.BINARY, TypeRoot.VARBINARY}:
        return DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX)
    raise reader.fault(
        f"{word} needs a length, as in {word}(10); STRING has none.", start=start, kind="sql_type"
    )


def _time(reader: Reader, word: str, spelling: Spelling) -> DataType:
    numbers = _numbers(reader, most=1)
    if word == "TIME":
        default = 0 if spelling is Spelling.FLINK else DIGITS_DEFAULT
        _zone(reader)
        return DataType(TypeRoot.TIME, precision=numbers[0] if numbers else default)
    zone = _zone(reader)
    if word == "TIMESTAMP_LTZ" or zone == "WITH":
        root = TypeRoot.TIMESTAMP_LTZ
    elif word == "TIMESTAMP_NTZ" or zone == "WITHOUT" or numbers or spelling is Spelling.FLINK:
        root = TypeRoot.TIMESTAMP
    else:
        root = TypeRoot.TIMESTAMP_LTZ
    return DataType(root, precision=numbers[0] if numbers else DIGITS_DEFAULT)


def _zone(reader: Reader) -> str:
    """What is said of the time zone."""
    if reader.take("WITH", "LOCAL", "TIME", "ZONE"):
        return "WITH"
    if reader.sees("WITH", "TIME", "ZONE"):
        raise reader.refusal(
            "A time with a zone of its own cannot be stored: use TIMESTAMP_LTZ, an instant.",
            kind="sql_type",
        )
    return "WITHOUT" if reader.take("WITHOUT", "TIME", "ZONE") else ""


def _nested(reader: Reader, word: str, spelling: Spelling) -> DataType:
    if word in {"ROW", "STRUCT"}:
        return _row(reader, spelling)
    reader.need("<", why=f" behind {word}")
    first = read_type(reader, spelling)
    children: tuple[DataType, ...] = (first,)
    if word == "MAP":
        reader.need(",", why=" between the types of a map")
        # a key cannot be null, and Spark's types say so
        key = first.not_null() if spelling is Spelling.SPARK else first
        children = (key, read_type(reader, spelling))
    reader.need(">", why=f" behind the type inside {word}")
    return DataType(TypeRoot[word], children=children)


def _row(reader: Reader, spelling: Spelling) -> DataType:
    closing = ")" if reader.sees("(") else ">"
    reader.need("(" if closing == ")" else "<", why=" before the fields of a row")
    names: list[str] = []
    types: list[DataType] = []
    details: list[tuple[str | None, str | None]] = []
    while True:
        start = reader.place
        name = reader.name("name of a field")
        if name in names:
            raise reader.fault(f"Field '{name}' is there twice.", start=start)
        names.append(name)
        reader.take(":")
        types.append(read_type(reader, spelling))
        if reader.take("COMMENT") or (reader.word is not None and reader.word.is_string):
            details.append((reader.string("comment"), None))
        else:
            details.append((None, None))
        if not reader.take(","):
            break
    reader.need(closing, why=" behind the fields of a row")
    return replace(
        DataType(TypeRoot.ROW),
        children=tuple(types),
        child_fields=tuple((0, name) for name in names),
        child_details=tuple(details) if any(map(any, details)) else (),
    )
