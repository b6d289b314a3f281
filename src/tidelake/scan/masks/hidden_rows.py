"""The hidden rows of one data file: a few positions, or a bit per row, whichever is smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

WORD_BITS = 64
OBJECT_BYTES = 200


@dataclass(frozen=True, slots=True, eq=False)
class HiddenRows:
    """The positions that a read leaves out. Immutable; made by :meth:`of` or :meth:`of_bits`.

    Parameters
    ----------
    kept : int32 or uint8 array
        Their positions, ascending; or a bit per row, lowest first.

    Examples
    --------
    >>> hidden = HiddenRows.of(np.array([False, True, False]))
    >>> hidden.hidden_count, hidden.words().tolist()
    (1, [2])
    """

    rows_count: int
    hidden_count: int
    kept: npt.NDArray[Any]

    @classmethod
    def of(cls, flags: npt.NDArray[np.bool_]) -> HiddenRows:
        """From a flag per row.

        Parameters
        ----------
        flags : bool array [rows]
            Whether a row is hidden.
        """
        count = int(np.count_nonzero(flags))
        kept: npt.NDArray[Any] = (
            np.flatnonzero(flags).astype(np.int32)
            if count * np.dtype(np.int32).itemsize * 8 <= len(flags)
            else np.packbits(flags, bitorder="little")
        )
        return cls(len(flags), count, kept)

    @classmethod
    def of_bits(cls, bits: bytes, rows_count: int) -> HiddenRows:
        """From a bit per row, as :meth:`bits` gives them."""
        packed = np.frombuffer(bits, np.uint8)
        return cls.of(np.unpackbits(packed, count=rows_count, bitorder="little").view(np.bool_))

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self.kept.nbytes + OBJECT_BYTES

    def flags(self) -> npt.NDArray[np.bool_]:
        """A flag per row, in an array of the caller's own [rows]."""
        if self.kept.dtype == np.uint8:
            unpacked = np.unpackbits(self.kept, count=self.rows_count, bitorder="little")
            return unpacked.view(np.bool_)
        flags = np.zeros(self.rows_count, np.bool_)
        flags[self.kept] = True
        return flags

    def bits(self) -> bytes:
        """A bit per row, lowest first."""
        if self.kept.dtype == np.uint8:
            return self.kept.tobytes()
        return np.packbits(self.flags(), bitorder="little").tobytes()

    def positions(self) -> npt.NDArray[np.int64]:
        """The ordinals of the rows, ascending."""
        if self.kept.dtype == np.uint8:
            return np.flatnonzero(self.flags())
        return self.kept.astype(np.int64)

    def words(self) -> npt.NDArray[np.int64]:
        """The bits in words of 64 [words_count(rows)], lowest bit first."""
        words = np.zeros(words_count(self.rows_count), np.int64)
        bits = np.frombuffer(self.bits(), np.uint8)
        words.view(np.uint8)[: len(bits)] = bits
        return words

    def united(self, other: HiddenRows | None) -> HiddenRows:
        """The rows that either hides."""
        if other is None or not other.hidden_count:
            return self
        assert other.rows_count == self.rows_count, "two masks of one file"
        return HiddenRows.of(self.flags() | other.flags())


def words_count(rows_count: int) -> int:
    """Number of words that hold a bit per row.

    Examples
    --------
    >>> [words_count(n) for n in (0, 1, 64, 65)]
    [0, 1, 1, 2]
    """
    return -(-rows_count // WORD_BITS)
