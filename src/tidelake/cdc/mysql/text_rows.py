"""Answers of SELECT by column: the text protocol, parsed by numpy.

Each row is a packet of length-encoded texts; a loop finds where packets begin, and then each column
of all rows is read in one go. Measured on ten columns: 5 times the rows per CPU-second of PyMySQL's
cursor that does not buffer. The list of expressions asks for forms that lose nothing: FLOAT as a
double, SET as its bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.mysql.binlog.byte_strings import byte_strings
from tidelake.cdc.mysql.binlog.numbers import Bytes, Places, little, padded
from tidelake.cdc.mysql.binlog.times import MICROS, MICROS_PER_DAY, Moments, days_of
from tidelake.cdc.mysql.server import quoted_name
from tidelake.cdc.mysql.values.cells import Cells, Mask, set_texts
from tidelake.cdc.mysql.values.columns import ReadableColumn
from tidelake.cdc.mysql.values.native_type import BLOBS, DECIMAL_DIGITS_MAX, GEOMETRIES
from tidelake.errors import StorageError

COM_QUERY = 0x03
BATCH_ROWS = 65_536
BATCH_BYTES = 16 << 20
RECEIVED_MAX = 1 << 20
PACKET_PART_MAX = 0xFF_FFFF
NULL = 0xFB

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_RAW = BLOBS | {"binary", "varbinary", "bit", *GEOMETRIES}


def expression(column: ReadableColumn) -> str:
    """What to select of a column, so that its text loses nothing."""
    name = quoted_name(column.name)
    kind = column.native.name
    if kind in {"float", "double"}:
        return f"{name} + 0e0"  # as FLOAT it has six digits
    if kind == "set":
        return f"{name} + 0"
    return name


@dataclass(slots=True)
class _Rows:
    """Bytes of some rows, and where each begins."""

    parts: list[bytes]
    starts: list[int]
    size: int = 0

    def add(self, part: bytes) -> None:
        self.parts.append(part)
        self.size += len(part)


def select(connection: Any, statement: str) -> Iterator[tuple[Bytes, Places]]:
    """Ask, and give the rows in batches: a buffer, and where each row's texts begin.

    The answer must be read to its end before the connection can be used again.
    """
    connection._execute_command(COM_QUERY, statement)
    count = connection._read_packet().read_length_encoded_integer()
    for _ in range(count):
        connection._read_packet()
    connection._read_packet()  # the end of the columns
    # what the library has read ahead stands in this file
    receive = connection._rfile.read1
    data, at, rows = b"", 0, _Rows([], [])
    begun = 0
    while True:
        size = len(data)
        append, base = rows.starts.append, rows.size - begun
        while at + 4 < size:
            length = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            if at + 4 + length > size or length == PACKET_PART_MAX:
                break
            if data[at + 4] >= 0xFE and (data[at + 4] == 0xFF or length < 9):
                rows.add(data[begun:at])
                _check_end(connection, data[at + 4 : at + 4 + length])
                if rows.starts:
                    yield _batch(rows)
                return
            append(base + at + 4)
            at += 4 + length
        rows.add(data[begun:at])
        if at + 4 <= size and data[at : at + 3] == b"\xff\xff\xff":
            row, data, at = _large_row(receive, data, at)
            rows.starts.append(rows.size)
            rows.add(row)
        data, at = data[at:], 0
        begun = 0
        if len(rows.starts) >= BATCH_ROWS or rows.size >= BATCH_BYTES:
            yield _batch(rows)
            rows = _Rows([], [])
        more = receive(RECEIVED_MAX)
        if not more:
            message = "The server ended the connection while a table was copied."
            raise StorageError(message, kind="cdc_unreachable")
        data += more


def _batch(rows: _Rows) -> tuple[Bytes, Places]:
    return padded(rows.parts), np.array(rows.starts, np.int64)


def _check_end(connection: Any, packet: bytes) -> None:
    """Raise the error that ended the rows, if it was one."""
    if packet[0] == 0xFF:
        from_packet = type(connection)._read_packet.__defaults__[0]
        from_packet(packet, "utf8").raise_for_error()


def _large_row(receive: Any, data: bytes, at: int) -> tuple[bytes, bytes, int]:
    """Read a row of several packets; gives it, the bytes received, and where the next begins."""
    parts = []
    while True:
        while len(data) - at < 4 or len(data) - at < 4 + int.from_bytes(
            data[at : at + 3], "little"
        ):
            more = receive(RECEIVED_MAX * 4)
            if not more:
                message = "The server ended the connection while a table was copied."
                raise StorageError(message, kind="cdc_unreachable")
            data, at = data[at:] + more, 0
        length = int.from_bytes(data[at : at + 3], "little")
        parts.append(data[at + 4 : at + 4 + length])
        at += 4 + length
        if length < PACKET_PART_MAX:
            return b"".join(parts), data, at


def read_columns(buffer: Bytes, starts: Places, columns: list[ReadableColumn]) -> dict[int, Cells]:
    """Read all columns of rows, by their places."""
    found = {}
    at = starts
    for place, column in enumerate(columns):
        first = buffer[at]
        is_null = first == NULL
        sizes, heads = first.astype(np.int64), np.ones(len(at), np.int64)
        for mark, width in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
            is_long = first == mark
            if is_long.any():
                sizes = np.where(is_long, little(buffer, at + 1, width).view(np.int64), sizes)
                heads = np.where(is_long, 1 + width, heads)
        ok: Mask = None
        if is_null.any():
            ok = ~is_null
            sizes = np.where(is_null, 0, sizes)
        found[place] = _cells(buffer, at + heads, sizes, column, ok)
        at = at + heads + sizes
    return found


def _cells(
    buffer: Bytes, at: Places, sizes: NDArray[np.int64], column: ReadableColumn, ok: Mask
) -> Cells:
    name = column.native.name
    if name in {"date", "datetime", "timestamp"}:
        return Cells(_moments(buffer, at, column, ok), ok)
    if name == "time":
        return Cells(_clock(buffer, at, sizes, column.native.length, ok), ok)
    raw = byte_strings(buffer, at, sizes, ok)
    if name in _RAW:
        return Cells(raw, ok)
    text = raw.cast(pa.string())
    if name in _INTEGERS:
        kind = pa.uint64() if name == "bigint" and column.native.is_unsigned else pa.int64()
        return Cells(_dense(text, kind, ok), ok)
    if name == "set":
        return set_texts(_dense(text, pa.uint64(), ok), column.native.labels, ok)
    if name in {"float", "double"}:
        values = _dense(text, pa.float64(), ok)
        return Cells(values.astype(np.float32) if name == "float" else values, ok)
    if name == "decimal" and column.native.length <= DECIMAL_DIGITS_MAX:
        return Cells(text.cast(pa.decimal128(column.native.length, column.native.scale)), ok)
    return Cells(text, ok)


def _dense(text: pa.Array, kind: pa.DataType, ok: Mask) -> NDArray[Any]:
    """Texts as numbers, 0 for null."""
    values = text.cast(kind)
    return np.asarray(values if ok is None else values.fill_null(0))


def _digits(buffer: Bytes, at: Places, count: int) -> NDArray[np.int64]:
    """A number of so many ASCII digits."""
    value = np.zeros(len(at), np.int64)
    for place in range(count):
        value = value * 10 + (buffer[at + place].astype(np.int64) - 48)
    return value


def _moments(buffer: Bytes, at: Places, column: ReadableColumn, ok: Mask) -> Moments:
    """``YYYY-MM-DD``, and with a clock ``HH:MM:SS`` and a fraction behind it."""
    parts = (_digits(buffer, at, 4), _digits(buffer, at + 5, 2), _digits(buffer, at + 8, 2))
    days = days_of(*parts, ok)
    if column.native.name == "date":
        return days
    seconds = (
        _digits(buffer, at + 11, 2) * 3600
        + _digits(buffer, at + 14, 2) * 60
        + _digits(buffer, at + 17, 2)
    )
    digits = column.native.length
    fraction = _digits(buffer, at + 20, digits) * 10 ** (6 - digits) if digits else 0
    values = days.values * MICROS_PER_DAY + seconds * MICROS + fraction
    return Moments(values, days.is_zero, days.is_wrong, days.texts)


def _clock(buffer: Bytes, at: Places, sizes: NDArray[np.int64], digits: int, ok: Mask) -> Moments:
    """``[-]H...H:MM:SS`` and a fraction: read from its end, for hours have two or three digits."""
    end = at + sizes - (digits + 1 if digits else 0)
    if ok is not None:
        end = np.where(ok, end, at + 9)
    hundreds = buffer[end - 9].astype(np.int64) - 48
    has_hundreds = (end - 9 >= at) & (hundreds >= 0) & (hundreds <= 9)
    hours = _digits(buffer, end - 8, 2) + np.where(has_hundreds, hundreds * 100, 0)
    seconds = hours * 3600 + _digits(buffer, end - 5, 2) * 60 + _digits(buffer, end - 2, 2)
    micros = seconds * MICROS
    if digits:
        micros = micros + _digits(buffer, end + 1, digits) * 10 ** (6 - digits)
    micros = np.where(buffer[at] == ord("-"), -micros, micros)
    none = np.zeros(len(at), np.bool_)
    return Moments(micros, none, none)
