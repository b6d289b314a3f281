"""PostgreSQL's texts to Arrow values of the lake's types, by column.

1. A whole column is cast at once.
2. If that fails, the column is halved until the values that do not fit stand alone. They become
   null, and each gives a fault. A batch with `k` of them among `n` costs `k log n` further casts.

The texts are those of the settings of :mod:`tidelake.cdc.postgres.connection`. The type in the lake
says how to read them: BINARY is a string of bits, VARBINARY is hexadecimal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.cdc.postgres.values.array_text import split_arrays
from tidelake.errors import shortened
from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type

SHOWN_MAX = 60
_AS_TEXT = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_MICROSECONDS_DAY = 86_400_000_000


def cast_texts(texts: pa.Array, data_type: DataType) -> tuple[pa.Array, dict[int, str]]:
    """Cast a column.

    Parameters
    ----------
    texts : pyarrow.Array
        Texts, null where the value is.

    Returns
    -------
    values : pyarrow.Array
        As long as `texts`; null where a value does not fit.
    faults : dict of int to str
        A clause for each value that does not fit, by its place.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> values, faults = cast_texts(pa.array(["1.50", "NaN"]), parse_type("DECIMAL(10, 2)"))
    >>> values.to_pylist(), faults
    ([Decimal('1.50'), None], {1: 'NaN is not a DECIMAL(10, 2)'})
    """
    if data_type.root in _AS_TEXT:
        return texts, {}
    cast = _CASTS.get(data_type.root, _plain)
    faults: dict[int, str] = {}
    values = _within(texts, 0, data_type, cast, faults)
    return values, faults


_Cast = Callable[[pa.Array, DataType], pa.Array]


def _within(
    texts: pa.Array, start: int, data_type: DataType, cast: _Cast, faults: dict[int, str]
) -> pa.Array:
    """Cast a slice that begins at a place of the column, or halve it."""
    try:
        return cast(texts, data_type)
    except pa.ArrowInvalid:
        count = len(texts)
    if count == 1:
        shown = shortened(texts[0].as_py(), SHOWN_MAX)
        faults[start] = f"{shown} is not a {data_type.as_nullable()}"
        return pa.nulls(1, to_arrow_type(data_type))
    half = count // 2
    first = _within(texts.slice(0, half), start, data_type, cast, faults)
    second = _within(texts.slice(half), start + half, data_type, cast, faults)
    return pa.concat_arrays([first, second])


def _plain(texts: pa.Array, data_type: DataType) -> pa.Array:
    return texts.cast(to_arrow_type(data_type))


def _boolean(texts: pa.Array, _: DataType) -> pa.Array:
    """``t`` and ``f``; of a single bit ``1`` and ``0``."""
    true = pc.is_in(texts, _TRUE)
    if len(texts) - texts.null_count != pc.sum(pc.is_in(texts, _TRUTHS)).as_py():
        raise pa.ArrowInvalid("not a boolean")
    return pc.if_else(texts.is_valid(), true, pa.scalar(None, pa.bool_()))


_TRUE, _TRUTHS = pa.array(["t", "1"]), pa.array(["t", "f", "1", "0"])


def _time(texts: pa.Array, _: DataType) -> pa.Array:
    """Paimon keeps milliseconds of a TIME; finer digits are cut, as it cuts them."""
    stamps = pc.binary_join_element_wise(pa.scalar("1970-01-01"), texts, " ")
    micros = stamps.cast(pa.timestamp("us")).cast(pa.int64())
    wrong = pc.any(pc.greater_equal(micros, _MICROSECONDS_DAY)).as_py()
    if wrong:
        raise pa.ArrowInvalid("not a time of day")
    return pc.divide(micros, 1000).cast(pa.int32()).cast(pa.time32("ms"))


def _bytes(texts: pa.Array, _: DataType) -> pa.Array:
    r"""``\x`` and two digits a byte."""
    starts, lengths, data = _text_bytes(texts)
    prefix = np.where(lengths > 0, 2, 0)
    counts = (lengths - prefix) // 2
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    # places of the first digit of each byte
    at = np.repeat(starts + prefix - 2 * offsets[:-1].astype(np.int64), counts)
    at += 2 * np.arange(offsets[-1], dtype=np.int64)
    values = (_HEX[data[at]] << 4) | _HEX[data[at + 1]] if len(at) else np.zeros(0, np.uint8)
    return _binary(texts, offsets, values)


_HEX = np.zeros(256, np.uint8)
for _digit in range(16):
    _HEX[ord(f"{_digit:x}")] = _HEX[ord(f"{_digit:X}")] = _digit


def _bits(texts: pa.Array, _: DataType) -> pa.Array:
    """A number in base 2, as bytes with the highest first; a short one has zeros in front."""
    starts, lengths, data = _text_bytes(texts)
    counts = (lengths + 7) // 8
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    digits = np.zeros(int(offsets[-1]) * 8, np.uint8)
    ends = offsets[1:].astype(np.int64) * 8
    total = int(lengths.sum())
    within = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found = data[np.repeat(starts, lengths) + within]
    if ((found != 48) & (found != 49)).any():
        raise pa.ArrowInvalid("not bits")
    digits[np.repeat(ends - lengths, lengths) + within] = found - 48
    return _binary(texts, offsets, np.packbits(digits))


def _text_bytes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each text begins, its length (0 for a null) and all bytes."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts = places[:-1].astype(np.int64)
    lengths = np.diff(places).astype(np.int64)
    if texts.null_count:
        lengths = np.where(texts.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    return starts, lengths, np.frombuffer(data or b"", np.uint8)


def _binary(texts: pa.Array, offsets: np.ndarray, values: np.ndarray) -> pa.Array:
    valid = None
    if texts.null_count:
        bits = texts.is_valid().to_numpy(zero_copy_only=False)
        valid = pa.py_buffer(np.packbits(bits, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers)


def _array(texts: pa.Array, data_type: DataType) -> pa.Array:
    """Elements are cast together; an array with one that does not fit fails as a whole."""
    offsets, elements = split_arrays(texts)
    element = data_type.children[0]
    cast = _CASTS.get(element.root, _plain)
    values = elements if element.root in _AS_TEXT else cast(elements, element)
    mask = texts.is_null() if texts.null_count else None
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)
    return lists.cast(to_arrow_type(data_type))


_CASTS: dict[TypeRoot, _Cast] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.TIME: _time,
    TypeRoot.VARBINARY: _bytes,
    TypeRoot.BINARY: _bits,
    TypeRoot.ARRAY: _array,
}
