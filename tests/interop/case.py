"""What a table of the interop check is: schema, options and the steps that fill it.

A case says what to do and, by a model that is a Python list or dict, which rows are there after
each step. Nothing here knows Tidelake: ``make.py`` turns the steps into calls, and every reader is
compared with the model.

Values are plain Python under Paimon's type names; DATE is days, TIME milliseconds, TIMESTAMP
nanoseconds since the epoch (see ``cells.value_cell``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proving.one_key import merged

from interop.cells import Cell, TypeForm, value_cell

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Append rows, or upsert them into a primary-key table; ``kinds`` may hold ``-D``."""

    rows: Sequence[Values]
    kinds: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Overwrite:
    """INSERT OVERWRITE: the whole table or ``partition`` (static), or what the rows touch."""

    rows: Sequence[Values]
    dynamic: bool = False
    partition: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete by keys (tuples in primary-key order), or the rows where ``column == value``."""

    keys: Sequence[Values] = ()
    where: tuple[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Tag:
    """Name the latest snapshot."""

    name: str


@dataclass(frozen=True, slots=True)
class Alter:
    """Change the schema: the changes (``changes.py``), the columns then, what each row becomes."""

    changes: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    row: Callable[[Values], Values]
    keys: Mapping[str, str] = field(default_factory=dict)
    """Key and sequence columns that have another name, old to new."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Merge every bucket into one file; the rows stay. Rows in a postpone bucket become visible."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """Give partitions (all by default) another number of buckets; the rows stay."""

    buckets: int | None = None
    partitions: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop partitions."""

    partitions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Truncate:
    """Drop all rows."""


@dataclass(frozen=True, slots=True)
class Update:
    """Give columns of the rows that have a value (``where``) new values."""

    values: Mapping[str, Any]
    where: tuple[str, Any]


Step = Write | Overwrite | Delete | Tag | Alter | Compact | Rescale | Drop | Truncate | Update


@dataclass(frozen=True, slots=True)
class Case:
    """One table.

    ``full_only`` cases are left out of the small run. ``cannot`` names readers that refuse this
    table, with words of their refusal: any other error of a reader fails the check. ``left_out``
    names readers that are known to be wrong here, and why.
    ``peer_rows`` are written into the finished table by another engine, as upserts, afterwards;
    ``peer_left_out`` names engines that are known to write them wrongly, and why.
    ``viewed`` says that ``$audit_log``, ``$binlog``, ``$ro`` and the changes are read as well, as
    they are of every table that has deletion vectors or keeps a changelog.
    ``unordered`` names columns of arrays whose elements come out of a hash table in Java.
    ``alone``: a Java process reads no other table. ``compacts``: it also compacts what it wrote.
    """

    name: str
    columns: Mapping[str, TypeForm]
    steps: Sequence[Step]
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    full_only: bool = False
    cannot: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    peer_rows: Sequence[Values] = ()
    peer_left_out: Mapping[str, str] = field(default_factory=dict)
    viewed: bool = False
    unordered: frozenset[str] = frozenset()
    alone: bool = False
    compacts: bool = False

    @property
    def is_viewed(self) -> bool:
        """Whether its views and its changes are read too."""
        marked = self.options.get("deletion-vectors.enabled") == "true"
        return self.viewed or marked or "changelog-producer" in self.options

    @property
    def combines(self) -> bool:
        """Whether its engine makes one row of several."""
        return self.options.get("merge-engine", "deduplicate") not in {"deduplicate", "first-row"}

    @property
    def keys_may_move(self) -> bool:
        """Whether the key does not say in which partition its row is."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)


def row_cells(columns: Mapping[str, str], rows: Sequence[Values]) -> list[tuple[Cell, ...]]:
    """Rows of values as rows of cells."""
    types = tuple(columns.values())
    return [tuple(value_cell(v, t) for v, t in zip(r, types, strict=True)) for r in rows]


class Model:
    """The truth about a case's table: a list, or a dict from key to (order, row)."""

    def __init__(self, case: Case) -> None:
        self.keys, self.partition_keys = case.primary_keys, case.partition_keys
        fields = case.options.get("sequence.field")
        self.sequence = () if fields is None else tuple(fields.split(","))
        self._take_columns(case.columns)
        self.sign = -1 if case.options.get("sequence.field.sort-order") == "descending" else 1
        self.ignore_delete = case.options.get("ignore-delete") == "true"
        self.keyed: dict[Values, tuple[Any, Values | None]] = {}
        self.listed: list[Values] = []
        self.options = case.options
        self.first_row = case.options.get("merge-engine") == "first-row"
        # others show what is written from its compaction on, which is a write's second snapshot
        self.seen_compacted = bool(self.keys) and (
            self.first_row or case.options.get("deletion-vectors.enabled") == "true"
        )
        self.combines = case.combines
        self.history: dict[Values, list[tuple[Any, str, Values]]] = {}
        self.keys_may_move = case.keys_may_move
        self.waits = case.options.get("bucket") == "-2"
        self.waiting: list[tuple[Values, str]] = []

    def _take_columns(self, columns: Mapping[str, str]) -> None:
        self.columns = columns
        self.at = {name: i for i, name in enumerate(columns)}
        self.key_at = tuple(self.at[k] for k in self.keys)
        self.partition_at = tuple(self.at[k] for k in self.partition_keys)
        self.sequence_at = tuple(self.at[name] for name in self.sequence)

    def _alter(self, step: Alter) -> None:
        self.keys = tuple(step.keys.get(k, k) for k in self.keys)
        self.sequence = tuple(step.keys.get(name, name) for name in self.sequence)
        self._take_columns(step.columns)
        self.listed = [step.row(r) for r in self.listed]
        self.keyed = {
            k: (order, None if row is None else step.row(row))
            for k, (order, row) in self.keyed.items()
        }

    def cells(self) -> list[tuple[Cell, ...]]:
        """The rows now, as cells."""
        return row_cells(self.columns, self.rows())

    def _key(self, row: Values) -> Values:
        return tuple(row[i] for i in self.key_at)

    def _partition(self, row: Values) -> Values:
        return tuple(row[i] for i in self.partition_at)

    def _put(self, row: Values, kind: str) -> None:
        if not self.key_at:
            assert kind == "+I"
            self.listed.append(row)
            return
        if kind == "-D" and self.ignore_delete:
            return
        values = [row[at] for at in self.sequence_at]
        order = tuple((0, 0) if v is None else (1, self.sign * v) for v in values)
        if self.combines:
            history = self.history.setdefault(self._key(row), [])
            if self.keys_may_move and history:  # a key stays in the partition it first came to
                first = history[0][2]
                row = tuple(first[i] if i in self.partition_at else v for i, v in enumerate(row))
            history.append((order, kind, row))
            return
        known = self.keyed.get(self._key(row))
        if known is not None and self.first_row:
            return
        if known is None or order >= known[0]:
            self.keyed[self._key(row)] = (order, None if kind == "-D" else row)

    def _drop(self, goes: Callable[[Values], bool]) -> None:
        self.listed = [r for r in self.listed if not goes(r)]
        self.keyed = {k: v for k, v in self.keyed.items() if v[1] is None or not goes(v[1])}

    def _update(self, values: Mapping[str, Any], where: tuple[str, Any]) -> None:
        def new(row: Values) -> Values:
            if row[self.at[where[0]]] != where[1]:
                return row
            return tuple(values.get(name, v) for name, v in zip(self.columns, row, strict=True))

        self.listed = [new(r) for r in self.listed]
        self.keyed = {
            k: (order, None if row is None else new(row)) for k, (order, row) in self.keyed.items()
        }

    def apply(self, step: Step) -> None:
        """Take one step."""
        match step:
            case Write(rows, kinds):
                for row, kind in zip(rows, kinds or ["+I"] * len(rows), strict=True):
                    if self.waits:
                        self.waiting.append((row, kind))
                    else:
                        self._put(row, kind)
            case Overwrite(rows, dynamic, partition):
                touched = {self._partition(r) for r in rows}
                fixed = {self.at[k]: v for k, v in (partition or {}).items()}
                if dynamic:
                    self._drop(lambda r: self._partition(r) in touched)
                else:
                    self._drop(lambda r: all(r[i] == v for i, v in fixed.items()))
                for row in rows:
                    self._put(row, "+I")
            case Delete(keys, where):
                for key in keys:
                    self.keyed.pop(tuple(key), None)
                if where is not None:
                    self._drop(lambda r: r[self.at[where[0]]] == where[1])
            case Alter():
                self._alter(step)
            case Compact():
                for row, kind in self.waiting:
                    self._put(row, kind)
                self.waiting.clear()
                # nothing remembers a delete, nor its place in the order
                self.keyed = {k: v for k, v in self.keyed.items() if v[1] is not None}
            case Drop(partitions):
                for named in partitions:
                    fixed = {self.at[k]: v for k, v in named.items()}
                    self._drop(lambda r, fixed=fixed: all(r[i] == v for i, v in fixed.items()))
            case Truncate():
                self._drop(lambda _: True)
            case Update(values, where):
                self._update(values, where)
            case Tag() | Rescale():
                pass

    def rows(self) -> list[Values]:
        """The rows now."""
        if self.combines:
            return self._combined()
        return [*self.listed, *(row for _, row in self.keyed.values() if row is not None)]

    def _combined(self) -> list[Values]:
        rows = []
        for history in self.history.values():
            ordered = sorted(history, key=lambda entry: entry[0])
            own = [(kind, self._plain(row)) for _, kind, row in ordered]
            constant = list(dict.fromkeys((*self.keys, *self.partition_keys)))
            not_null = {n for n, form in self.columns.items() if str(form).endswith(" NOT NULL")}
            kind, values = merged(own, self.options, keys=constant, not_null=not_null)
            if kind in {"+I", "+U"}:
                rows.append(tuple(_given(values[n], form) for n, form in self.columns.items()))
        return rows

    def _plain(self, row: Values) -> dict[str, Any]:
        """The values of a row by name: maps as dicts, rows inside arrays too."""
        return {n: _plain(v, form) for v, (n, form) in zip(row, self.columns.items(), strict=True)}


def _plain(value: Any, form: TypeForm) -> Any:
    if value is None or isinstance(form, str):
        return value
    if form["type"] == "MAP":
        return dict(value)
    if form["type"] == "ARRAY":
        return [_plain(v, form["element"]) for v in value]
    names = [part["name"] for part in form["fields"]]
    return dict(zip(names, value, strict=True))


def _given(value: Any, form: TypeForm) -> Any:
    """The other way."""
    if value is None or isinstance(form, str):
        return value
    if form["type"] == "MAP":
        return list(value.items())
    if form["type"] == "ARRAY":
        return [_given(v, form["element"]) for v in value]
    return tuple(value.values())
