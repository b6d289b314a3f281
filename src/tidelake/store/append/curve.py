"""Keys along a space-filling curve: rows that are near in several columns get near keys.

1. Each column becomes an unsigned word of 64 bits in the order of its values: integers, dates,
   times, timestamps and decimals by their value, floats as ``Double.compare`` orders them, strings
   and bytes by their first bytes (``zorder.var-length-contribution``, 8 by default). A null is 0.
2. A **frame** holds what all values of a column have in common: its smallest word, the leading zero
   bits of the largest difference, the common first bytes of texts. Words are taken relative to it,
   so that each column begins with a bit that decides. Without frames a timestamp of 41 bits beside
   a number of 20 bits would alone decide the order of whole files, and texts of one prefix would
   decide nothing.
3. *Z-order* interleaves the bits, the first column's first. *Hilbert* takes the first 32 bits of
   each word along Hilbert's curve (Skilling's transform), whose neighbours never jump.

Source of the interleaving: Paimon's ``ZOrderByteUtils`` and ``ZIndexer`` (1.3.1), whose bytes these
are for integers of the whole range. Frames are ours; Paimon also takes decimals by bytes that are
not in the order of their values. Cost for two columns: 0.15 us a row in z-order, 1 us along
Hilbert's curve.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.codec.arrow_memory import contiguous, fixed_values, string_words, valid_rows
from tidelake.codec.binary_row import is_wide_decimal
from tidelake.codec.key_order import FLOAT_DTYPES, INTEGER_DTYPES, float_ranks
from tidelake.errors import UnsupportedError
from tidelake.types.data_type import DataType, TypeRoot

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

WORD_BYTES = 8
WORD_BITS = 64
HILBERT_BITS = 32
TABLE_COLUMNS_MAX = 8
"""A byte of so many columns interleaves into one word."""
CHUNK_ROWS = 16_384
"""Rows whose words stay in the cache."""
_SIGN = np.uint64(1 << 63)
_STRINGS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})


class Strategy(enum.StrEnum):
    """How several columns become one order."""

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


@dataclass(frozen=True, slots=True)
class ColumnFrame:
    """What all values of a column have in common.

    Parameters
    ----------
    low : int
        The smallest word.
    shift : int
        Bits that are zero at the front of every word, once `low` is subtracted.
    prefix_bytes : int
        Bytes that all texts begin with.
    """

    low: int = 0
    shift: int = 0
    prefix_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CurveRange:
    """The smallest and the largest value of some rows of a column: words, or whole texts."""

    low: Any
    high: Any

    def with_other(self, other: CurveRange) -> CurveRange:
        """The range of both."""
        return CurveRange(min(self.low, other.low), max(self.high, other.high))

    def frame(self) -> ColumnFrame:
        """The frame of values in this range."""
        if not isinstance(self.low, bytes):
            return ColumnFrame(self.low, _leading_zeros(self.high - self.low))
        prefix = 0
        for one, other in zip(self.low, self.high, strict=False):  # the bytes of two texts
            if one != other:
                break
            prefix += 1
        low, high = (_word_of(text[prefix:]) for text in (self.low, self.high))
        return ColumnFrame(low, _leading_zeros(high - low), prefix)


def column_range(array: pa.Array, data_type: DataType) -> CurveRange | None:
    """The range of a column's values; None if all are null.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> column_range(pa.array(["ab", None, "ad"]), parse_type("STRING"))
    CurveRange(low=b'ab', high=b'ad')
    """
    if array.null_count == len(array):
        return None
    if data_type.root in _STRINGS:
        column = contiguous(array, data_type)
        ends = pc.min_max(column.cast(pa.large_binary())).as_py()
        return CurveRange(ends["min"], ends["max"])
    words = _fixed_words(contiguous(array, data_type), data_type)
    valid = valid_rows(array)
    if valid is not None:
        words = words[valid]
    return CurveRange(int(words.min()), int(words.max()))


def check_curve_type(data_type: DataType, *, column: str) -> None:
    """Check that a column has a place on a curve.

    Raises
    ------
    UnsupportedError
        It is of a nested type or VARIANT.
    """
    known = data_type.root in _STRINGS or data_type.root in FLOAT_DTYPES
    if not known and data_type.root not in INTEGER_DTYPES:
        message = (
            f"Column '{column}' of type {data_type} has no order, so rows cannot be clustered by"
            " it: name another column."
        )
        raise UnsupportedError(message, kind="cluster_column", column=column)


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve through the values of some columns. Picklable.

    Parameters
    ----------
    strategy : Strategy
        ZORDER or HILBERT.
    types : tuple of DataType
        The columns' types; :func:`check_curve_type` takes them.
    frames : tuple of ColumnFrame
        One for each column; its values are inside.
    text_bytes : int
        Bytes of a text that count, from 1 on.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> types = (parse_type("INT"), parse_type("INT"))
    >>> columns = [pa.array([0, 1, 0, 1], pa.int32()), pa.array([0, 0, 1, 1], pa.int32())]
    >>> frames = tuple(column_range(c, t).frame() for c, t in zip(columns, types))
    >>> keys = Curve(Strategy.ZORDER, types, frames).keys(columns)
    >>> np.argsort([bytes(key) for key in keys.view(np.uint8).reshape(4, -1)]).tolist()
    [0, 2, 1, 3]
    """

    strategy: Strategy
    types: tuple[DataType, ...]
    frames: tuple[ColumnFrame, ...]
    text_bytes: int = WORD_BYTES

    @property
    def key_bytes(self) -> int:
        """The bytes of a key."""
        if self.strategy is Strategy.HILBERT:
            return len(self.types) * HILBERT_BITS // 8
        return sum(map(self._column_bytes, self.types))

    def keys(self, columns: Sequence[pa.Array]) -> npt.NDArray[Any]:
        """Give the rows' keys, whose order as bytes is that of the curve.

        Returns
        -------
        array [n] of S{key_bytes}
        """
        arrays = [contiguous(c, t) for c, t in zip(columns, self.types, strict=True)]
        count = len(arrays[0])
        keys = np.empty((count, self.key_bytes), np.uint8)
        for begin in range(0, count, CHUNK_ROWS):
            part = [array.slice(begin, CHUNK_ROWS) for array in arrays]
            keys[begin : begin + CHUNK_ROWS] = self._part(part)
        return keys.view(f"S{self.key_bytes}").ravel()

    def _part(self, arrays: Sequence[pa.Array]) -> Bytes:
        if self.strategy is Strategy.HILBERT:
            words = [self._framed(i, array) for i, array in enumerate(arrays)]
            drop = np.uint64(WORD_BITS - HILBERT_BITS)
            places = hilbert_transposed(
                [(word >> drop).astype(np.uint32) for word in words], bits=HILBERT_BITS
            )
            return interleaved([_big_endian(place) for place in places])
        return interleaved([self._column(i, array) for i, array in enumerate(arrays)])

    def _column_bytes(self, data_type: DataType) -> int:
        return self.text_bytes if data_type.root in _STRINGS else WORD_BYTES

    def _column(self, number: int, array: pa.Array) -> Bytes:
        """A column's bytes: those of its word, or more of a text."""
        width = self._column_bytes(self.types[number])
        first = _big_endian(self._framed(number, array))
        if width <= WORD_BYTES:
            return first[:, :width]
        skipped = self.frames[number].prefix_bytes
        # a word that was shifted says less at its end; the rest of the text follows whole
        rest = [_big_endian(_text_words(array, skipped + at)) for at in range(WORD_BYTES, width, 8)]
        return np.concatenate([first, *rest], axis=1)[:, :width]

    def _framed(self, number: int, array: pa.Array) -> Words:
        """A column's words relative to its frame; 0 for nulls."""
        data_type, frame = self.types[number], self.frames[number]
        if data_type.root in _STRINGS:
            words = _text_words(array, frame.prefix_bytes)
        else:
            words = _fixed_words(array, data_type)
        words = (words - np.uint64(frame.low)) << np.uint64(frame.shift)
        valid = valid_rows(array)
        return words if valid is None else np.where(valid, words, np.uint64(0))


def interleaved(columns: Sequence[Bytes]) -> Bytes:
    """Interleave the bits of byte columns, the first bit of the first one first.

    A column that has no bits left is passed over.

    Parameters
    ----------
    columns : sequence of uint8 array [n, w]
        Their widths may differ.

    Returns
    -------
    uint8 array [n, sum of the widths]

    Examples
    --------
    >>> one, other = np.array([[0b11111111]], np.uint8), np.array([[0]], np.uint8)
    >>> [f"{byte:08b}" for byte in interleaved([one, other])[0].tolist()]
    ['10101010', '10101010']
    """
    count = len(columns[0])
    parts = []
    for place in range(max(column.shape[1] for column in columns)):
        own = [column[:, place] for column in columns if column.shape[1] > place]
        if len(own) == 1:
            parts.append(own[0].reshape(-1, 1))
        elif len(own) <= TABLE_COLUMNS_MAX:
            words = np.zeros(count, np.uint64)
            spread = _spread(len(own))
            for number, column in enumerate(own):
                words |= spread[column] << np.uint64(len(own) - 1 - number)
            parts.append(_big_endian(words)[:, WORD_BYTES - len(own) :])
        else:
            bits = np.unpackbits(np.stack(own, axis=1), axis=1).reshape(count, len(own), 8)
            parts.append(np.packbits(bits.transpose(0, 2, 1).reshape(count, -1), axis=1))
    return np.concatenate(parts, axis=1)


@cache
def _spread(stride: int) -> Words:
    """For each byte its bits, `stride` bits apart from each other."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8).reshape(-1, 1), axis=1).astype(np.uint64)
    places = np.arange(7, -1, -1, dtype=np.uint64) * np.uint64(stride)
    return np.bitwise_or.reduce(bits << places, axis=1)


def hilbert_transposed(columns: Sequence[npt.NDArray[Any]], *, bits: int) -> list[npt.NDArray[Any]]:
    """Give coordinates whose interleaved bits are the position along Hilbert's curve.

    Parameters
    ----------
    columns : sequence of unsigned array [n]
        Coordinates of `bits` bits.

    Notes
    -----
    Skilling, "Programming the Hilbert curve" (2004): for each bit from the first on, the axes that
    are turned in the cell are exchanged or mirrored for all bits below; then a Gray code.

    Examples
    --------
    >>> x, y = np.array([0, 0, 1, 1], np.uint32), np.array([0, 1, 1, 0], np.uint32)
    >>> a, b = hilbert_transposed([x, y], bits=1)
    >>> (2 * a + b).tolist()
    [0, 1, 2, 3]
    """
    places = [column.copy() for column in columns]
    first = places[0]
    one = first.dtype.type(1)
    zero = first.dtype.type(0)
    for bit in range(bits - 1, 0, -1):
        at = first.dtype.type(bit)
        below = first.dtype.type((1 << bit) - 1)
        for place in places:
            is_set = zero - ((place >> at) & one)  # all bits, or none
            turned = (first ^ place) & below & ~is_set
            if place is not first:
                place ^= turned
            first ^= turned | (below & is_set)
    for before, place in itertools.pairwise(places):
        place ^= before
    gray = np.zeros_like(first)
    last = places[-1]
    for bit in range(bits - 1, 0, -1):
        is_set = zero - ((last >> first.dtype.type(bit)) & one)
        gray ^= first.dtype.type((1 << bit) - 1) & is_set
    for place in places:
        place ^= gray
    return places


def _fixed_words(array: pa.Array, data_type: DataType) -> Words:
    """Values of fixed width as words in their order; undefined under nulls."""
    if data_type.root in FLOAT_DTYPES:
        floats = fixed_values(array, FLOAT_DTYPES[data_type.root]).astype(np.float64)
        return float_ranks(floats).view(np.uint64) ^ _SIGN
    if is_wide_decimal(data_type):
        halves = fixed_values(array, np.uint64, per_row=2)
        precision = int(data_type.precision or 0)
        # the value without its last bits, as many as do not fit
        dropped = max(0, (10**precision).bit_length() + 1 - WORD_BITS)
        low, high = halves[::2], halves[1::2]
        if not dropped:
            return low ^ _SIGN
        kept = (high << np.uint64(WORD_BITS - dropped)) | (low >> np.uint64(dropped))
        return kept ^ _SIGN
    if data_type.root is TypeRoot.DECIMAL:
        return fixed_values(array, np.int64, per_row=2)[::2].view(np.uint64) ^ _SIGN
    values = fixed_values(array, INTEGER_DTYPES[data_type.root]).astype(np.int64)
    return values.view(np.uint64) ^ _SIGN


def _text_words(array: pa.Array, begin: int) -> Words:
    """Eight bytes of each text from `begin` on, zeros behind its end, as a word."""
    if not len(array):
        return np.zeros(0, np.uint64)
    words, starts, lengths = string_words(array)
    rest = np.clip(lengths - begin, 0, WORD_BYTES)
    there = np.where(rest > 0, starts + begin, 0)
    shift = ((WORD_BYTES - rest) * 8).astype(np.uint64)
    bytes_first = words[there].byteswap()
    # a shift by 64 bits is undefined
    kept = (bytes_first >> np.minimum(shift, np.uint64(63))) << np.minimum(shift, np.uint64(63))
    return np.where(rest > 0, kept, np.uint64(0))


def _word_of(text: bytes) -> int:
    return int.from_bytes(text[:WORD_BYTES].ljust(WORD_BYTES, b"\0"), "big")


def _leading_zeros(difference: int) -> int:
    return min(WORD_BITS - 1, WORD_BITS - difference.bit_length())


def _big_endian(words: npt.NDArray[Any]) -> Bytes:
    turned = np.ascontiguousarray(words).byteswap()
    return turned.view(np.uint8).reshape(-1, words.dtype.itemsize)
