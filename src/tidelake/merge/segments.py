"""Puts rows of several sorted runs in merge order: grouped by key, oldest first inside a key.

Algorithm:

1. Drop the byte columns of the keys that are the same in every row: they never decide an order. The
   rest nearly always fits 8 bytes, and integers sort several times faster than strings.
2. Sort stably. The rows come run by run, each run sorted, so the sort (timsort) is a K-way merge;
   ties keep the order of the runs, oldest first. A flush sorts unsorted rows instead: there key and
   position are packed into one integer where they fit, and that is sorted.
3. Where two keys differ a **segment** starts. Inside a segment rows must rise by (user sequence
   fields, sequence number, retract before add). Neighbours are compared, only in segments with more
   than one row, and only the segments out of order are sorted again: sorting all rows by all of
   these costs 20 times as much.

Source of the order: Paimon's ``SortMergeReaderWithLoserTree`` and ``UserDefinedSeqComparator``
(1.3.1). Cost O(n log K) for K runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelake.telemetry import kept_property

Keys = npt.NDArray[Any]
"""Encoded keys: int64, uint64 or fixed-width bytes; their order is the key order."""

RankOf = Callable[[npt.NDArray[np.int64]], Sequence[npt.NDArray[Any]]]
"""Given row positions, the values that order rows of one key, most significant first."""

WORD_BYTES = 8
WORD_BITS = 64
TIES_MAX = 4  # one row in so many
BLOCK_ROWS = 64  # a multiple of 8, so that a block of any width is whole words


@dataclass(frozen=True)
class Segments:
    """Rows in merge order.

    Parameters
    ----------
    order : int64 array [n]
        Row positions: sorted by key, and inside a key from the oldest row to the newest.
    first : bool array [n]
        Along `order`: whether a key's segment starts here.
    kinds : int8 array [n]
        By row position (not along `order`): the row's kind as stored.
    """

    order: npt.NDArray[np.int64]
    first: npt.NDArray[np.bool_]
    kinds: npt.NDArray[np.int8]

    @kept_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Along `order`, where each segment starts [number of keys]."""
        return np.flatnonzero(self.first)

    @kept_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many rows each segment has [number of keys]."""
        starts = self.starts
        lengths = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1:] = len(self.order) - starts[-1:]
        return lengths

    @property
    def newest(self) -> npt.NDArray[np.int64]:
        """The row position of each key's newest row [number of keys]."""
        ends = np.empty_like(self.starts)
        np.subtract(self.starts[1:], 1, out=ends[:-1])
        ends[-1:] = len(self.order) - 1
        return self.order.take(ends)

    @kept_property
    def may_retract(self) -> bool:
        """Whether any row retracts, including one that :meth:`lowest_level_only` left out."""
        return bool((self.kinds & 1).any())

    def lowest_level_only(self, levels: npt.NDArray[np.int64]) -> Segments:
        """Leave out rows already merged into a lower level; rows of level 0 all stay.

        Parameters
        ----------
        levels : int array [n]
            By row position: the level of the row's run.

        Examples
        --------
        >>> order, first = np.array([2, 1, 0]), np.array([True, False, False])
        >>> segments = Segments(order, first, np.zeros(3, np.int8))
        >>> segments.lowest_level_only(np.array([0, 4, 5])).order.tolist()
        [1, 0]
        """
        own = levels[self.order]
        high = own > 0
        lowest = np.minimum.reduceat(np.where(high, own, np.iinfo(np.int64).max), self.starts)
        stays = ~high | (own == np.repeat(lowest, self.lengths))
        return self if stays.all() else self._of(stays)

    def above_level_0_first(self, levels: npt.NDArray[np.int64]) -> Segments:
        """Leave out rows of level 0 whose key has a row above it that adds.

        Parameters
        ----------
        levels : int array [n]
            By row position: the level of the row's run.

        Examples
        --------
        >>> order, first = np.array([2, 1, 0, 3]), np.array([True, False, True, False])
        >>> segments = Segments(order, first, np.zeros(4, np.int8))
        >>> segments.above_level_0_first(np.array([0, 4, 0, 0])).order.tolist()
        [1, 0, 3]
        """
        above = levels[self.order] > 0
        stands = np.logical_or.reduceat(above & ((self.kinds[self.order] & 1) == 0), self.starts)
        stays = above | ~np.repeat(stands, self.lengths)
        return self if stays.all() else self._of(stays)

    def _of(self, stays: npt.NDArray[np.bool_]) -> Segments:
        """Some of the rows, along `order`; at least one of each key."""
        segment = np.cumsum(self.first)[stays]
        first = np.ones(len(segment), np.bool_)
        np.not_equal(segment[1:], segment[:-1], out=first[1:])
        return Segments(self.order[stays], first, self.kinds)


def compact_keys(keys: Keys) -> Keys:
    """Drop constant byte columns; up to 8 remaining ones become one unsigned integer.

    Examples
    --------
    >>> compact_keys(np.array([b"ab1", b"ab3", b"ab2"]))
    array([49, 51, 50], dtype=uint64)
    """
    if keys.dtype.kind != "S" or len(keys) == 0:
        return keys
    width = keys.dtype.itemsize
    table = keys.view(np.uint8).reshape(-1, width)
    varying = _varying_columns(table)
    if len(varying) <= WORD_BYTES:
        words = np.zeros((len(table), WORD_BYTES), np.uint8)
        for place, column in enumerate(varying, start=WORD_BYTES - len(varying)):
            words[:, place] = table[:, column]
        return words.view(">u8").ravel().astype(np.uint64)
    if len(varying) == width:
        return keys
    return np.ascontiguousarray(table[:, varying]).view(f"S{len(varying)}").ravel()


def _varying_columns(table: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Columns in which the rows differ.

    A column is constant if the OR of its bytes equals their AND. Both are taken over blocks of
    rows as 8-byte words: a reduction over the short rows costs ten times as much.
    """
    count, width = table.shape
    blocks = count // BLOCK_ROWS
    tail = table[blocks * BLOCK_ROWS :] if count % BLOCK_ROWS else table[:1]
    ones = np.bitwise_or.reduce(tail, axis=0)
    zeros = np.bitwise_and.reduce(tail, axis=0)
    if blocks:
        words = table[: blocks * BLOCK_ROWS].reshape(blocks, -1).view(np.uint64)
        block = (BLOCK_ROWS, width)
        ones |= np.bitwise_or.reduce(
            np.bitwise_or.reduce(words, axis=0).view(np.uint8).reshape(block), axis=0
        )
        zeros &= np.bitwise_and.reduce(
            np.bitwise_and.reduce(words, axis=0).view(np.uint8).reshape(block), axis=0
        )
    return np.flatnonzero(ones ^ zeros)


def merge_order(keys: Keys) -> npt.NDArray[np.int64]:
    """Give the stable order of keys that consist of a few sorted stretches."""
    return np.argsort(keys, kind="stable")


def flush_order(keys: Keys) -> npt.NDArray[np.int64]:
    """Give the stable order of keys in any order, as a write buffer holds them.

    One array of 64-bit numbers is sorted: each is as much of a key's head as leaves room for the
    row's position. Rows with equal heads and falling keys are sorted again. If they are many, all
    rows are sorted by their whole keys instead, which costs 3 to 7 times as much.

    Examples
    --------
    >>> flush_order(np.array([5, -2, 5, 1])).tolist()
    [1, 3, 0, 2]
    """
    count = len(keys)
    if count == 0 or bool(np.all(keys[1:] >= keys[:-1])):
        return np.arange(count, dtype=np.int64)
    heads, is_whole = _heads(keys)
    position_bits = count.bit_length()
    if int(heads.max()).bit_length() + position_bits > WORD_BITS:
        heads = _drop_constant_bits(heads)
    dropped_bits = max(0, int(heads.max()).bit_length() + position_bits - WORD_BITS)
    heads >>= np.uint64(dropped_bits)
    heads <<= np.uint64(position_bits)
    heads |= np.arange(count, dtype=np.uint64)
    heads.sort()
    order = (heads & np.uint64((1 << position_bits) - 1)).view(np.int64)
    if is_whole and not dropped_bits:
        return order
    heads >>= np.uint64(position_bits)
    return _settle_ties(keys, order, heads)


def _heads(keys: Keys) -> tuple[npt.NDArray[np.uint64], bool]:
    """Numbers that never fall where the keys rise; and whether they distinguish all keys."""
    if keys.dtype.kind == "S":
        width = keys.dtype.itemsize
        head = np.zeros((len(keys), WORD_BYTES), np.uint8)
        used = min(width, WORD_BYTES)
        head[:, :used] = keys.view(np.uint8).reshape(-1, width)[:, :used]
        heads, is_whole = head.view(">u8").ravel().astype(np.uint64), width <= WORD_BYTES
    else:
        # wrapping subtraction of two's complement integers gives the distance as unsigned
        heads, is_whole = (keys - keys.min()).view(np.uint64), True
    return heads, is_whole


def _drop_constant_bits(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Pack each byte's varying bits together: digits, for example, differ in 4 bits of 8.

    Bits that are equal in all words never decide an order, so it stays the same.
    """
    differing = int(np.bitwise_or.reduce(words)) ^ int(np.bitwise_and.reduce(words))
    pushed = np.zeros(len(words), np.uint64)
    used_bits = 0
    for shift in range(0, WORD_BITS, 8):
        mask = differing >> shift & 0xFF
        if not mask:
            continue
        low = (mask & -mask).bit_length() - 1
        bits = mask.bit_length() - low
        part = words >> np.uint64(shift + low)
        part &= np.uint64((1 << bits) - 1)
        part <<= np.uint64(used_bits)
        pushed |= part
        used_bits += bits
    return pushed


def _settle_ties(
    keys: Keys, order: npt.NDArray[np.int64], heads: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Sort the rows of equal heads whose keys fall along `order`."""
    ordered = keys[order]
    falls = ordered[1:] < ordered[:-1]
    if not falls.any():
        return order
    first = np.r_[True, heads[1:] != heads[:-1]]
    group = np.cumsum(first) - 1
    hit = np.zeros(group[-1] + 1, np.bool_)
    hit[group[1:][falls]] = True
    wrong = hit[group]
    if np.count_nonzero(wrong) > len(keys) // TIES_MAX:
        return np.argsort(keys, kind="stable")
    rows = order[wrong]  # of one group: by position, so a stable sort keeps equal keys in order
    order[wrong] = rows[np.lexsort((ordered[wrong], group[wrong]))]
    return order


def segments_of(
    keys: Keys,
    kinds: npt.NDArray[np.int8],
    *,
    sort: Callable[[Keys], npt.NDArray[np.int64]],
    rank_of: RankOf | None,
) -> Segments:
    """Group rows by key and order each key's rows.

    Parameters
    ----------
    keys : array [n]
        Encoded keys, oldest rows first.
    kinds : int8 array [n]
        The rows' kinds.
    sort : callable
        :func:`merge_order` or :func:`flush_order`.
    rank_of : callable, optional
        User sequence and sequence number of some rows; None if the position alone orders the
        rows of a key.

    Returns
    -------
    Segments
    """
    compacted = compact_keys(keys)
    order = sort(compacted)
    sorted_keys = np.take(compacted, order)
    first = np.empty(len(order), np.bool_)
    first[:1] = True
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=first[1:])
    if rank_of is not None:
        _repair(order, first, kinds, rank_of=rank_of)
    return Segments(order, first, kinds)


def _repair(
    order: npt.NDArray[np.int64],
    first: npt.NDArray[np.bool_],
    kinds: npt.NDArray[np.int8],
    *,
    rank_of: RankOf,
) -> None:
    """Sort the segments of `order` that are out of sequence order, in place."""
    shared = ~first
    shared[:-1] |= ~first[1:]
    places = np.flatnonzero(shared)
    if len(places) == 0:
        return
    rows = order[places]
    ranks = [*rank_of(rows), (kinds[rows] & 1) == 0]  # equal so far: retract before add
    starts = first[places]
    falls = _falls(ranks) & ~starts[1:]
    if not falls.any():
        return
    segment = np.cumsum(starts) - 1
    hit = np.zeros(segment[-1] + 1, np.bool_)
    hit[segment[1:][falls]] = True
    wrong = hit[segment]
    keys = [rank[wrong] for rank in reversed(ranks)]  # lexsort: least significant first
    order[places[wrong]] = rows[wrong][np.lexsort((*keys, segment[wrong]))]


def _falls(ranks: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Where a row ranks below the row before it [n - 1]."""
    falls = np.zeros(len(ranks[0]) - 1, np.bool_)
    equal = np.ones(len(ranks[0]) - 1, np.bool_)
    for rank in ranks:
        falls |= equal & (rank[1:] < rank[:-1])
        equal &= rank[1:] == rank[:-1]
    return falls
