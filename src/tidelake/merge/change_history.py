"""The versions of a key by the changes of a feed, whatever the order in which they came.

A feed gives changes: a key, values, a *sequence* that orders the changes of the key, and whether
the change deletes. The rows of a key's history follow from the set of its changes alone:

1. The changes are put in the order of their sequences. Of two changes with one sequence a delete
   counts, else the first row given: a key has one change for each value of its sequence.
2. A change opens a version at its sequence and ends the version before it. A delete ends it only.
3. With `ignores_nulls` a null keeps the value of the version before.
4. With `tracked` a change whose tracked values are those of the open version opens none: the
   version gets its other values.
5. Where rows of the table are changes, an end at which no version begins was a delete, too.
6. Type 2 wants all versions, type 1 the last one, if no delete ended it.

For type 2 the rows that the table has for the key are given too, and only what differs from them
comes out. The rows come sorted by key, with all rows of a key next to each other. Rows are made by
``take`` from the rows given, so a value is never converted.

Cost: a Python loop over the changes. Measured with 4 changes a key and 3 values: 1.2 us a change
for type 1, 2.0 us for type 2, 2.6 us with nulls and tracked values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.types import RowKind

ROLE_COLUMN = "_tidelake_role"
"""The column with the role of a row given."""
TARGET, DELETE, UPSERT = 0, 1, 2
"""Roles: a row that the table has; a change that deletes; one that does not."""
ROW_KIND = "_row_kind"

_Sequence = tuple[Any, ...]
_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """How changes become rows. Picklable.

    Parameters
    ----------
    keys, values : tuple of str
        The columns of the key, and those beside it and the sequence.
    sequence : tuple of str
        The sequence of a row given; of a row that the table has, its start.
    output_sequence : tuple of str
        Its names in the rows made.
    ends : tuple of str
        The end of a row that the table has; empty for type 1.
    output_ends : tuple of str
        Its names in the rows made.
    tracked : tuple of str, optional
        The values whose change opens a version; all changes do by default.
    ignores_nulls : bool
        Whether a null leaves the value as it was.
    rows_are_changes : bool
        Whether a row that the table has is also the change that opened it. If not, all changes of
        a key are given.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    sequence: tuple[str, ...]
    output_sequence: tuple[str, ...]
    ends: tuple[str, ...] = ()
    output_ends: tuple[str, ...] = ()
    tracked: tuple[str, ...] | None = None
    ignores_nulls: bool = False
    rows_are_changes: bool = False

    @property
    def keeps_versions(self) -> bool:
        """Whether all versions are wanted: type 2."""
        return bool(self.output_ends)


@dataclass(slots=True)
class _Version:
    """A version: places of rows that give its start, its end and its values.

    An end at `count of rows + place` is the end of the row at `place`, not its sequence.
    """

    start: int
    values: list[int]
    end: int | None = None


@dataclass(slots=True)
class _Made:
    """Places that make the rows of a batch."""

    kinds: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    values: list[list[int] | None] = field(default_factory=list)


def versions_of(batches: Iterable[pa.RecordBatch], rule: HistoryRule) -> Iterator[pa.Table]:
    """Make the rows to write.

    Parameters
    ----------
    batches : iterable of RecordBatch
        The columns of `rule` and :data:`ROLE_COLUMN`. Requires: rows of a key are adjacent, over
        the bounds of batches too.

    Yields
    ------
    pyarrow.Table
        The key, the values, the sequence, the ends of type 2, and ``_row_kind`` (int8). A ``-D`` of
        type 1 has no values.

    Notes
    -----
    Runs on executors. Memory: the rows of a batch and of its longest key.
    """
    carried: pa.Table | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([batch])
        if carried is not None:
            rows = pa.concat_tables([carried, rows])
        keys = _tuples(rows, rule.keys)
        last = len(keys) - 1
        while last > 0 and keys[last - 1] == keys[-1]:
            last -= 1
        if last:
            yield _made(rows.slice(0, last), keys[:last], rule)
        carried = rows.slice(last)
    if carried is not None:
        yield _made(carried, _tuples(carried, rule.keys), rule)


def _tuples(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def _made(rows: pa.Table, keys: Sequence[_Key], rule: HistoryRule) -> pa.Table:
    """Make the rows of whole keys."""
    rows = rows.combine_chunks()
    group = _Group(rows, rule)
    made = _Made()
    begin = 0
    for place in range(1, len(keys) + 1):
        if place == len(keys) or keys[place] != keys[begin]:
            group.add(begin, place, made)
            begin = place
    return _taken(rows, rule, made)


class _Group:
    """The rows of some keys as Python values, where they are compared."""

    def __init__(self, rows: pa.Table, rule: HistoryRule) -> None:
        self._rule = rule
        self._sequence = _tuples(rows, rule.sequence)
        self._roles = rows.column(ROLE_COLUMN).to_pylist()
        self._ends = _tuples(rows, rule.ends) if rule.ends else []
        self._count = rows.num_rows
        self._open = (None,) * len(rule.ends)
        needed = set(rule.values) if rule.keeps_versions else set(rule.tracked or ())
        self._compared = [
            rows.column(name).to_pylist() if name in needed else [] for name in rule.values
        ]
        self._tracked = [rule.values.index(name) for name in rule.tracked or ()]
        self._is_null = [
            rows.column(name).is_null().to_pylist() if rule.ignores_nulls else []
            for name in rule.values
        ]

    def add(self, begin: int, end: int, made: _Made) -> None:
        """Make the rows of the key at these places."""
        rule, sequence = self._rule, self._sequence
        there: dict[_Sequence, int] = {}
        upserts: dict[_Sequence, int] = {}
        deletes: dict[_Sequence, int] = {}
        for place in range(begin, end):
            role = self._roles[place]
            if role == TARGET:
                there[sequence[place]] = place
            elif role == DELETE:
                deletes.setdefault(sequence[place], place)
            else:
                upserts.setdefault(sequence[place], place)
        if rule.rows_are_changes:
            upserts.update(there)
            for place in there.values():
                until = self._ends[place]
                if until != self._open and until not in upserts:
                    deletes.setdefault(until, self._count + place)
        versions = self._versions(upserts, deletes)
        if rule.keeps_versions:
            self._add_differences(versions, there, made)
        elif versions and versions[-1].end is None:
            version = versions[-1]
            made.kinds.append(int(RowKind.UPDATE_AFTER))
            made.starts.append(version.start)
            made.values.append(version.values)
        elif deletes:
            made.kinds.append(int(RowKind.DELETE))
            made.starts.append(deletes[max(deletes)])
            made.values.append(None)

    def _versions(
        self, upserts: dict[_Sequence, int], deletes: dict[_Sequence, int]
    ) -> list[_Version]:
        found: list[_Version] = []
        current: _Version | None = None
        for at in sorted({*upserts, *deletes}):
            if at in deletes:
                if current is not None:
                    current.end, current = deletes[at], None
                continue
            place = upserts[at]
            values = [place] * len(self._rule.values)
            if current is not None:
                if self._rule.ignores_nulls:
                    values = [
                        old if nulls[place] else place
                        for old, nulls in zip(current.values, self._is_null, strict=True)
                    ]
                if self._rule.tracked is not None and self._is_tracked_alike(current, values):
                    current.values = values
                    continue
                current.end = place
            current = _Version(place, values)
            found.append(current)
        return found

    def _is_tracked_alike(self, version: _Version, values: Sequence[int]) -> bool:
        return all(self._is_alike(c, version.values[c], values[c]) for c in self._tracked)

    def _is_alike(self, column: int, left: int, right: int) -> bool:
        if left == right:
            return True
        one, other = self._compared[column][left], self._compared[column][right]
        return bool(one == other or (one != one and other != other))

    def _end_of(self, version: _Version) -> _Sequence:
        if version.end is None:
            return self._open
        if version.end < self._count:
            return self._sequence[version.end]
        return self._ends[version.end - self._count]

    def _add_differences(
        self, versions: Sequence[_Version], there: dict[_Sequence, int], made: _Made
    ) -> None:
        for version in versions:
            old = there.pop(self._sequence[version.start], None)
            end = self._end_of(version)
            if (
                old is not None
                and self._ends[old] == end
                and all(self._is_alike(c, place, old) for c, place in enumerate(version.values))
            ):
                continue
            made.kinds.append(int(RowKind.INSERT if old is None else RowKind.UPDATE_AFTER))
            made.starts.append(version.start)
            made.ends.append(version.end)
            made.values.append(version.values)
        for place in there.values():
            made.kinds.append(int(RowKind.DELETE))
            made.starts.append(place)
            made.ends.append(None)
            made.values.append([place] * len(self._rule.values))


def _taken(rows: pa.Table, rule: HistoryRule, made: _Made) -> pa.Table:
    """Take the values of the rows made from the rows given."""
    starts = pa.array(made.starts, pa.int64())
    columns = {name: rows.column(name).take(starts) for name in rule.keys}
    count = len(made.starts)
    values = np.zeros((count, len(rule.values)), np.int64)
    is_gone = np.zeros(count, np.bool_)
    for row, places in enumerate(made.values):
        if places is None:
            is_gone[row] = True
        else:
            values[row] = places
    for number, name in enumerate(rule.values):
        columns[name] = rows.column(name).take(pa.array(values[:, number], mask=is_gone))
    for name, output in zip(rule.sequence, rule.output_sequence, strict=True):
        columns[output] = rows.column(name).take(starts)
    ends = pa.array(made.ends, pa.int64())
    for name, own, output in zip(rule.sequence, rule.ends, rule.output_ends, strict=False):
        both = pa.chunked_array([*rows.column(name).chunks, *rows.column(own).chunks])
        columns[output] = both.take(ends)
    columns[ROW_KIND] = pa.chunked_array([pa.array(made.kinds, pa.int8())])
    return pa.table(columns)
