"""Functions that choose one of the rows: their result is a position, mostly, whatever the type.

Source: Paimon's ``FieldLastValueAgg``, ``FieldLastNonNullValueAgg``, ``FieldFirstValueAgg``,
``FieldFirstNonNullValueAgg``, ``FieldMaxAgg``, ``FieldMinAgg`` (1.3.1). Cost O(n). Rows with an
older sequence, or after a removal, need the accumulator's state: one vector step per rank. A
maximum of numbers is computed directly, without a position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import valid_rows
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.codec.number_column import (
    has_numbers,
    number_array,
    numbers_at,
    numbers_of_ranks,
    ranks_of_numbers,
)
from tidelake.merge.layout import Action, Actions, Layout, Ranked
from tidelake.merge.segments import compact_keys
from tidelake.types import DataType

NONE = -1
"""The position that stands for null."""

Picks = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def last_value(layout: Layout, actions: Actions) -> Picks:
    """Choose the newest row, null or not; a retraction leaves null.

    Parameters
    ----------
    actions : int8 array [n]
        The action of each.

    Returns
    -------
    int64 array [s]
        Row positions, :data:`NONE` for null.
    """
    if layout.if_all_add(actions) is not None:
        return layout.newest_rows
    return _at_last(layout, actions, (actions != Action.SKIP) & (actions != Action.OLDER))


def last_non_null_value(layout: Layout, actions: Actions, valid: Mask | None) -> Picks:
    """Choose the newest row that has a value; the retraction of a value leaves null.

    Parameters
    ----------
    valid : bool array, optional
        By row position: whether the row has a value. None if all have.
    """
    ranked = layout.if_all_add(actions)
    if ranked is not None:
        if valid is None:
            return layout.newest_rows
        return ranked.newest(valid.take(ranked.rows), ranked.rows)
    valid = _of_layout(layout, valid)
    if not (actions == Action.OLDER).any():
        event = ((actions == Action.ADD) | (actions == Action.RETRACT)) & valid
        event |= (actions == Action.SET) | (actions == Action.CLEAR)
        return _at_last(layout, actions, event)
    picks = np.full(len(layout.starts), NONE, np.int64)
    for active, at in layout.ranks():
        action, own, before = actions[at], valid[at], picks[:active]
        takes = ((action == Action.ADD) & own) | (action == Action.SET)
        takes |= (action == Action.OLDER) & own & (before == NONE)
        clears = ((action == Action.RETRACT) & own) | (action == Action.CLEAR)
        picks[:active] = np.where(takes, layout.rows[at], np.where(clears, NONE, before))
    return picks


def _of_layout(layout: Layout, valid: Mask | None) -> Mask:
    return np.ones(len(layout.rows), np.bool_) if valid is None else valid[layout.rows]


def _at_last(layout: Layout, actions: Actions, event: Mask) -> Picks:
    """The row of each segment's last event, if that sets a value."""
    last = layout.last_of(event)
    own = actions[last]
    sets = (last >= 0) & ((own == Action.ADD) | (own == Action.SET))
    return np.where(sets, layout.rows[last], NONE)


def first_value(layout: Layout, actions: Actions) -> Picks:
    """Choose the first row that arrived, null or not; an older one replaces it."""
    return _first(layout, actions, np.ones(len(actions), np.bool_), keeps_null=True)


def first_non_null_value(layout: Layout, actions: Actions, valid: Mask | None) -> Picks:
    """Choose the first row that arrived and has a value; an older one replaces it."""
    return _first(layout, actions, _of_layout(layout, valid), keeps_null=False)


def _first(layout: Layout, actions: Actions, counts: Mask, *, keeps_null: bool) -> Picks:
    """Choose the first row that counts.

    The Java functions remember that they have begun, even over a removed row: later rows find
    the first value taken. They aggregate an older row by swapping the two sides, so that it
    replaces the current value. Only a column that has not begun is kept (`keeps_null`: even
    if null).
    """
    picks = np.full(len(layout.starts), NONE, np.int64)
    if not np.isin(actions, (Action.OLDER, Action.SET, Action.CLEAR)).any():
        events = layout.events((actions == Action.ADD) & counts)
        picks[events.segments] = layout.rows[events.at[events.starts]]
        return picks
    begun = np.zeros(len(layout.starts), np.bool_)
    for active, at in layout.ranks():
        action, own, before, started = actions[at], counts[at], picks[:active], begun[:active]
        row = np.where(own, layout.rows[at], NONE)
        takes = (action == Action.ADD) & ~started & own
        older = action == Action.OLDER
        keeps = older & ~started
        if not keeps_null:
            keeps &= before != NONE
        replaced = takes | (older & ~keeps) | (action == Action.SET)
        after = np.where(replaced, row, before)
        picks[:active] = np.where(action == Action.CLEAR, NONE, after)
        begun[:active] = started | takes | keeps
    return picks


def extreme(
    layout: Layout, actions: Actions, column: pa.Array, data_type: DataType, *, largest: bool
) -> Picks | pa.Array:
    """Choose the row with the largest or the smallest value; of equal ones the oldest.

    Parameters
    ----------
    data_type : DataType
        Its type; floats compare by their total order, NaN largest.
    largest : bool
        The largest, or else the smallest.

    Returns
    -------
    int64 array [s] or pyarrow.Array [s]
        Row positions; for numbers the values themselves.
    """
    ranked = layout.by_rank
    counts = _counted(layout, actions)
    if ranked is not None and has_numbers(data_type):
        numbers, known = numbers_at(column, data_type, ranked.rows)
        if counts is not None:
            used = counts[layout.rank_positions]
            known = used if known is None else used & known
        ranks = ranks_of_numbers(numbers, data_type)
        best = ranked.extremes(ranks, known, largest=largest)
        begun = None if known is None else ranked.some(known)
        return number_array(numbers_of_ranks(best, data_type), begun, data_type)
    valid = _of_layout(layout, valid_rows(column))
    counts = valid if counts is None else counts & valid
    events = layout.events(counts)
    picks = np.full(len(layout.starts), NONE, np.int64)
    if len(events.at) == 0:
        return picks
    values, types = column.take(pa.array(layout.rows[events.at])), [data_type.not_null()]
    codes = compact_keys(encode_keys([values], types, key_widths([values], types)))
    if codes.dtype.kind == "S":
        codes = np.unique(codes, return_inverse=True)[1]
    if ranked is not None:
        spread = np.zeros(len(layout.rows), codes.dtype)
        spread[events.at] = codes
        places = layout.rank_positions
        return _extreme_of_ranks(ranked, spread[places], counts[places], largest=largest)
    best = (np.maximum if largest else np.minimum).reduceat(codes, events.starts)
    hit = codes == np.repeat(best, events.lengths)
    places = np.where(hit, np.arange(len(hit)), len(hit))
    picks[events.segments] = layout.rows[events.at[np.minimum.reduceat(places, events.starts)]]
    return picks


def _counted(layout: Layout, actions: Actions) -> Mask | None:
    """Which rows add and are not removed by a later row [n]; None if all do."""
    if layout.if_all_add(actions) is not None:
        return None
    used = (actions == Action.ADD) | (actions == Action.OLDER) | (actions == Action.SET)
    return used & layout.since_reset(actions)


def _extreme_of_ranks(
    ranked: Ranked, codes: npt.NDArray[Any], known: Mask, *, largest: bool
) -> Picks:
    """Choose rank by rank.

    Parameters
    ----------
    codes : array [n]
        Rank after rank: the values in an order that numpy compares.
    known : bool array [n]
        Rank after rank: whether the row takes part.
    """
    beats = np.greater if largest else np.less
    oldest, *newer = ranked.slices
    best, picks, begun = codes[oldest].copy(), ranked.rows[oldest].copy(), known[oldest].copy()
    for rank in newer:
        active = rank.stop - rank.start
        takes = beats(codes[rank], best[:active])
        takes |= ~begun[:active]
        takes &= known[rank]
        begun[:active] |= known[rank]
        # about every second row takes part: numpy's copyto would mispredict its branches
        np.putmask(best[:active], takes, codes[rank])
        np.putmask(picks[:active], takes, ranked.rows[rank])
    picks[~begun] = NONE
    return picks
