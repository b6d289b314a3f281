"""Packed columns of a few rows as single values, without Arrow: the way of single gets.

One key or row costs a few microseconds here. Through Arrow each column would cost ten or more,
whatever the rows. The bytes are those of :mod:`tidelake.service.protocol.packed_columns`. Values to
pack are those that Arrow's memory holds (:mod:`tidelake.table.query.keys`): days, milliseconds of
the day, timestamps in their column's unit, unscaled decimals. Unpacked ones are those that Arrow's
``to_pylist`` gives.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

import pyarrow as pa

from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_columns import (
    JOINED,
    TEXT,
    malformed,
    pack_column,
    unpack_column,
    value_width,
)
from tidelake.types.arrow import to_arrow_type
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.schema import DataField

CODES = {
    TypeRoot.BOOLEAN: "?",
    TypeRoot.TINYINT: "b",
    TypeRoot.SMALLINT: "h",
    TypeRoot.INT: "i",
    TypeRoot.BIGINT: "q",
    TypeRoot.FLOAT: "f",
    TypeRoot.DOUBLE: "d",
    TypeRoot.DATE: "i",
    TypeRoot.TIME: "i",
}
PLAIN = (frozenset(CODES) - {TypeRoot.DATE, TypeRoot.TIME}) | JOINED
"""Types whose values are the same in Arrow's memory and in Python."""
DECIMAL_BYTES = 16
DAYS_BEFORE_EPOCH = dt.date(1970, 1, 1).toordinal()


def pack_values(rows: Sequence[Sequence[object]], types: Sequence[DataType]) -> pb.PackedRows:
    """Pack rows of values as Arrow's memory holds them, none of them null.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> pack_values([(7, "ab")], [parse_type("INT"), parse_type("STRING")]).columns[1].values
    b'ab'
    """
    if len(rows) == 1:
        columns = [_packed((value,), t) for value, t in zip(rows[0], types, strict=True)]
    else:
        columns = [_packed(v, t) for v, t in zip(zip(*rows, strict=True), types, strict=True)]
    return pb.PackedRows(count=len(rows), columns=columns)


def _packed(values: Sequence[object], data_type: DataType) -> pb.Column:
    root = data_type.root
    code = CODES.get(root)
    if code is not None:
        return pb.Column(values=struct.pack(f"<{len(values)}{code}", *values))
    if root in JOINED:
        parts = [v.encode() if isinstance(v, str) else bytes(v) for v in values]  # type: ignore[call-overload]
        ends = accumulate(map(len, parts), initial=0)
        offsets = struct.pack(f"<{len(parts) + 1}I", *ends)
        return pb.Column(values=b"".join(parts), offsets=offsets)
    numbers = [v for v in values if isinstance(v, int)]
    assert len(numbers) == len(values), f"whole numbers of {data_type}"
    if root is TypeRoot.DECIMAL:
        packed = b"".join(n.to_bytes(DECIMAL_BYTES, "little", signed=True) for n in numbers)
        return pb.Column(values=packed)
    return pb.Column(values=struct.pack(f"<{len(numbers)}q", *numbers))


def pack_rows(rows: Sequence[Mapping[str, object]], fields: Sequence[DataField]) -> pb.PackedRows:
    """Pack rows of Python values, as Arrow's ``to_pylist`` gives them; nulls are allowed.

    Parameters
    ----------
    rows : sequence of mapping
        The value of each column by name.
    """
    columns = [_packed_nullable([row[f.name] for row in rows], f.type) for f in fields]
    return pb.PackedRows(count=len(rows), columns=columns)


def _packed_nullable(values: Sequence[object], data_type: DataType) -> pb.Column:
    root = data_type.root
    if root not in PLAIN:
        return pack_column(pa.array(values, to_arrow_type(data_type)), data_type)
    if None not in values:
        return _packed(values, data_type)
    nothing: object = "" if root in JOINED else 0
    packed = _packed([nothing if v is None else v for v in values], data_type)
    valid = bytearray((len(values) + 7) // 8)
    for row, value in enumerate(values):
        valid[row >> 3] |= (value is not None) << (row & 7)
    packed.valid = bytes(valid)
    return packed


def python_columns(
    packed: pb.PackedRows, fields: Sequence[DataField], *, what: str = "The rows"
) -> list[list[object]]:
    """Give the values of each column as Arrow's ``to_pylist`` would.

    Raises
    ------
    InvalidInputError
        Of the kind ``packed_rows``: the bytes are no rows of these columns.
    """
    columns = packed.columns
    if len(columns) != len(fields):
        raise malformed(what, f"have {len(columns)} columns and not {len(fields)}")
    return [
        _values(column, field.type, packed.count, what)
        for column, field in zip(columns, fields, strict=True)
    ]


class RowReader:
    """Gives packed rows as dicts; made once for the columns of many answers."""

    def __init__(self, fields: Sequence[DataField]) -> None:
        self.fields = tuple(fields)
        self._names = tuple(field.name for field in fields)
        self._readers = tuple(_column_reader(field.type) for field in fields)

    def rows(self, packed: pb.PackedRows, *, what: str = "The rows") -> list[dict[str, object]]:
        """The rows.

        Raises
        ------
        InvalidInputError
            As of :func:`python_columns`.
        """
        names, columns = self._names, self.columns(packed, what=what)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def columns(self, packed: pb.PackedRows, *, what: str = "The rows") -> list[Sequence[object]]:
        """The values of each column: see :func:`python_columns`."""
        count, columns = packed.count, packed.columns
        if len(columns) != len(self._readers):
            raise malformed(what, f"have {len(columns)} columns and not {len(self._readers)}")
        return [
            read(column, count, what) for read, column in zip(self._readers, columns, strict=True)
        ]


ColumnReader = Callable[[pb.Column, int, str], Sequence[object]]


def _column_reader(data_type: DataType) -> ColumnReader:
    """Reads columns of one type; the frequent forms by few steps, any other by :func:`_values`."""
    root = data_type.root
    code = CODES.get(root)

    def any_form(column: pb.Column, count: int, what: str) -> Sequence[object]:
        return _values(column, data_type, count, what)

    def numbers(column: pb.Column, count: int, what: str) -> Sequence[object]:
        values: bytes = column.values
        if len(values) != count * width or column.valid or column.offsets:
            return _values(column, data_type, count, what)
        return one.unpack(values) if count == 1 else struct.unpack(f"<{count}{code}", values)

    def text(column: pb.Column, count: int, what: str) -> Sequence[object]:
        values: bytes = column.values
        is_one = count == 1 and values and column.offsets == ONE_VALUE.pack(0, len(values))
        if is_one and values.isascii() and not column.valid:
            return (values.decode(),)
        return _values(column, data_type, count, what)

    if root in TEXT:
        return text
    if code is None or root in {TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME}:
        return any_form
    one, width = struct.Struct(f"<{code}"), value_width(data_type) or 0
    return numbers


ONE_VALUE = struct.Struct("<II")
"""The offsets of one text."""


def _values(column: pb.Column, data_type: DataType, count: int, what: str) -> list[object]:
    root = data_type.root
    code = CODES.get(root)
    values: bytes = column.values
    found: list[object]
    if code is not None and root is not TypeRoot.TIME:
        numbers = _numbers(column, data_type, count, what)
        try:
            found = [_date(n) for n in numbers] if root is TypeRoot.DATE else list(numbers)
        except (ValueError, OverflowError):  # a year outside Python's range, or under a null
            return _by_arrow(column, data_type, count, what)
    elif root in JOINED:
        offsets = column.offsets
        if len(offsets) != 4 * (count + 1):
            raise malformed(what, f"have {len(offsets)} bytes of offsets for {count} rows")
        ends = struct.unpack(f"<{count + 1}I", offsets)
        if ends[0] or ends[-1] != len(values) or (count > 1 and sorted(ends) != list(ends)):
            raise malformed(what, f"have offsets that do not cut {len(values)} bytes in order")
        if root in TEXT and values.isascii():
            text = values.decode()  # once: a part of it is the text of the part
            found = [text[a:b] for a, b in pairwise(ends)]
        else:
            found = _parts(values, ends, is_text=root in TEXT, what=what)
    else:
        return _by_arrow(column, data_type, count, what)
    valid: bytes = column.valid
    if valid:
        if len(valid) != (count + 7) // 8:
            raise malformed(what, f"have {len(valid)} bytes of validity for {count} rows")
        for row in range(count):
            if not valid[row >> 3] >> (row & 7) & 1:
                found[row] = None
    return found


def _numbers(
    column: pb.Column, data_type: DataType, count: int, what: str
) -> tuple[int | float | bool, ...]:
    values: bytes = column.values
    if column.offsets:
        raise malformed(what, "have offsets, and values of fixed width")
    if len(values) != count * (value_width(data_type) or 0):
        raise malformed(what, f"have {len(values)} bytes for {count} values of {data_type}")
    if data_type.root is TypeRoot.BOOLEAN and values and max(values) > 1:
        raise malformed(what, "have a boolean that is neither 0 nor 1")
    return struct.unpack(f"<{count}{CODES[data_type.root]}", values)


def _date(days: float) -> dt.date:
    return dt.date.fromordinal(int(days) + DAYS_BEFORE_EPOCH)


def _parts(values: bytes, ends: Sequence[int], *, is_text: bool, what: str) -> list[object]:
    parts = [values[a:b] for a, b in pairwise(ends)]
    try:
        return [part.decode() for part in parts] if is_text else list(parts)
    except UnicodeDecodeError as error:
        raise malformed(what, "are no UTF-8") from error


def _by_arrow(column: pb.Column, data_type: DataType, count: int, what: str) -> list[object]:
    values: list[object] = unpack_column(column, data_type, count, what=what).to_pylist()
    return values
