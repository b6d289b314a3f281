"""The model: a table is a dict. Written from the documents; shares no code with the engine.

A primary-key table maps (partition, key) to a row; an upsert sets, a delete removes, the last one
of a key wins. With a sequence field the row with the larger (sequence, arrival) wins. The other
engines make the row of what was there and what comes; a delete removes it, or is ignored
(first-row). OVERWRITE replaces the partitions that the new rows touch (dynamic) or all of them.
Every commit's state is kept, so time travel has an answer too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from proving.one_key import merged

Row = dict[str, object]
Key = tuple[object, ...]


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
    functions: dict[str, Callable[[object, object], object]] = field(default_factory=dict)
    """Of two values of a column, of which none is null; by default the newer."""
    state: dict[Key, tuple[tuple[object, ...], Row | None]] = field(default_factory=dict)
    appended: list[Row] = field(default_factory=list)
    arrival: int = 0
    by_snapshot: dict[int, list[Row]] = field(default_factory=dict)
    _content: list[Row] | None = None

    def copy(self) -> ModelTable:
        return copy.deepcopy(self)

    def _key(self, row: Row) -> Key:
        if not set(self.partition_keys) <= set(self.keys):
            return tuple(row[k] for k in self.keys)  # one row of a key in the whole table
        names = (*self.partition_keys, *(k for k in self.keys if k not in self.partition_keys))
        return tuple(row[k] for k in names)

    def _partition(self, row: Row) -> Key:
        return tuple(row[k] for k in self.partition_keys)

    def apply(self, rows: Iterable[Row], deletes: Iterable[bool] | None = None) -> None:
        self._content = None
        rows = list(rows)
        flags = [False] * len(rows) if deletes is None else list(deletes)
        for row, is_delete in zip(rows, flags, strict=True):
            self.arrival += 1
            if not self.keys:
                self.appended.append(dict(row))
                continue
            order: tuple[object, ...] = (self.arrival,)
            if self.sequence_field is not None:
                value = row[self.sequence_field]
                # nulls are smallest
                order = (value is not None, value if value is not None else 0, self.arrival)
            key = self._key(row)
            known = self.state.get(key)
            if self.engine != "deduplicate":
                self._combine(key, row, is_delete=is_delete)
                continue
            if known is None or order >= known[0]:
                self.state[key] = (order, None if is_delete else dict(row))

    def _combine(self, key: Key, row: Row, *, is_delete: bool) -> None:
        old = self.state[key][1] if key in self.state else None
        if self.engine == "first-row":
            new = old if is_delete or old is not None else dict(row)
        elif is_delete or old is None:
            new = None if is_delete else dict(row)
        else:
            new = dict(old)
            for name, value in row.items():
                if name in self.partition_keys or value is None:
                    continue  # a key stays where it first came
                combine = self.functions.get(name)
                if combine is None or old[name] is None:
                    new[name] = value
                else:
                    new[name] = combine(old[name], value)
        self.state[key] = ((self.arrival,), new)

    def overwrite(self, rows: Iterable[Row], *, dynamic: bool) -> None:
        rows = list(rows)
        touched = {self._partition(r) for r in rows}
        if dynamic and self.partition_keys:
            self.appended = [r for r in self.appended if self._partition(r) not in touched]
            width = len(self.partition_keys)
            self.state = {k: v for k, v in self.state.items() if k[:width] not in touched}
        else:
            self.appended = []
            self.state = {}
        self.apply(rows)

    def remove(self, column: str, value: object) -> None:
        """Delete the rows of an append table that have a value."""
        self._content = None
        self.appended = [row for row in self.appended if row[column] != value]

    def update(self, column: str, value: object, new: Row) -> None:
        """Give the rows that have a value new values; not of keys."""
        self._content = None
        self.appended = [r | new if r[column] == value else r for r in self.appended]
        for key, (order, row) in self.state.items():
            if row is not None and row[column] == value:
                self.state[key] = (order, row | new)

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

    def committed(self, snapshot_id: int) -> None:
        self.by_snapshot[snapshot_id] = self.content()


@dataclass
class MergedTable(ModelTable):
    """A table of an engine with options of its own: all that came of a key, merged as one.

    Requires: a key that was deleted gets no row of an older sequence.
    """

    options: dict[str, str] = field(default_factory=dict)
    changes: dict[Key, list[tuple[str, Row]]] = field(default_factory=dict)

    def apply(self, rows: Iterable[Row], deletes: Iterable[bool] | None = None) -> None:
        self._content = None
        rows = list(rows)
        flags = [False] * len(rows) if deletes is None else list(deletes)
        for row, is_delete in zip(rows, flags, strict=True):
            change = ("-D" if is_delete else "+I", row)
            self.changes.setdefault(self._key(row), []).append(change)

    def content(self) -> list[Row]:
        if self._content is None:
            found = (merged(own, self.options, keys=self.keys) for own in self.changes.values())
            self._content = sorted_rows(row for kind, row in found if kind == "+I")
        return self._content


def sorted_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows in a stable order, so that two sets of rows compare as lists.

    Requires: the columns of all rows come in one order.
    """
    return sorted(rows, key=repr)
