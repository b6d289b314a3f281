"""The model: a table is a dict. Written from the documents; shares no code with the engine.

A primary-key table maps (partition, key) to a row; an upsert sets, a delete removes, the last one
of a key wins. With sequence fields the row with the larger (sequence, arrival) wins. Under
first-row the first one of a key stays. Of partial-update and aggregation all that came of a key is
kept and merged as one (:class:`MergedTable`). Rows of the postpone bucket wait until a compaction.
OVERWRITE replaces the partitions that the new rows touch (dynamic) or all of them.
Every commit's state is kept, so time travel has an answer too.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from proving.one_key import merged

Row = dict[str, object]
Key = tuple[object, ...]
Commit = tuple[list[Row], list[bool], str]
"""Rows, which of them retract, and of what kind these are."""


@dataclass
class ModelTable:
    """A table's truth.

    An append table keeps a list (duplicates stay); a primary-key table a dict from key to
    (order, row or None), where None remembers a delete whose sequence still counts.
    """

    keys: tuple[str, ...]
    partition_keys: tuple[str, ...] = ()
    sequence_field: str | None = None
    engine: str = "deduplicate"
    descending: bool = False
    ignore_delete: bool = False
    ignore_update_before: bool = False
    waiting: list[Commit] | None = None
    """What waits in the postpone bucket; None where there is none."""
    state: dict[Key, tuple[tuple[object, ...], Row | None]] = field(default_factory=dict)
    appended: list[Row] = field(default_factory=list)
    arrival: int = 0
    by_snapshot: dict[int, list[Row]] = field(default_factory=dict)
    _content: list[Row] | None = None

    def copy(self) -> ModelTable:
        return copy.deepcopy(self)

    def key(self, row: Row) -> Key:
        if not set(self.partition_keys) <= set(self.keys):
            return tuple(row[k] for k in self.keys)  # one row of a key in the whole table
        names = (*self.partition_keys, *(k for k in self.keys if k not in self.partition_keys))
        return tuple(row[k] for k in names)

    def placed(self, changes: Iterable[tuple[str, Row]]) -> list[tuple[str, Row]]:
        """Where changes go whose keys may move (docs/buckets.md); before they are applied."""
        by_key: dict[Key, list[tuple[str, Row]]] = {}
        for change in changes:
            by_key.setdefault(self.key(change[1]), []).append(change)
        homes = {self.key(row): row for row in self.content()}
        found: list[tuple[str, Row]] = []
        for key, own in by_key.items():
            home = homes.get(key)
            here = {} if home is None else {name: home[name] for name in self.partition_keys}
            kind, row = own[-1]
            adds = kind in ("+I", "+U")
            if self.engine == "deduplicate":
                if home is not None and (not adds or here != {n: row[n] for n in here}):
                    found.append(("-D", row | here))
                found += [(kind, row)] if adds else []
                continue
            first = next((row for kind, row in own if kind in ("+I", "+U")), None)
            if home is None and first is not None:
                here = {name: first[name] for name in self.partition_keys}
            found += [(kind, row | here) for kind, row in own if here]
        return found

    def _partition(self, row: Row) -> Key:
        return tuple(row[k] for k in self.partition_keys)

    def apply(
        self, rows: Iterable[Row], deletes: Iterable[bool] | None = None, *, kind: str = "-D"
    ) -> None:
        """What a commit of rows does; `kind` is that of the rows that retract."""
        rows = list(rows)
        flags = [False] * len(rows) if deletes is None else list(deletes)
        if kind == "-U" and self.ignore_update_before:
            rows = [row for row, is_delete in zip(rows, flags, strict=True) if not is_delete]
            flags = [False] * len(rows)
        if self.waiting is not None:
            self.waiting.append((rows, flags, kind))
            return
        self._content = None
        if self.ignore_delete:
            rows = [row for row, is_delete in zip(rows, flags, strict=True) if not is_delete]
            flags = [False] * len(rows)
        self._take(rows, flags, kind)

    def give_buckets(self) -> None:
        """What a compaction does to the rows that wait for their buckets."""
        waiting, self.waiting = self.waiting, None
        for rows, flags, kind in waiting or ():
            self.apply(rows, flags, kind=kind)
        self.waiting = None if waiting is None else []

    def _take(self, rows: list[Row], flags: list[bool], _: str) -> None:
        for row, is_delete in zip(rows, flags, strict=True):
            self.arrival += 1
            if not self.keys:
                self.appended.append(dict(row))
                continue
            order = (*self._sequence(row), self.arrival)
            key = self.key(row)
            known = self.state.get(key)
            if known is not None and self.engine == "first-row":
                continue
            if known is None or order >= known[0]:
                self.state[key] = (order, None if is_delete else dict(row))

    def _sequence(self, row: Row) -> tuple[object, ...]:
        """What comes first in the order of a key's rows: nulls are smallest."""
        found: list[object] = []
        for name in () if self.sequence_field is None else self.sequence_field.split(","):
            value = row[name] or 0
            found += [row[name] is not None, -value if self.descending else value]
        return tuple(found)

    def overwrite(self, rows: Iterable[Row], *, dynamic: bool) -> None:
        rows = list(rows)
        touched = {self._partition(r) for r in rows}
        self._content = None
        self._drop(touched if dynamic and self.partition_keys else None)
        self.apply(rows)

    def _drop(self, touched: set[Key] | None) -> None:
        """Forget some partitions, or all."""
        width = len(self.partition_keys)

        def stays(partition: Key) -> bool:
            return touched is not None and partition not in touched

        self.appended = [r for r in self.appended if stays(self._partition(r))]
        self.state = {k: v for k, v in self.state.items() if stays(k[:width])}
        if self.waiting is not None:
            for rows, flags, _ in self.waiting:
                kept = [stays(self._partition(row)) for row in rows]
                rows[:] = itertools.compress(rows, kept)
                flags[:] = itertools.compress(flags, kept)

    def remove(self, column: str, value: object) -> None:
        """Delete the rows of an append table that have a value."""
        self._content = None
        self.appended = [row for row in self.appended if row[column] != value]

    def update(self, column: str, value: object, new: Row) -> None:
        """Give the rows that have a value new values; not of keys."""
        found = [row | new for row in self.content() if row[column] == value]
        if self.keys:
            self.apply(found)
            return
        self._content = None
        self.appended = [r | new if r[column] == value else r for r in self.appended]

    def renew(self, column: str) -> None:
        """Another column by the name of one there was: null in every row."""
        self._content = None
        for row in self.appended:
            row[column] = None
        for _, row in self.state.values():
            if row is not None:
                row[column] = None

    def content(self) -> list[Row]:
        """The rows, sorted; of an unchanged table the same list again."""
        if self._content is None:
            rows = (row for _, row in self.state.values() if row is not None)
            self._content = sorted_rows(rows if self.keys else self.appended)
        return self._content

    def expire(self, is_gone: Callable[[Row], bool]) -> None:
        """Forget rows that a compaction left out as too old."""
        gone = [key for key, (_, row) in self.state.items() if row is not None and is_gone(row)]
        for key in gone:
            del self.state[key]
        self._content = self._content if not gone else None

    def committed(self, snapshot_id: int) -> None:
        self.by_snapshot[snapshot_id] = self.content()


@dataclass
class MergedTable(ModelTable):
    """A table of an engine with options of its own: all that came of a key, merged as one.

    Requires: rows as :mod:`proving.engine_draws` says.
    """

    options: dict[str, str] = field(default_factory=dict)
    changes: dict[Key, list[tuple[str, Row]]] = field(default_factory=dict)
    found: dict[Key, Row | None] = field(default_factory=dict)
    """What the changes of each key come to; without those that are to be merged anew."""

    def _take(self, rows: list[Row], flags: list[bool], kind: str) -> None:
        may_move = not set(self.partition_keys) <= set(self.keys)
        for row, is_delete in zip(rows, flags, strict=True):
            self.arrival += 1
            key = self.key(row)
            if is_delete and may_move and self._row(key) is None:
                continue  # it goes nowhere
            self.changes.setdefault(key, []).append((kind if is_delete else "+I", row))
            self.found.pop(key, None)
            if is_delete and self._row(key) is None:
                del self.changes[key], self.found[key]  # what comes begins anew, anywhere

    def _row(self, key: Key) -> Row | None:
        if key not in self.changes:
            return None
        if key not in self.found:
            # a stable sort: of equal sequences the later comes last
            own = sorted(self.changes[key], key=lambda change: self._sequence(change[1]))
            # a key stays in the partition that it first came to
            constant = tuple(dict.fromkeys((*self.partition_keys, *self.keys)))
            as_dicts = [(kind, self._with_maps(row, dict)) for kind, row in own]
            kind, row = merged(as_dicts, self.options, keys=constant)
            in_order = self._with_maps({name: row[name] for name in own[0][1]}, _pairs)
            self.found[key] = in_order if kind == "+I" else None
        return self.found[key]

    def _with_maps(self, row: Row, made: Callable) -> Row:
        """The row with its maps as dicts, or as the pairs that Arrow gives."""
        maps = [name for name in row if self.options.get(_FUNCTION % name) == "merge_map"]
        return row | {name: made(row[name]) for name in maps if row[name] is not None}

    def _drop(self, touched: set[Key] | None) -> None:
        super()._drop(touched)
        width = len(self.partition_keys)
        gone = [k for k in self.changes if touched is None or k[:width] in touched]
        for key in gone:
            del self.changes[key]
            self.found.pop(key, None)

    def content(self) -> list[Row]:
        if self._content is None:
            rows = (self._row(key) for key in self.changes)
            self._content = sorted_rows(row for row in rows if row is not None)
        return self._content

    def retractable(self, rows: Iterable[Row]) -> list[Row]:
        """Rows whose keys have a row and nothing that waits; of each key one."""
        busy = {self.key(row) for rows, *_ in self.waiting or () for row in rows}
        free = {self.key(row): row for row in rows}
        return [r for k, r in free.items() if k not in busy and self._row(k) is not None]

    def without_retracted(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of whose keys nothing waits that retracts."""
        waiting = (
            (row, d)
            for own, flags, _ in self.waiting or ()
            for row, d in zip(own, flags, strict=True)
        )
        busy = {self.key(row) for row, is_delete in waiting if is_delete}
        return [row for row in rows if self.key(row) not in busy]


_FUNCTION = "fields.%s.aggregate-function"


def _pairs(value: dict) -> list[tuple[object, object]]:
    return list(value.items())


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows in a stable order, so that two sets of rows compare as lists.

    Requires: the columns of all rows come in one order.
    """
    return sorted(rows, key=repr)
