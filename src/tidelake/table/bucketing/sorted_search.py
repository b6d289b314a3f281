"""Finds a few hashes in a long sorted array, by interpolation. Pure.

Hashes are spread evenly, so the value of a hash tells about where it stands.

1. The first guess is in proportion to the value. The hash at the guess corrects it; after three
   corrections in a million hashes most guesses are a few places off.
2. The hashes around the guess are compared with the wanted one. Either it is among them, or one of
   them is smaller and one is larger, so it is missing. For the others the guess is corrected again
   and more hashes are compared.
3. Those still unknown are looked up by bisection. So the answer is right however hashes are spread.

Cost: 50 ns for each wanted hash, whatever the length of the array.
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

SEARCH_COST = 32
"""A wanted hash costs as much as a search that goes through so many unsorted ones."""

CORRECTIONS = 2
"""Corrections before the first comparison, which is made after one more."""

WINDOWS = (8, 32)
"""Hashes that are compared with a wanted one, in the first round and in the second."""

Stored = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]


def found_in_sorted(wanted: npt.NDArray[np.int32], stored: Stored) -> Places:
    """Look some hashes up.

    Parameters
    ----------
    wanted : int32 array [n]
        Requires: sorted and distinct.
    stored : uint32 array [m]
        The bytes of each hash big-endian, on any machine. Requires: sorted as signed numbers.

    Returns
    -------
    int array
        The indices of the wanted hashes that are stored, ascending.

    Examples
    --------
    >>> stored = np.array([-7, 4, 9, 12], ">i4").view(np.uint32)
    >>> found_in_sorted(np.array([-7, 3, 9], np.int32), stored).tolist()
    [0, 2]
    """
    is_found = np.zeros(len(wanted), np.bool_)
    rest = np.arange(len(wanted))
    if len(stored) > max(WINDOWS):
        rest = _interpolated(wanted, stored, is_found)
    signed = stored.view(">i4")
    for index in rest.tolist():  # 3 us each; none of evenly spread ones
        place = bisect.bisect_left(signed, wanted[index])
        is_found[index] = place < len(signed) and signed[place] == wanted[index]
    return np.flatnonzero(is_found)


def _interpolated(
    wanted: npt.NDArray[np.int32], stored: Stored, is_found: npt.NDArray[np.bool_]
) -> Places:
    """Set what is found; give the indices of those that are neither found nor missing."""
    first, last = _native(stored[[0, -1]]).astype(np.float64)
    slope = (len(stored) - 1) / (last - first)
    places = ((wanted - first) * slope).astype(np.intp)
    rest = np.arange(len(wanted))
    values = wanted
    for window in (0,) * CORRECTIONS + WINDOWS:
        at_places = _native(np.take(stored, places, mode="clip"))
        places += ((values - at_places.astype(np.float64)) * slope).astype(np.intp)
        if not window or not len(rest):
            continue
        hits, is_known = _compared(values, stored, places, window)
        is_found[rest[hits]] = True
        unknown = np.flatnonzero(~is_known)
        rest, places, values = rest[unknown], places[unknown], values[unknown]
    return rest


def _compared(
    values: npt.NDArray[np.int32], stored: Stored, places: Places, window: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether each value is near its place, and whether that is known."""
    last_begin = len(stored) - window
    begins = np.minimum(np.maximum(places - (window // 2 - 1), 0), last_begin)
    # sliding_window_view gives the same in twenty times the time
    shape, strides = (last_begin + 1, window), 2 * stored.strides
    near = np.ndarray(shape, stored.dtype, stored, strides=strides)[begins]
    hits = (near == values.astype(">i4").view(np.uint32)[:, None]).any(axis=1)
    is_above = (_native(near[:, 0]) < values) | (begins == 0)
    is_below = (_native(near[:, -1]) > values) | (begins == last_begin)
    return hits, hits | (is_above & is_below)


def _native(stored: Stored) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(stored).view(">i4").astype(np.int32)
