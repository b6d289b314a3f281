"""The 64-bit hashes of Paimon's bloom filter index, over whole columns.

=========================================  ==================================================
type                                       hash
=========================================  ==================================================
TINYINT .. BIGINT, DATE, TIME              Thomas Wang's 64-bit mix of the number
FLOAT, DOUBLE                              the same of the IEEE bits, NaN being one value
TIMESTAMP, TIMESTAMP_LTZ                   the same of ms (precision to 3) or us (above)
CHAR, VARCHAR, BINARY, VARBINARY           xxHash64 of the bytes, seed 0
=========================================  ==================================================

Both are computed for whole columns, 8 or 32 bytes of all values in a step; values that have ended
drop out. Other types have no bloom filter, in Paimon too.

Source: Paimon's ``FastHash`` (1.3.1), the xxHash specification; vectors from Java in
``tests/golden/file_index.txt``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_SLICE_VALUES = 1 << 16
"""Values in one block, whose state stays in the processor's cache."""


def hash_numbers(numbers: npt.NDArray[np.int64]) -> Hashes:
    """Hash numbers.

    Examples
    --------
    >>> hash_numbers(np.array([1])).tolist()
    [6614235796240398542]
    """
    key = numbers.astype(np.int64)
    key = ~key + (key << 21)
    key ^= key >> 24  # an arithmetic shift, as Java's >>
    key = key + (key << 3) + (key << 8)
    key ^= key >> 14
    key = key + (key << 2) + (key << 4)
    key ^= key >> 28
    key = key + (key << 31)
    return key.view(np.uint64)


def hash_bytes(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    """Hash byte strings that lie one after the other.

    Parameters
    ----------
    data : uint8 array
        All bytes.
    offsets : int64 array [n + 1]
        Value ``i`` is ``data[offsets[i] : offsets[i + 1]]``.

    Returns
    -------
    uint64 array [n]

    Examples
    --------
    >>> hash_bytes(np.frombuffer(b"abc", np.uint8), np.array([0, 0, 3])).tolist()
    [17241709254077376921, 4952883123889572249]
    """
    count = len(offsets) - 1
    hashes = np.empty(count, np.uint64)
    padded = np.r_[data, np.zeros(32, np.uint8)]
    for start in range(0, count, _SLICE_VALUES):
        end = min(count, start + _SLICE_VALUES)
        hashes[start:end] = _xx(padded, offsets[start:end], np.diff(offsets[start : end + 1]))
    return hashes


def _xx(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> Hashes:
    at = at.copy()
    with np.errstate(over="ignore"):
        hashes = np.full(len(at), _P5, np.uint64)
        long = np.flatnonzero(size >= 32)
        if len(long):
            hashes[long] = _stripes(data, at[long], size[long])
            at[long] += size[long] // 32 * 32
        hashes += size.astype(np.uint64)
        left = np.where(size >= 32, size % 32, size)
        while len(some := np.flatnonzero(left >= 8)):
            word = _round(np.zeros(len(some), np.uint64), _words(data, at[some], 8))
            hashes[some] = _rotate(hashes[some] ^ word, 27) * _P1 + _P4
            at[some] += 8
            left[some] -= 8
        some = np.flatnonzero(left >= 4)
        if len(some):
            word = _words(data, at[some], 4) * _P1
            hashes[some] = _rotate(hashes[some] ^ word, 23) * _P2 + _P3
            at[some] += 4
            left[some] -= 4
        while len(some := np.flatnonzero(left > 0)):
            word = data[at[some]].astype(np.uint64) * _P5
            hashes[some] = _rotate(hashes[some] ^ word, 11) * _P1
            at[some] += 1
            left[some] -= 1
        hashes ^= hashes >> np.uint64(33)
        hashes *= _P2
        hashes ^= hashes >> np.uint64(29)
        hashes *= _P3
        return hashes ^ (hashes >> np.uint64(32))


def _stripes(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> Hashes:
    """Mix the whole stripes of 32 bytes into the states of long values."""
    state = np.empty((4, len(at)), np.uint64)
    state[0], state[1], state[2], state[3] = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
    stripes = size // 32
    for stripe in range(int(stripes.max())):
        some = np.flatnonzero(stripes > stripe)
        for lane in range(4):
            words = _words(data, at[some] + 32 * stripe + 8 * lane, 8)
            state[lane, some] = _round(state[lane, some], words)
    hashes = _rotate(state[0], 1) + _rotate(state[1], 7)
    hashes += _rotate(state[2], 12) + _rotate(state[3], 18)
    for lane in range(4):
        hashes = (hashes ^ _round(np.zeros(len(at), np.uint64), state[lane])) * _P1 + _P4
    return hashes


def _round(state: Hashes, words: Hashes) -> Hashes:
    return _rotate(state + words * _P2, 31) * _P1


def _rotate(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _words(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], width: int) -> Hashes:
    """Read little-endian words at positions that need not be aligned."""
    words = np.zeros(len(at), np.uint64)
    for byte in range(width):
        words |= data[at + byte].astype(np.uint64) << np.uint64(8 * byte)
    return words
