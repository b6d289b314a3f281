"""Values of one column as the source has them, read from row images; the middle of the way.

Row images and answers of SELECT both become :class:`Cells`, and one function makes Arrow's columns
of the lake's types out of them: so a first copy and the log cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.cdc.mysql.binlog import times
from tidelake.cdc.mysql.binlog.byte_strings import byte_strings
from tidelake.cdc.mysql.binlog.json_value import json_text
from tidelake.cdc.mysql.binlog.numbers import (
    Bytes,
    Places,
    decimal128_words,
    decimal_limbs,
    decimal_text,
    floats,
    little,
    signed,
)
from tidelake.cdc.mysql.binlog.row_starts import prefix, width
from tidelake.cdc.mysql.binlog.table_map import ColumnType, MappedColumn
from tidelake.cdc.mysql.binlog.times import Moments
from tidelake.cdc.mysql.values.charset import decode_texts
from tidelake.cdc.mysql.values.columns import ReadableColumn
from tidelake.cdc.mysql.values.native_type import DECIMAL_DIGITS_MAX, TEXTS
from tidelake.errors import UnsupportedError

_T = ColumnType
YEAR_FIRST = 1900
Mask = NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of one column.

    Parameters
    ----------
    values : numpy.ndarray, pyarrow.Array or Moments
        Integers as int64 or uint64, floats, days and microseconds; text, bytes and decimals as
        Arrow's arrays, a SET as list of string.
    ok : numpy.ndarray or None
        Which rows have a value; None if all have.
    wrong : numpy.ndarray or None
        Rows whose bytes are no value of the column.
    """

    values: NDArray[np.generic] | pa.Array | Moments
    ok: Mask = None
    wrong: Mask = None


def read_images(
    buffer: Bytes,
    starts: Places,
    mapped: list[MappedColumn],
    columns: list[ReadableColumn],
    wanted: set[int],
) -> dict[int, Cells]:
    """Read columns of row images.

    Parameters
    ----------
    buffer : numpy.ndarray
        Padded.
    starts : numpy.ndarray
        Where each image begins: at the bits of its nulls.
    mapped, columns : list
        The columns that images have, in order.
    wanted : set of int
        Places in them; reading stops after the last.

    Returns
    -------
    dict of int to Cells
        For each place that is wanted.
    """
    found = {}
    at = starts + (len(mapped) + 7) // 8
    last = max(wanted, default=-1)
    for place in range(last + 1):
        layout = mapped[place]
        is_null = (buffer[starts + place // 8] >> np.uint8(place % 8) & 1).astype(np.bool_)
        ok = ~is_null if is_null.any() else None
        size, head = width(layout), prefix(layout)
        sizes = None
        if size:
            step: NDArray[np.int64] | int = size
        else:
            sizes = little(buffer, at, head).view(np.int64)
            step = sizes + head
        if place in wanted:
            found[place] = _cells(buffer, at, layout, columns[place], ok, sizes)
        at = at + (step if ok is None else np.where(ok, step, 0))
    return found


def _cells(
    buffer: Bytes, at: Places, layout: MappedColumn, column: ReadableColumn, ok: Mask,
    sizes: NDArray[np.int64] | None,
) -> Cells:  # fmt: skip
    kind = layout.type
    if sizes is not None:
        raw = byte_strings(buffer, at + prefix(layout), sizes, ok)
        return _strings(raw, layout, column, ok)
    if kind in _INTEGERS:
        size = _INTEGERS[ColumnType(kind)]
        whole = little(buffer, at, size)
        if column.native.is_unsigned:
            return Cells(whole if size == 8 else whole.view(np.int64), ok)
        return Cells(signed(whole, size), ok)
    if kind == _T.YEAR:
        year = little(buffer, at, 1).view(np.int64)
        return Cells(np.where(year == 0, 0, year + YEAR_FIRST), ok)
    if kind in {_T.FLOAT, _T.DOUBLE}:
        return Cells(floats(buffer, at, width(layout)), ok)
    if kind == _T.NEWDECIMAL:
        return Cells(_decimals(buffer, at, layout, ok), ok)
    if kind == _T.BIT:
        each = np.full(len(at), width(layout), np.int64)
        return Cells(byte_strings(buffer, at, each, ok), ok)
    if kind in {_T.ENUM, _T.SET}:
        numbers = little(buffer, at, layout.size)
        choose = enum_texts if kind == _T.ENUM else set_texts
        return choose(numbers, column.native.labels, ok)
    return Cells(_moments(buffer, at, layout, ok), ok)


_INTEGERS = {_T.TINY: 1, _T.SHORT: 2, _T.INT24: 3, _T.LONG: 4, _T.LONGLONG: 8}


def _moments(buffer: Bytes, at: Places, layout: MappedColumn, ok: Mask) -> Moments:
    digits = layout.size
    match layout.type:
        case _T.DATE | _T.NEWDATE:
            return times.dates(buffer, at, ok)
        case _T.TIME:
            return times.old_times(buffer, at)
        case _T.TIME2:
            return times.times(buffer, at, digits)
        case _T.DATETIME:
            return times.old_datetimes(buffer, at, ok)
        case _T.DATETIME2:
            return times.datetimes(buffer, at, digits, ok)
        case _T.TIMESTAMP:
            return times.old_timestamps(buffer, at)
        case _T.TIMESTAMP2:
            return times.timestamps(buffer, at, digits)
    message = f"Values of type {layout.type} are not read."
    raise UnsupportedError(message, kind="cdc_column_type")


def _strings(raw: pa.Array, layout: MappedColumn, column: ReadableColumn, ok: Mask) -> Cells:
    name = column.native.name
    if layout.type == _T.JSON:
        texts = [None if one is None else json_text(one) for one in raw.to_pylist()]
        return Cells(pa.array(texts, pa.string()), ok)
    if name in TEXTS:
        text, wrong = decode_texts(raw, column.charset)
        return Cells(text, ok, wrong)
    if name == "binary":
        # the log leaves out the zeros at the end
        size = layout.size
        padded = [None if one is None else one.ljust(size, b"\0") for one in raw.to_pylist()]
        return Cells(pa.array(padded, pa.binary()), ok)
    if name in {"inet4", "inet6"}:
        size = 4 if name == "inet4" else 16
        texts = [
            None if one is None else str(ip_address(one.ljust(size, b"\0")))
            for one in raw.to_pylist()
        ]
        return Cells(pa.array(texts, pa.string()), ok)
    return Cells(raw, ok)


def _decimals(buffer: Bytes, at: Places, layout: MappedColumn, ok: Mask) -> pa.Array:
    precision, scale = layout.precision, layout.scale
    if precision > DECIMAL_DIGITS_MAX:
        size = width(layout)
        raw = byte_strings(buffer, at, np.full(len(at), size, np.int64), ok)
        texts = [
            None if one is None else decimal_text(one, precision, scale) for one in raw.to_pylist()
        ]
        return pa.array(texts, pa.string())
    pairs = decimal128_words(*decimal_limbs(buffer, at, precision, scale))
    return decimal_array(pairs, precision, scale, ok)


def decimal_array(pairs: NDArray[np.uint64], precision: int, scale: int, ok: Mask) -> pa.Array:
    """Make decimals of their 16 bytes each."""
    if ok is not None:
        pairs[~ok] = 0  # bytes of another value stand in a null's place
    bits = None if ok is None else pa.py_buffer(np.packbits(ok, bitorder="little"))
    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, len(pairs), [bits, pa.py_buffer(pairs)])


def enum_texts(numbers: NDArray[np.uint64], labels: tuple[str, ...], ok: Mask) -> Cells:
    """Texts of an ENUM by number; 0 is the empty text that MySQL puts for a value it refused."""
    places = numbers.astype(np.int64)
    wrong = places > len(labels)
    absent = wrong if ok is None else wrong | ~ok
    index = pa.array(np.where(absent, 0, places), mask=absent if absent.any() else None)
    texts = pa.array(["", *labels], pa.string()).take(index)
    wrong = wrong if ok is None else wrong & ok
    return Cells(texts, ok, wrong if wrong.any() else None)


def set_texts(bits: NDArray[np.uint64], labels: tuple[str, ...], ok: Mask) -> Cells:
    """Lists of a SET by the bits of its values."""
    if ok is not None:
        bits = np.where(ok, bits, np.uint64(0))
    wrong = (
        bits >> np.uint64(len(labels)) != 0 if len(labels) < 64 else np.zeros(len(bits), np.bool_)
    )
    places = np.arange(len(labels), dtype=np.uint64)
    chosen = (bits[:, None] >> places & np.uint64(1)).astype(np.bool_)
    chosen[wrong] = False
    offsets = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int32)
    items = pa.array(labels, pa.string()).take(pa.array(np.nonzero(chosen)[1]))
    absent = None if ok is None else pa.array(~ok)
    kind = pa.list_(pa.field("element", pa.string()))
    lists = pa.ListArray.from_arrays(pa.array(offsets), items, type=kind, mask=absent)
    return Cells(lists, ok, wrong if wrong.any() else None)
