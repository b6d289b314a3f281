"""Lays out the rows of keys with several rows, so that all keys are folded at once.

A Paimon merge function is a loop: rows of one key arrive from the oldest to the newest, and each
changes an accumulator. The same loop over all keys at once has one step per *rank*: first the
oldest row of every key, then the second of every key that has one, and so on. Keys are ordered by
their number of rows, most first, so that the keys of a step are a prefix and no step visits
finished keys.

The effect of a row on an accumulator is its :class:`Action`; the engines choose it, per column.
Functions whose result does not depend on the steps (a maximum, the last value) use whole segments
instead (:meth:`Layout.events`).

Source: ``docs/format/merge.md``; Paimon's ``ReducerMergeFunctionWrapper`` (1.3.1) for keys with one
row, which bypass all of this.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelake.merge.segments import Segments
from tidelake.telemetry import kept_property

Actions = npt.NDArray[np.int8]
"""One :class:`Action` per row of a :class:`Layout`."""

Positions = npt.NDArray[np.int64]

FLAT_ROWS_MAX = 32
"""Up to so many rows of a key a step per rank costs less than numpy's ``reduceat``: a quarter of it
for the two to five rows that keys have between compactions."""


class Action(enum.IntEnum):
    """The effect of a row on the accumulator of a column."""

    SKIP = 0
    """Nothing."""
    ADD = 1
    """Aggregate it as the newer value."""
    OLDER = 2
    """Aggregate it as the older value: its sequence is below the accumulator's."""
    RETRACT = 3
    """Retract it."""
    SET = 4
    """The key's row was removed; the column restarts with this value (NOT NULL columns)."""
    CLEAR = 5
    """The key's row was removed; the column restarts with null."""


@dataclass(frozen=True, slots=True)
class Events:
    """Some of a layout's rows, segment after segment.

    Parameters
    ----------
    at : int64 array [e]
        Positions in the layout, ascending.
    starts : int64 array [k]
        Along `at`, where each segment with an event starts.
    segments : int64 array [k]
        Which segments these are.
    """

    at: Positions
    starts: Positions
    segments: Positions

    @property
    def lengths(self) -> Positions:
        """Events of each segment [k]."""
        return np.diff(self.starts, append=len(self.at))


@dataclass(frozen=True, slots=True)
class Ranked:
    """A layout's rows rank after rank: all oldest rows, then all second ones, and so on.

    Columns to which every row adds are folded at :attr:`rows` by operations on neighbours in
    memory, without positions.

    Parameters
    ----------
    rows : int64 array [n]
        Row positions.
    slices : tuple of slice
        Along them, the ranks. Each rank has the first segments, no more than the rank before
        it.
    """

    rows: Positions
    slices: tuple[slice, ...]

    def sums(self, terms: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add up each segment, from its oldest row to its newest [s].

        Parameters
        ----------
        terms : array [n]
            Rank after rank; all partial sums must fit its type.
        """
        sums = terms[self.slices[0]].copy()
        for rank in self.slices[1:]:
            own = terms[rank]
            sums[: len(own)] += own
        return sums

    def newest(self, mask: npt.NDArray[np.bool_], values: Positions) -> Positions:
        """Give the value of each segment's newest row in a mask [s]; -1 without such a row.

        Parameters
        ----------
        mask : bool array [n]
            Rank after rank.
        values : int64 array [n]
            Rank after rank: the rows' values.
        """
        oldest, *newer = self.slices
        found = np.where(mask[oldest], values[oldest], -1)
        for rank in newer:
            before = found[: rank.stop - rank.start]
            before[:] = np.where(mask[rank], values[rank], before)
        return found

    def last_rising(self, sequences: Positions, nothing: np.int64) -> Positions:
        """Give each segment's last row whose sequence is not below those before it [s].

        Parameters
        ----------
        sequences : int64 array [n]
            Rank after rank.
        nothing : int64
            The sequence of ignored rows, below all others. For a segment without other rows the
            result is -1.
        """
        oldest, *newer = self.slices
        highest = sequences[oldest].copy()
        found = np.where(highest != nothing, self.rows[oldest], -1)
        for rank in newer:
            own, before = sequences[rank], highest[: rank.stop - rank.start]
            takes = (own >= before) & (own != nothing)
            # about every second row takes part: numpy's copyto would mispredict its branches
            np.putmask(before, takes, own)
            np.putmask(found[: len(own)], takes, self.rows[rank])
        return found

    def extremes(
        self, ranks: npt.NDArray[Any], known: npt.NDArray[np.bool_] | None, *, largest: bool
    ) -> npt.NDArray[Any]:
        """Give the largest or smallest of each segment [s]; undefined where none is known.

        Parameters
        ----------
        ranks : integer array [n]
            Rank after rank.
        known : bool array [n], optional
            Rank after rank: which take part. None for all.
        largest : bool
            The largest, or else the smallest.
        """
        better = np.maximum if largest else np.minimum
        if known is not None:
            bounds = np.iinfo(ranks.dtype)
            ranks = np.where(known, ranks, ranks.dtype.type(bounds.min if largest else bounds.max))
        oldest, *newer = self.slices
        best = ranks[oldest].copy()
        for rank in newer:
            own = ranks[rank]
            better(best[: len(own)], own, out=best[: len(own)])
        return best

    def some(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether a segment has one of these rows [s].

        Parameters
        ----------
        mask : bool array [n]
            Rank after rank.
        """
        some = mask[self.slices[0]].copy()
        for rank in self.slices[1:]:
            own = mask[rank]
            some[: len(own)] |= own
        return some


@dataclass(frozen=True)
class Layout:
    """Rows of keys with several rows; the keys with the most rows first.

    Derived arrays are made on first use: most merges have rows that add and keys with few rows,
    and use only ranks.

    Parameters
    ----------
    order : int64 array
        Row positions in merge order, including those of other keys.
    begins : int64 array [s]
        Along `order`, where each segment starts.
    lengths : int64 array [s]
        Rows of each segment, at least two; falling.
    keys : int64 array [s]
        Which of all keys, in key order, each segment is.
    """

    order: Positions
    begins: Positions
    lengths: Positions
    keys: Positions

    @kept_property
    def starts(self) -> Positions:
        """Where each segment starts in the layout [s]."""
        return np.cumsum(self.lengths) - self.lengths

    @kept_property
    def rows(self) -> Positions:
        """Row positions, segment after segment, from the oldest row of a key to its newest [n]."""
        places = np.repeat(self.begins - self.starts, self.lengths)
        places += np.arange(len(places))
        return self.order.take(places)

    @kept_property
    def newest_rows(self) -> Positions:
        """The position of each segment's newest row [s]."""
        return self.order.take(self.begins + self.lengths - 1)

    @kept_property
    def added(self) -> Actions:
        """The actions of rows that are all aggregated as newer values [n]."""
        return np.full(int(self.lengths.sum()), Action.ADD, np.int8)

    @kept_property
    def by_rank(self) -> Ranked | None:
        """The rows rank after rank.

        None if keys have so many rows that a step per rank is not the cheapest way.
        """
        if len(self.lengths) == 0 or int(self.lengths[0]) > FLAT_ROWS_MAX:
            return None
        active = _active(self.lengths)
        ends = np.cumsum(active).tolist()
        slices = tuple(slice(end - count, end) for end, count in zip(ends, active, strict=True))
        return Ranked(self.order.take(self._along_ranks(self.begins)), slices)

    @kept_property
    def rank_positions(self) -> Positions:
        """Positions in the layout, rank after rank [n]."""
        return self._along_ranks(self.starts)

    def _along_ranks(self, starts: Positions) -> Positions:
        active = _active(self.lengths)
        return np.concatenate([starts[:count] + rank for rank, count in enumerate(active)])

    @property
    def segment(self) -> Positions:
        """The segment of each position [n]."""
        return np.repeat(np.arange(len(self.starts), dtype=np.int64), self.lengths)

    @property
    def last(self) -> Positions:
        """The position of each segment's newest row [s]."""
        return self.starts + self.lengths - 1

    def if_all_add(self, actions: Actions) -> Ranked | None:
        """Give the rows rank after rank, if there are few ranks and every row adds."""
        is_so = actions is self.added or bool((actions == Action.ADD).all())
        return self.by_rank if is_so else None

    def ranks(self) -> Iterator[tuple[int, Positions]]:
        """Go through the rows rank by rank.

        Yields
        ------
        active : int
            So many segments, the first ones, have a row of this rank.
        at : int64 array [active]
            The positions of these rows.
        """
        if self.by_rank is not None:
            for rank in self.by_rank.slices:
                yield rank.stop - rank.start, self.rank_positions[rank]
            return
        for number, active in enumerate(_active(self.lengths)):
            yield active, self.starts[:active] + number

    def events(self, mask: npt.NDArray[np.bool_]) -> Events:
        """Give the rows of a mask [n]."""
        at = np.flatnonzero(mask)
        if len(at) == len(mask):
            return Events(at, self.starts, np.arange(len(self.starts), dtype=np.int64))
        counts = np.add.reduceat(mask, self.starts, dtype=np.int64)
        segments = np.flatnonzero(counts)
        own = counts[segments]
        return Events(at, np.cumsum(own) - own, segments)

    def last_of(self, mask: npt.NDArray[np.bool_]) -> Positions:
        """Give the last position of a mask in each segment [s]; -1 if it has none."""
        if self.by_rank is not None:
            return self.by_rank.newest(mask[self.rank_positions], self.rank_positions)
        last = np.maximum.accumulate(np.where(mask, np.arange(len(mask), dtype=np.int64), -1))
        last = last[self.last]
        return np.where(last >= self.starts, last, -1)

    def sums(self, terms: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Add up each segment [s].

        Parameters
        ----------
        terms : int64 array [n]
            Along the layout; the sum of all their magnitudes must fit.
        """
        until = np.cumsum(terms)[self.last]
        until[1:] -= until[:-1].copy()
        return until

    def since_reset(self, actions: Actions) -> npt.NDArray[np.bool_]:
        """Whether a row counts: no later row of its key removes the earlier ones [n]."""
        resets = (actions == Action.SET) | (actions == Action.CLEAR)
        if not resets.any():
            return np.ones(len(actions), np.bool_)
        last = np.repeat(self.last_of(resets), self.lengths)
        return np.arange(len(actions)) >= last


def layout_of(segments: Segments) -> Layout:
    """Lay out the keys that have several rows.

    Examples
    --------
    >>> order, first = np.array([4, 0, 3, 1, 2]), np.array([True, True, False, True, False])
    >>> layout = layout_of(Segments(order, first, np.zeros(5, np.int8)))
    >>> layout.rows.tolist(), layout.keys.tolist()
    ([0, 3, 1, 2], [1, 2])
    """
    lengths = segments.lengths
    keys = np.flatnonzero(lengths > 1)
    own = lengths.take(keys)
    longest = int(own.max(initial=0))
    fewer = (longest - own).astype(np.min_scalar_type(longest))  # numpy counting-sorts small ones
    falling = np.argsort(fewer, kind="stable")
    keys = keys.take(falling)
    return Layout(segments.order, segments.starts.take(keys), own.take(falling), keys)


def _active(lengths: Positions) -> list[int]:
    """How many segments have a row of each rank, by falling lengths."""
    if len(lengths) == 0:
        return []
    ended = np.cumsum(np.bincount(lengths)[:-1])  # segments that end before a rank
    return (len(lengths) - ended).tolist()
