"""Functions on arrays and maps: ``collect``, ``merge_map``, ``nested_update``.

The elements of all rows are in one flat column. The functions decide by number which of them stay
(:mod:`tidelake.codec.row_codes`): for rows that only add, all keys at once; for rows that retract,
or have an older sequence, key by key like Paimon's loops.

Java keeps such elements in hash tables, so the order of its results is arbitrary when it drops
duplicates; here elements keep their order of arrival.

Source: Paimon's ``FieldCollectAgg``, ``FieldMergeMapAgg``, ``FieldNestedUpdateAgg`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.row_codes import column_codes, row_codes
from tidelake.merge.layout import Action, Actions, Events, Layout
from tidelake.types.nested import ListParts, list_of, list_parts, map_of, struct_children

Numbers = npt.NDArray[np.int64]
Kept = list[int] | None
"""Positions of the elements in an accumulator; None for null."""


@dataclass(frozen=True, slots=True)
class _Elements:
    """The elements of the rows that have a list or map.

    Parameters
    ----------
    actions : int8 array [e]
        The action of each.
    ends : int64 array [e + 1]
        Where each row's elements begin among all.
    """

    events: Events
    actions: Actions
    ends: Numbers
    children: tuple[pa.Array, ...]

    @property
    def segment(self) -> Numbers:
        """The segment of each element, counted among those with events."""
        own = np.repeat(np.arange(len(self.events.starts)), self.events.lengths)
        return np.repeat(own, np.diff(self.ends))


def _elements(layout: Layout, actions: Actions, column: pa.Array) -> _Elements:
    valid = column.is_valid().to_numpy(zero_copy_only=False)[layout.rows]
    used = (actions != Action.SKIP) & (actions != Action.CLEAR) & valid
    events = layout.events(used & layout.since_reset(actions))
    parts = list_parts(column.take(pa.array(layout.rows[events.at])))
    ends = parts.offsets.to_numpy().astype(np.int64)
    return _Elements(events, actions[events.at], ends, parts.children)


def collect(
    layout: Layout, actions: Actions, column: pa.Array, *, distinct: bool, prepends: bool
) -> pa.Array:
    """Join the arrays of each key; null if it has none.

    A retraction removes each of its elements once.

    Parameters
    ----------
    actions : int8 array [n]
        The action of each.
    distinct : bool
        Keep equal elements once.
    prepends : bool
        Whether a row with an older sequence goes in front.
    """
    elements = _elements(layout, actions, column)
    late = (elements.actions == Action.OLDER).any() and prepends
    codes = column_codes(elements.children[0]) if distinct else None
    if not late and not (elements.actions == Action.RETRACT).any():
        stays = np.arange(len(elements.children[0]))
        if codes is not None:
            stays = _first_of_each(elements.segment, codes)
        return _put_together(layout, elements, stays, column.type)
    codes = column_codes(elements.children[0])

    def add(kept: Kept, new: Sequence[int]) -> Kept:
        together = [*(kept or ()), *new]
        return _without_doubles(together, codes) if distinct else together

    def add_older(kept: Kept, new: Sequence[int]) -> Kept:
        return add(list(new), kept or ()) if prepends else add(kept, new)

    def retract(kept: Kept, new: Sequence[int]) -> Kept:
        if kept is None:
            return None
        gone = codes[list(new)].tolist()
        left = []
        for place in kept:
            code = int(codes[place])
            if code in gone:
                gone.remove(code)
            else:
                left.append(place)
        return left

    return _fold(layout, elements, column.type, add, add_older, retract)


def merge_map(layout: Layout, actions: Actions, column: pa.Array) -> pa.Array:
    """Merge the maps of each key; the newer value wins; null if it has none.

    A retraction removes its keys. The arguments are those of :func:`collect`.
    """
    elements = _elements(layout, actions, column)
    codes = column_codes(elements.children[0])
    if not np.isin(elements.actions, (Action.OLDER, Action.RETRACT)).any():
        stays = _last_of_each(elements.segment, codes)
        return _put_together(layout, elements, stays, column.type)

    def add(kept: Kept, new: Sequence[int]) -> Kept:
        if kept is None:
            return list(new)
        return list({int(codes[place]): place for place in (*kept, *new)}.values())

    def add_older(kept: Kept, new: Sequence[int]) -> Kept:
        return list(new) if kept is None else add(list(new), kept)

    def retract(kept: Kept, new: Sequence[int]) -> Kept:
        gone = set(codes[list(new)].tolist())
        return None if kept is None else [p for p in kept if int(codes[p]) not in gone]

    return _fold(layout, elements, column.type, add, add_older, retract)


def nested_update(
    layout: Layout,
    actions: Actions,
    column: pa.Array,
    *,
    nested_key: Sequence[str],
    count_limit: int | None,
) -> pa.Array:
    """Merge the arrays of rows of each key; null if it has none.

    Parameters
    ----------
    nested_key : sequence of str
        Fields that identify a row, the newer row wins. Without them all rows stay, and a
        retraction removes equal rows.
    count_limit : int, optional
        An array with so many rows takes no more.
    """
    elements = _elements(layout, actions, column)
    rows = elements.children[0]
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    if nested_key:
        fields = dict(zip(rows.type.names, struct_children(rows), strict=True))
        codes = row_codes(pa.table({name: fields[name] for name in nested_key}))
    else:
        codes = column_codes(rows)
    only_added = not np.isin(elements.actions, (Action.OLDER, Action.RETRACT)).any()
    if only_added and count_limit is None:
        alone = np.repeat(elements.events.lengths == 1, elements.events.lengths)
        untouched = np.repeat(alone, np.diff(elements.ends))  # one array stays as it is
        stays = np.flatnonzero(present | untouched)
        if nested_key:
            own = np.where(untouched, -1 - np.arange(len(rows)), codes)[stays]
            stays = stays[_last_of_each(elements.segment[stays], own)]
        return _put_together(layout, elements, stays, column.type)

    def add(kept: Kept, new: Sequence[int]) -> Kept:
        if kept is None:
            return list(new)
        room = None
        if count_limit is not None:
            if len(kept) >= count_limit:
                return kept
            room = count_limit - len(kept)
        together = [p for p in kept if present[p]] + [p for p in new if present[p]][:room]
        if not nested_key:
            return together
        return list({int(codes[place]): place for place in together}.values())

    def add_older(kept: Kept, new: Sequence[int]) -> Kept:
        return list(new) if kept is None else add(list(new), kept)

    def retract(kept: Kept, new: Sequence[int]) -> Kept:
        if kept is None:
            return None
        gone = {int(codes[p]) for p in new if present[p]}
        left = [p for p in kept if present[p]]
        if nested_key:
            left = list({int(codes[place]): place for place in left}.values())
        return [p for p in left if int(codes[p]) not in gone]

    return _fold(layout, elements, column.type, add, add_older, retract)


def _first_of_each(segment: Numbers, codes: Numbers) -> Numbers:
    """Positions of the first element of each number in each segment, ascending."""
    order = np.lexsort((codes, segment))  # stable: equal ones keep their order
    return np.sort(order[_begins(segment[order], codes[order])])


def _last_of_each(segment: Numbers, codes: Numbers) -> Numbers:
    """Positions of the last element of each number in each segment, in the first one's order."""
    order = np.lexsort((codes, segment))
    begins = _begins(segment[order], codes[order])
    ends = np.roll(begins, -1)  # where the next begins; the last one before the first
    first, last = order[begins], order[ends]
    return last[np.argsort(first)]


def _begins(segment: Numbers, codes: Numbers) -> npt.NDArray[np.bool_]:
    begins = np.ones(len(codes), np.bool_)
    begins[1:] = (np.diff(segment) != 0) | (np.diff(codes) != 0)
    return begins


def _without_doubles(places: Sequence[int], codes: Numbers) -> list[int]:
    kept: dict[int, int] = {}
    for place in places:
        kept.setdefault(int(codes[place]), place)
    return list(kept.values())


def _put_together(
    layout: Layout, elements: _Elements, stays: Numbers, arrow_type: pa.DataType
) -> pa.Array:
    """Make a list or map per segment of the elements that stay."""
    counts = np.bincount(elements.segment[stays], minlength=len(elements.events.starts))
    lengths = np.zeros(len(layout.starts), np.int64)
    lengths[elements.events.segments] = counts
    known = np.zeros(len(layout.starts), np.bool_)
    known[elements.events.segments] = True
    return _made(stays, lengths, known, elements.children, arrow_type)


def _made(
    places: Numbers,
    lengths: Numbers,
    known: npt.NDArray[np.bool_],
    children: Sequence[pa.Array],
    arrow_type: pa.DataType,
) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    taken = tuple(child.take(pa.array(places)) for child in children)
    nulls = None if known.all() else pa.array(~known)
    parts = ListParts(pa.array(offsets), nulls, taken)
    return (map_of if pa.types.is_map(arrow_type) else list_of)(parts, arrow_type)


Change = Callable[[Kept, Sequence[int]], Kept]


def _fold(
    layout: Layout,
    elements: _Elements,
    arrow_type: pa.DataType,
    add: Change,
    add_older: Change,
    retract: Change,
) -> pa.Array:
    """Fold key by key, on positions of elements."""
    changes = {
        Action.ADD: add,
        Action.SET: add,
        Action.OLDER: add_older,
        Action.RETRACT: retract,
    }
    kept: list[Kept] = [None] * len(layout.starts)
    places, actions = elements.ends.tolist(), elements.actions.tolist()
    events = elements.events
    for segment, start, length in zip(
        events.segments.tolist(), events.starts.tolist(), events.lengths.tolist(), strict=True
    ):
        own: Kept = None
        for event in range(start, start + length):
            own = changes[actions[event]](own, range(places[event], places[event + 1]))
        kept[segment] = own
    flat = np.array([place for own in kept for place in own or ()], np.int64)
    lengths = np.array([len(own or ()) for own in kept], np.int64)
    known = np.array([own is not None for own in kept], np.bool_)
    return _made(flat, lengths, known, elements.children, arrow_type)
