"""Bit-sliced numbers: one bitmap per binary digit, decoded to a number per row.

``bsi`` index, numbers BIG endian (on disk: never renumber)::

    version        u8    1
    rows           i32
    has positive   u8    then the slices of the rows from 0 on, if any
    has negative   u8    then the slices of the negated rows below 0, if any
    slices:  u8 version 1, i64 min, i64 max, bitmap of the rows, i32 count, count bitmaps

Slice i has the rows whose number minus min has binary digit i. The index is deprecated in Paimon:
it is read here, but not written.

Source: Paimon's ``BitSliceIndexBitmapFileIndex`` and ``BitSliceIndexRoaringBitmap`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelake.codec.roaring import decode
from tidelake.format.file_index.byte_source import ByteSource, damaged
from tidelake.format.file_index.index_key import IndexKey, IndexKeyForm
from tidelake.format.file_index.rows import Mask
from tidelake.types import TypeRoot

BSI = "bsi"
_VERSION = 1
_UNSLICED = frozenset({TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE})


def bsi_covers(form: IndexKeyForm) -> bool:
    """Whether Paimon has a bsi index of a type."""
    return not form.is_bytes and form.root not in _UNSLICED


class NumberedRows:
    """Finds rows by the numbers of an index; exact.

    Parameters
    ----------
    numbers : int64 array [rows]
        Undefined where `valid` is false.
    valid : bool array [rows]
        Rows that are not null.
    """

    def __init__(self, numbers: npt.NDArray[np.int64], valid: Mask) -> None:
        self._numbers = numbers
        self._valid = valid

    def equal(self, keys: Sequence[IndexKey]) -> Mask:
        """Rows that hold one of the keys."""
        fitting = [key for key in keys if -(1 << 63) <= int(key) < 1 << 63]
        return np.isin(self._numbers, np.array(fitting, np.int64)) & self._valid

    def between(self, low: IndexKey | None, high: IndexKey | None) -> Mask:
        """Rows from `low` to `high`, both included; None is open."""
        mask = self._valid.copy()
        if low is not None:
            mask &= self._numbers >= int(low)
        if high is not None:
            mask &= self._numbers <= int(high)
        return mask

    def nulls(self) -> Mask:
        """Rows that are null."""
        return ~self._valid


def bsi_rows(data: bytes, row_count: int) -> NumberedRows:
    """Read a ``bsi`` index.

    Raises
    ------
    CorruptError
        The bytes are not such an index of `row_count` rows.
    """
    source = ByteSource(data)
    version, rows = source.integer(1), source.integer()
    if version != _VERSION or rows != row_count:
        message = f"it is a bsi index of version {version} with {rows} rows, not {row_count}"
        raise damaged(message)
    numbers, valid = np.zeros(row_count, np.int64), np.zeros(row_count, np.bool_)
    for sign in (1, -1):
        if not source.truth():
            continue
        part, present = _slices(source, row_count)
        if (present & valid).any():
            message = "a row of it has two numbers"
            raise damaged(message)
        numbers[present] = sign * part[present]
        valid |= present
    return NumberedRows(numbers, valid)


def _slices(source: ByteSource, row_count: int) -> tuple[npt.NDArray[np.int64], Mask]:
    version, low, high = source.integer(1), source.integer(8), source.integer(8)
    if version != _VERSION or not 0 <= low <= high:
        message = f"it has slices of version {version} from {low} to {high}"
        raise damaged(message)
    positions, source.at = decode(source.data, source.at, rows=row_count)
    count = source.integer()
    if count != (high - low).bit_length():
        message = f"it has {count} slices for numbers from {low} to {high}"
        raise damaged(message)
    numbers, present = np.zeros(row_count, np.int64), np.zeros(row_count, np.bool_)
    present[positions] = True
    for digit in range(count):
        positions, source.at = decode(source.data, source.at, rows=row_count)
        own = np.zeros(row_count, np.bool_)
        own[positions] = True
        numbers += own.astype(np.int64) << digit
    return numbers + low, present
