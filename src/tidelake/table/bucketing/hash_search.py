"""Finds a few hashes in a long file of many. Pure.

1. A table of flags, at least :data:`SLOTS_PER_HASH` for each wanted hash, records some bits of the
   wanted hashes. A second table records other bits.
2. The few stored hashes that pass both tables are looked up by bisection.

Stored hashes need no order. Only those that pass are converted to the machine's byte order. Cost:
2 ns for each stored hash, a twentieth of sorting all of them for a bisection.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SLOTS_PER_HASH = 32
"""Flags for each wanted hash; one in so many other hashes passes by chance."""

SLOT_BITS_MIN, SLOT_BITS_MAX = 10, 24
"""Bounds of the tables: 1 KiB, and 16 MiB."""


class HashSearch:
    """Looks for some hashes.

    Parameters
    ----------
    wanted : int32 array [n]
        Requires: sorted and distinct.

    Examples
    --------
    >>> search = HashSearch(np.array([-7, 3, 9], np.int32))
    >>> stored = np.array([9, 4, -7], ">i4").view(np.uint32)
    >>> search.found_in(stored).tolist()
    [2, 0]
    """

    __slots__ = ("_bits", "_high", "_low", "_wanted")

    def __init__(self, wanted: npt.NDArray[np.int32]) -> None:
        self._wanted = wanted
        slots = max(1, SLOTS_PER_HASH * len(wanted))
        self._bits = min(max((slots - 1).bit_length(), SLOT_BITS_MIN), SLOT_BITS_MAX)
        stored = wanted.astype(">i4").view(np.uint32)
        self._high = self._flags(self._high_bits(stored))
        self._low = self._flags(self._low_bits(stored))

    def found_in(self, stored: npt.NDArray[np.uint32]) -> npt.NDArray[np.intp]:
        """Look through stored hashes.

        Parameters
        ----------
        stored : uint32 array
            The bytes of each hash big-endian, on any machine. Some hundred thousand at a time, so
            that intermediate arrays stay in the processor's cache.

        Returns
        -------
        int array
            For each stored hash that is wanted, its index among the wanted; in the order of the
            stored hashes.
        """
        stored = stored[_flagged(self._high, self._high_bits(stored))]
        stored = stored[_flagged(self._low, self._low_bits(stored))]
        hashes = stored.view(">i4").astype(np.int32)
        if not len(hashes):
            return np.empty(0, np.intp)
        indices = np.minimum(np.searchsorted(self._wanted, hashes), len(self._wanted) - 1)
        found: npt.NDArray[np.intp] = indices[self._wanted[indices] == hashes]
        return found

    def _high_bits(self, stored: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        return stored >> np.uint32(32 - self._bits)

    def _low_bits(self, stored: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        return stored & np.uint32((1 << self._bits) - 1)

    def _flags(self, slots: npt.NDArray[np.uint32]) -> pa.Array:
        flags = np.zeros(1 << self._bits, np.uint8)
        flags[slots] = 1
        return pa.array(flags)


def _flagged(flags: pa.Array, slots: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    # Arrow takes by 32-bit numbers; NumPy would make them 64-bit first
    taken = pc.take(flags, pa.array(slots), boundscheck=False)
    mask: npt.NDArray[np.bool_] = taken.to_numpy().view(np.bool_)
    return mask
