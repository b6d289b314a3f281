"""One row of an opened lookup file: as Python values, or as the bytes of Arrow's memory.

Each column has a function from the row's number to its value, the same as Arrow's ``to_pylist``
gives. Numbers, dates, booleans, text and bytes are read from memory directly, 0.05 to 0.3 us each;
values of other types go through Arrow, which takes a microsecond or more. Another function gives
the bytes that a value has in memory: what is sent on needs no value.
"""

from __future__ import annotations

import datetime as dt
import mmap
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidelake.lookup.file_memory import Items

ValueOf = Callable[[int], Any]
"""From a row to its value in one column."""
ItemsOf = Callable[[int, str], Items]
"""Items of a buffer by its number among those of the column, and their format."""
BytesOf = Callable[[int, int], bytes]
"""Some bytes of the column's text, from where to where."""
RawOf = Callable[[int], bytes | None]
"""From a row to the bytes of its value in one column; None for a null."""

CODES = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float32(): "f",
    pa.float64(): "d",
}
_DAYS_BEFORE_EPOCH = dt.date(1970, 1, 1).toordinal()


def value_reader(
    kind: pa.DataType,
    items: ItemsOf,
    data: BytesOf,
    *,
    has_nulls: bool,
    wide: bool,
    by_arrow: ValueOf,
) -> ValueOf:
    """Give the function that reads one column.

    Parameters
    ----------
    items, data : callable
        Its buffers, and the bytes of its text: buffer 0 is validity.
    wide : bool
        Whether offsets have 64 bits.
    by_arrow : callable
        Reads any type, nulls too.
    """
    plain = _plain_reader(kind, items, data, wide=wide)
    if plain is None or not has_nulls:
        return plain or by_arrow
    valid, read = items(0, "B"), plain

    def value(row: int) -> Any:
        return read(row) if valid[row >> 3] >> (row & 7) & 1 else None

    return value


def _plain_reader(
    kind: pa.DataType, items: ItemsOf, data: BytesOf, *, wide: bool
) -> ValueOf | None:
    code = CODES.get(kind)
    if code is not None:
        return items(1, code).__getitem__
    if pa.types.is_boolean(kind):
        bits = items(1, "B")
        return lambda row: bits[row >> 3] >> (row & 7) & 1 == 1
    if pa.types.is_date32(kind):
        days, from_ordinal = items(1, "i"), dt.date.fromordinal
        return lambda row: from_ordinal(days[row] + _DAYS_BEFORE_EPOCH)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        ends = items(1, "q" if wide else "i")
        return lambda row: data(ends[row], ends[row + 1]).decode()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        ends = items(1, "q" if wide else "i")
        return lambda row: data(ends[row], ends[row + 1])
    return None


def value_width(kind: pa.DataType) -> int | None:
    """Bytes of a value, 1 of a boolean; 0 of text and bytes, None of nested types.

    Examples
    --------
    >>> value_width(pa.int32()), value_width(pa.string()), value_width(pa.list_(pa.int32()))
    (4, 0, None)
    """
    if pa.types.is_boolean(kind):
        return 1
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return int(kind.bit_width) // 8
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return 0 if is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else None


def raw_reader(
    kind: pa.DataType,
    items: ItemsOf,
    data: BytesOf,
    *,
    has_nulls: bool,
    wide: bool,
    mapped: tuple[mmap.mmap, int] | None = None,
) -> RawOf | None:
    """Give the function that reads the bytes of one column's values; None for nested types.

    Parameters
    ----------
    data : callable
        The bytes of its values, or of its text.
    mapped : (mmap, int), optional
        The memory that `data` reads, and where it begins there: a step less for each value.
    """
    width = value_width(kind)
    if width is None:
        return None
    if pa.types.is_boolean(kind):
        plain = _boolean_bytes(items(1, "B"))
    elif width:
        plain = _fixed_bytes(data, width) if mapped is None else _mapped_bytes(*mapped, width)
    else:
        ends = items(1, "q" if wide else "i")
        plain = _text_bytes(data, ends) if mapped is None else _mapped_text(*mapped, ends)
    if not has_nulls:
        return plain
    valid = items(0, "B")
    return lambda row: plain(row) if valid[row >> 3] >> (row & 7) & 1 else None


def _boolean_bytes(bits: Items) -> Callable[[int], bytes]:
    flags = (b"\0", b"\1")
    return lambda row: flags[bits[row >> 3] >> (row & 7) & 1]


def _fixed_bytes(data: BytesOf, width: int) -> Callable[[int], bytes]:
    return lambda row: data(row * width, row * width + width)


def _text_bytes(data: BytesOf, ends: Items) -> Callable[[int], bytes]:
    return lambda row: data(ends[row], ends[row + 1])


def _mapped_bytes(memory: mmap.mmap, base: int, width: int) -> Callable[[int], bytes]:
    return lambda row: memory[base + row * width : base + row * width + width]


def _mapped_text(memory: mmap.mmap, base: int, ends: Items) -> Callable[[int], bytes]:
    return lambda row: memory[base + ends[row] : base + ends[row + 1]]
