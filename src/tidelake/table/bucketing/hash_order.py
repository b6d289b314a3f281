"""In which order a bucket's hashes stand in its new index file. Pure.

A search in sorted hashes is cheap, but to sort them for every commit is not. A commit needs to know
which hashes are new, too: they stand last in the file, or the message of the write has them.

1. The hashes of a small bucket stay as they come: the known ones, then the new ones.
2. So it is while the part that is not sorted is short: an eighth of the bucket, and less in a full
   one, which gets no new keys any more.
3. Else all are sorted. If the new ones are too many for a message, the known ones alone are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SORTED_MIN = 1 << 16
"""Hashes of a bucket below which a search through all of them costs nothing worth saving."""

TAIL_SHARE = 8
"""The part that is not sorted may be one in so many of the bucket's hashes."""

ADDED_MAX = 1 << 19
"""New hashes that a message carries at most: 2 MiB, for the driver has the messages of all buckets
at once."""

Hashes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class OrderedHashes:
    """What an index file holds.

    Parameters
    ----------
    hashes : int32 array
        All hashes of the bucket.
    sorted_count : int
        How many at the beginning are sorted.
    added : bytes or None
        The new hashes, 4 bytes each, little-endian; None if they stand last.
    """

    hashes: Hashes
    sorted_count: int
    added: bytes | None = None


def ordered_hashes(
    hashes: Hashes, *, known_count: int, sorted_count: int, is_full: bool
) -> OrderedHashes:
    """Choose the order.

    Parameters
    ----------
    hashes : int32 array
        The known hashes as they stand in the file before, then the new ones.
    known_count, sorted_count : int
        How many are known, and how many at the beginning are sorted.
    is_full : bool
        Whether the bucket gets no new keys any more.

    Examples
    --------
    >>> ordered_hashes(np.array([3, 1], np.int32), known_count=1, sorted_count=0, is_full=True)
    OrderedHashes(hashes=array([3, 1], dtype=int32), sorted_count=0, added=None)
    """
    count = len(hashes)
    tail_max = SORTED_MIN if is_full else max(SORTED_MIN, count // TAIL_SHARE)
    if count < SORTED_MIN or count - sorted_count <= tail_max:
        return OrderedHashes(hashes, sorted_count)
    if count - known_count > ADDED_MAX and known_count:
        known = np.sort(hashes[:known_count])
        return OrderedHashes(np.concatenate([known, hashes[known_count:]]), known_count)
    added = hashes[known_count:].astype("<i4").tobytes() if known_count else None
    return OrderedHashes(np.sort(hashes), count, added)
