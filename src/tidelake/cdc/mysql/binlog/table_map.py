"""TABLE_MAP: the columns of the rows that follow, with the metadata that FULL adds.

Body::

    table id u48 | flags u16 | n u8, database, 0 | n u8, table, 0 | columns (packed)
    | type u8 per column | packed n, metadata of types | nullable bits | fields (type u8, packed n)

Source: ``Table_map_event`` of MySQL 8's ``rows_event.h``; MariaDB 10.5 and later write the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tidelake.cdc.mysql.binlog.events import packed_int
from tidelake.errors import UnsupportedError


class ColumnType(IntEnum):
    """Types of columns in the log (on the wire: never renumber)."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    MARIA_BLOB_COMPRESSED = 140
    MARIA_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


BINARY_COLLATION = 63

_T = ColumnType
_META_SIZES = {
    _T.FLOAT: 1, _T.DOUBLE: 1, _T.VARCHAR: 2, _T.BIT: 2, _T.TIMESTAMP2: 1, _T.DATETIME2: 1,
    _T.TIME2: 1, _T.JSON: 1, _T.NEWDECIMAL: 2, _T.BLOB: 1, _T.VAR_STRING: 2, _T.STRING: 2,
    _T.GEOMETRY: 1, _T.ENUM: 2, _T.SET: 2, _T.VECTOR: 1, _T.MARIA_BLOB_COMPRESSED: 1,
    _T.MARIA_VARCHAR_COMPRESSED: 2,
}  # fmt: skip
_NUMERIC = frozenset(
    {_T.TINY, _T.SHORT, _T.INT24, _T.LONG, _T.LONGLONG, _T.NEWDECIMAL, _T.FLOAT, _T.DOUBLE}
)
# MariaDB counts YEAR among the numbers, MySQL does not
_CHARACTER = frozenset({
    _T.STRING, _T.VAR_STRING, _T.VARCHAR, _T.BLOB, _T.GEOMETRY, _T.MARIA_BLOB_COMPRESSED,
    _T.MARIA_VARCHAR_COMPRESSED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """One column as the log has it.

    Parameters
    ----------
    type : int
        A :class:`ColumnType`; ENUM and SET in place of the STRING that the log says.
    size : int
        VARCHAR and STRING: bytes at most. BLOB, GEOMETRY, JSON: bytes of the length before each
        value. BIT: bits. ENUM, SET: bytes of a value. Times: digits of the fraction.
    precision, scale : int
        NEWDECIMAL only.
    name, is_unsigned, collation, labels, geometry : optional
        None where the server sent no metadata of that.
    """

    type: int
    size: int
    is_nullable: bool
    precision: int = 0
    scale: int = 0
    name: str | None = None
    is_unsigned: bool | None = None
    collation: int | None = None
    labels: tuple[bytes, ...] | None = None
    geometry: int | None = None


@dataclass(frozen=True, slots=True)
class TableMap:
    """The columns of one table at one place of the log.

    Parameters
    ----------
    keys : tuple of int or None
        Numbers of the primary key's columns; None where the server sent no metadata.
    """

    database: str
    table: str
    columns: tuple[MappedColumn, ...]
    keys: tuple[int, ...] | None = None

    @property
    def has_names(self) -> bool:
        """Whether the server sent the names of columns, which says that its metadata is FULL."""
        return bool(self.columns) and self.columns[0].name is not None


def names_of(body: bytes) -> tuple[str, str, int]:
    """Read only database and table, and where the rest begins."""
    at = 8
    size = body[at]
    database = body[at + 1 : at + 1 + size].decode()
    at += size + 2
    size = body[at]
    return database, body[at + 1 : at + 1 + size].decode(), at + size + 2


def parse_table_map(body: bytes, *, is_maria: bool) -> TableMap:
    """Read a TABLE_MAP.

    Raises
    ------
    UnsupportedError
        A column has a type that is not known.
    """
    database, table, at = names_of(body)
    count, at = packed_int(body, at)
    kinds = body[at : at + count]
    at += count
    size, at = packed_int(body, at)
    details = list(_type_details(kinds, body[at : at + size], f"{database}.{table}"))
    at += size
    nullable = _bits(body[at : at + (count + 7) // 8], count, is_low_first=True)
    at += (count + 7) // 8
    found = _metadata(body, at)
    real = [kind for kind, _, _, _ in details]
    signs = _signs(found.get(1), real, is_maria=is_maria)
    collations = _collations(found, real)
    names: Sequence[str | None] = [None] * count
    if 4 in found:
        names = [name.decode() for name in _texts(found[4])]
    labels = _labels(found, real)
    shapes = _shapes(found.get(7), real)
    keys = _keys(found)
    if keys is None and 4 in found:
        keys = ()
    columns = tuple(
        MappedColumn(
            kind, width, nullable[i], precision, scale, names[i], signs.get(i), collations.get(i),
            labels.get(i), shapes.get(i),
        )
        for i, (kind, width, precision, scale) in enumerate(details)
    )  # fmt: skip
    return TableMap(database, table, columns, keys)


def _type_details(kinds: bytes, meta: bytes, table: str) -> Iterator[tuple[int, int, int, int]]:
    """Give type, size, precision and scale of each column."""
    at = 0
    for number, kind in enumerate(kinds):
        if kind not in ColumnType._value2member_map_:
            message = f"Column {number + 1} of {table} has type {kind}, which is not known."
            raise UnsupportedError(message, kind="cdc_column_type", table=table)
        width = _META_SIZES.get(ColumnType(kind), 0)
        low = meta[at] if width else 0
        high = meta[at + 1] if width == 2 else 0
        at += width
        if kind == _T.NEWDECIMAL:
            yield kind, 0, low, high
        elif kind == _T.BIT:
            yield kind, high * 8 + low, 0, 0
        elif kind in {_T.STRING, _T.ENUM, _T.SET}:
            # the type's byte also holds two high bits of a length above 255
            if low & 0x30 != 0x30:
                yield low | 0x30, high | ((low & 0x30) ^ 0x30) << 4, 0, 0
            else:
                yield low, high, 0, 0
        else:
            yield kind, low | high << 8, 0, 0


def _metadata(body: bytes, at: int) -> dict[int, bytes]:
    found = {}
    while at < len(body):
        kind = body[at]
        size, at = packed_int(body, at + 1)
        found[kind] = body[at : at + size]
        at += size
    return found


def _bits(data: bytes, count: int, *, is_low_first: bool = False) -> list[bool]:
    return [
        bool(data[i >> 3] >> (i & 7 if is_low_first else 7 - (i & 7)) & 1) for i in range(count)
    ]


def _signs(data: bytes | None, kinds: Sequence[int], *, is_maria: bool) -> dict[int, bool]:
    if data is None:
        return {}
    numbers = [
        i for i, kind in enumerate(kinds) if kind in _NUMERIC or (is_maria and kind == _T.YEAR)
    ]
    return dict(zip(numbers, _bits(data, len(numbers)), strict=True))


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = packed_int(data, at)
        found.append(value)
    return found


def _texts(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size, at = packed_int(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _collations(found: dict[int, bytes], kinds: Sequence[int]) -> dict[int, int]:
    """Collation of each column of text and of each ENUM and SET."""
    given: dict[int, int] = {}
    texts = [i for i, kind in enumerate(kinds) if kind in _CHARACTER]
    choices = [i for i, kind in enumerate(kinds) if kind in {_T.ENUM, _T.SET}]
    for columns, default, each in ((texts, 2, 3), (choices, 10, 11)):
        if default in found:
            numbers = _numbers(found[default])
            given.update(dict.fromkeys(columns, numbers[0]))
            for place, collation in zip(numbers[1::2], numbers[2::2], strict=True):
                given[columns[place]] = collation
        elif each in found:
            given.update(zip(columns, _numbers(found[each]), strict=True))
    return given


def _labels(found: dict[int, bytes], kinds: Sequence[int]) -> dict[int, tuple[bytes, ...]]:
    """Values of each ENUM and SET, in the column's charset."""
    given = {}
    for kind, field in ((_T.SET, 5), (_T.ENUM, 6)):
        if field not in found:
            continue
        data, at = found[field], 0
        for number in (i for i, one in enumerate(kinds) if one == kind):
            count, at = packed_int(data, at)
            labels = []
            for _ in range(count):
                size, at = packed_int(data, at)
                labels.append(data[at : at + size])
                at += size
            given[number] = tuple(labels)
    return given


def _shapes(data: bytes | None, kinds: Sequence[int]) -> dict[int, int]:
    if data is None:
        return {}
    columns = [i for i, kind in enumerate(kinds) if kind == _T.GEOMETRY]
    return dict(zip(columns, _numbers(data), strict=False))


def _keys(found: dict[int, bytes]) -> tuple[int, ...] | None:
    if 8 in found:
        return tuple(_numbers(found[8]))
    if 9 in found:
        return tuple(_numbers(found[9])[::2])
    return None
