"""Roaring bitmaps of 32-bit positions in their portable format, by ``pyroaring``.

The bytes equal those of Java's ``RoaringBitmap.serialize``, with runs after ``runOptimize``. Bytes
from files are not trusted. The library checks bounds, order and counts, and the bitmap written
again must equal the input. A few bytes can name thousands of millions of positions, so the largest
position is compared with the number of rows before positions become an array.

Source: the RoaringBitmap format specification. Cost: O(n), at least 2 us for a bitmap.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tidelake.errors import CorruptError

ROWS_MAX = 1 << 32

Positions = npt.NDArray[np.int64]


def encode_one(positions: Positions, *, with_runs: bool = True) -> bytes:
    """Encode rising positions as a bitmap.

    Parameters
    ----------
    positions : int64 array [n]
        Requires: strictly rising, from 0 to below 2**32.
    with_runs : bool
        Whether containers may hold runs where these are smallest.

    Examples
    --------
    >>> encode_one(np.array([1, 5])).hex()
    '3a30000001000000000001001000000001000500'
    """
    return BitMap(_unsigned(positions), optimize=with_runs).serialize()


def encode_groups(groups: Positions, positions: Positions) -> tuple[bytes, Positions]:
    """Encode groups of positions as bitmaps, one after the other.

    Parameters
    ----------
    groups : int64 array [n]
        Requires: 0, 1, 2 ... without a gap, rising.
    positions : int64 array [n]
        Requires: within a group strictly rising, from 0 to below 2**32.

    Returns
    -------
    (bytes, int64 array [groups])
        The bitmaps, and the length of each in bytes.
    """
    if not len(positions):
        return b"", np.zeros(0, np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(positions)]
    numbers = _unsigned(positions)
    bitmaps = [BitMap(numbers[i:j]).serialize() for i, j in itertools.pairwise(bounds)]
    return b"".join(bitmaps), np.fromiter(map(len, bitmaps), np.int64, len(bitmaps))


def decode(data: bytes, start: int = 0, *, rows: int = ROWS_MAX) -> tuple[Positions, int]:
    """Decode a bitmap's positions, and find its end.

    Parameters
    ----------
    rows : int
        All positions must be below this number.

    Returns
    -------
    (int64 array [cardinality], int)
        Rising.

    Raises
    ------
    CorruptError
        The bytes are not a roaring bitmap, or a position is out of range.

    Examples
    --------
    >>> decode(encode_one(np.array([1, 5, 70_000])))[0].tolist()
    [1, 5, 70000]
    """
    bitmap, end = _load(data, start)
    if bitmap and bitmap.max() >= rows:
        message = f"it names row {bitmap.max()} of {rows}"
        raise _damaged(message)
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64), end


def union(bitmaps: Iterable[bytes]) -> bytes:
    """Compute the union of bitmaps.

    Raises
    ------
    CorruptError
        One of them is not a roaring bitmap.

    Examples
    --------
    >>> united = union([encode_one(np.array([1, 5])), encode_one(np.array([5, 9]))])
    >>> decode(united)[0].tolist()
    [1, 5, 9]
    """
    united = BitMap.union(*(_load(data, 0)[0] for data in bitmaps))
    united.run_optimize()
    return united.serialize()


def _unsigned(positions: Positions) -> array[int]:
    numbers = array("I")  # the library reads its memory directly, but iterates over a NumPy array
    numbers.frombytes(positions.astype(np.uint32).tobytes())
    return numbers


def _load(data: bytes, start: int) -> tuple[BitMap, int]:
    if not 0 <= start < len(data):
        message = f"it should begin at {start} of {len(data)} bytes"
        raise _damaged(message)
    rest = memoryview(data)[start:]
    try:
        bitmap = BitMap.deserialize(rest)  # type: ignore[arg-type]  # it takes any buffer
    except ValueError as error:
        raise _damaged(str(error)) from error
    written = bitmap.serialize()
    if rest[: len(written)] != written:
        message = "its header does not describe it"
        raise _damaged(message)
    return bitmap, start + len(written)


def _damaged(reason: str) -> CorruptError:
    message = f"A roaring bitmap is damaged: {reason}."
    return CorruptError(message, kind="file_index")
