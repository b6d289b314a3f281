"""Statements that are drawn, each with what it does to plain Python rows.

A statement is its parts: kind, rows, filter, new values. From these :mod:`proving.statement_doors`
makes the text for Spark and the calls of the kernel, and this module makes the answer: lists of
dicts, SQL's three-valued logic, a set of partitions. The two share no code with the engine.

What is drawn meets what has lost rows: days and instants before 1900, structs whose fields stand in
another order, null and odd partition values.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

Row = dict[str, object]
Filter = tuple

COLUMNS = {
    "id": "INT",
    "p": "STRING",
    "d": "DATE",
    "at": "TIMESTAMP_LTZ(6)",
    "n": "TIMESTAMP(6)",
    "v": "INT",
    "s": "ROW<x INT, y INT>",
    "l": "ARRAY<ROW<x INT, y INT>>",
    "m": "MAP<STRING, ROW<x INT, y INT>>",
}
NESTED = ("s", "l", "m")
FILTERED = ("id", "p", "d", "at", "n", "v")
LAYOUTS = {"texts": "p", "days": "d", "moments": "at", "keyed": None}
"""The partition column of each kind of table."""
ZONES = ("UTC", "America/New_York", "Asia/Tokyo")
IDS = 16
DAYS = [
    dt.date.fromisoformat(text)
    for text in (
        *("0001-01-02", "1000-01-01", "1500-02-28", "1582-10-04", "1582-10-05", "1582-10-14"),
        *("1582-10-15", "1883-11-18", "1900-01-01", "1969-12-31", "2038-01-19", "9999-12-30"),
    )
]
CLOCK = dt.time(17, 12, 3, 456789)
LOCALS = [dt.datetime.combine(day, CLOCK) for day in DAYS]
POOLS: Mapping[str, Sequence[object]] = {
    "id": range(IDS),
    "p": ["a", "b/c", "x:y=z%", "", " ", "ü ö", "[q]", None],
    "d": [*DAYS, None],
    "at": [*(local.replace(tzinfo=dt.UTC) for local in LOCALS), None],
    "n": [*LOCALS, None],
    "v": [*range(6), None],
}
OPERATORS: Mapping[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
KINDS = {
    "select": 20,
    "insert": 3,
    "insert by name": 3,
    "overwrite partition": 3,
    "overwrite partitions": 2,
    "update": 3,
    "delete": 2,
    "merge": 3,
    "show": 3,
}
"""How often each kind is drawn."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Parameters
    ----------
    kind : str
        Of :data:`KINDS`.
    where : Filter, optional
        Which rows; of a merge, which matching ones.
    rows : sequence of Row
        What is inserted or merged.
    turned : bool
        Whether fields of structs come in another order than the table's.
    values : mapping
        New values of an update.
    partition : tuple, optional
        The replaced or wanted partition value, in a tuple, because it may be None.
    action : str
        What a merge does with rows that match: update all, update the values, delete.
    zones : tuple of str
        Of the JVM and of the session.
    """

    kind: str
    where: Filter | None = None
    rows: Sequence[Row] = ()
    turned: bool = False
    values: Mapping[str, object] = field(default_factory=dict)
    partition: tuple[object] | None = None
    action: str = ""
    zones: tuple[str, str] = ("UTC", "UTC")


class Drawn:
    """The statements of one table.

    Parameters
    ----------
    layout : str
        Of :data:`LAYOUTS`.
    seed : int
        The same seed gives the same statements.
    """

    def __init__(self, layout: str, seed: int) -> None:
        self.by = LAYOUTS[layout]
        self.is_keyed = self.by is None
        self._rng = random.Random(f"{layout} {seed}")

    def statements(self, count: int) -> Iterator[Statement]:
        """Draw them: the first ones fill the table."""
        yield replace(self._inserted("insert by name"), rows=self._rows(10))
        for _ in range(count - 1):
            kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
            if self.by is None and kind in {"overwrite partition", "overwrite partitions", "show"}:
                kind = "select"
            yield self._drawn(kind)

    def _drawn(self, kind: str) -> Statement:
        rng = self._rng
        if kind == "select":
            made = Statement(kind, where=self._filter(2))
        elif kind == "show":
            asked = rng.random() < 0.6
            made = Statement(kind, partition=(self._value(self.by),) if asked else None)
        elif kind == "overwrite partition":
            made = self._inserted(kind)
            value = self._value(self.by)
            rows = [{**row, self.by: value} for row in made.rows]
            made = replace(made, rows=rows, partition=(value,))
        elif kind in {"update", "merge"}:
            made = self._changed(kind)
        elif kind == "delete":
            made = Statement(kind, where=self._filter(1))
        else:
            made = self._inserted(kind)
        return replace(made, zones=(rng.choice(ZONES), rng.choice(ZONES)))

    def _inserted(self, kind: str) -> Statement:
        return Statement(kind, rows=self._rows(self._rng.randint(1, 4)), turned=self._is_turned())

    def _changed(self, kind: str) -> Statement:
        rng = self._rng
        free = [name for name in COLUMNS if name not in {"id", self.by}]
        values = {name: self._value(name) for name in rng.sample(free, rng.randint(1, 3))}
        if kind == "update":
            return Statement(kind, self._filter(1), turned=self._is_turned(), values=values)
        where = self._filter(1) if rng.random() < 0.3 else None
        action = rng.choice(["update all", "update all", "update", "delete"])
        rows = self._rows(rng.randint(1, 6))
        return Statement(kind, where, rows, self._is_turned(), values, action=action)

    def _is_turned(self) -> bool:
        return self._rng.random() < 0.7

    def _rows(self, count: int) -> list[Row]:
        ids = self._rng.sample(range(IDS), count)
        return [{"id": one, **{c: self._value(c) for c in COLUMNS if c != "id"}} for one in ids]

    def _value(self, column: str) -> object:
        if column in POOLS:
            return self._rng.choice(list(POOLS[column]))
        if self._rng.random() < 0.2:
            return None
        if column == "s":
            return self._struct()
        if column == "l":
            return [self._struct() for _ in range(self._rng.randint(1, 2))]
        return [(self._rng.choice("kq"), self._struct())]

    def _struct(self) -> Row:
        return {name: self._rng.choice([None, *range(5)]) for name in "xy"}

    def _filter(self, depth: int) -> Filter:
        rng = self._rng
        if depth and rng.random() < 0.5:
            kind = rng.choice(["and", "or", "not"])
            if kind == "not":
                return (kind, self._filter(depth - 1))
            return (kind, self._filter(depth - 1), self._filter(depth - 1))
        column = rng.choice(FILTERED if self.by is None or rng.random() < 0.7 else (self.by,))
        if rng.random() < 0.15:
            return ("null", column)
        values = [one for one in POOLS[column] if one is not None]
        if rng.random() < 0.25:
            return ("in", column, tuple(rng.sample(values, rng.choice([1, 2, 3]))))
        return ("compare", column, rng.choice(list(OPERATORS)), rng.choice(values))


def holds(where: Filter | None, row: Row) -> bool | None:
    """Whether a row meets a filter; None where SQL says null."""
    if where is None:
        return True
    match where:
        case ("compare", column, operator, value):
            own = row[column]
            return None if own is None else OPERATORS[operator](own, value)
        case ("in", column, values):
            own = row[column]
            return None if own is None else own in values
        case ("null", column):
            return row[column] is None
        case ("not", part):
            held = holds(part, row)
            return None if held is None else not held
    parts = [holds(part, row) for part in where[1:]]
    decides = where[0] == "or"
    if decides in parts:
        return decides
    return None if None in parts else not decides


class Rows:
    """The rows of a table as plain Python has them.

    Parameters
    ----------
    drawn : Drawn
        What kind of table.
    """

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.rows: list[Row] = []
        self.partitions: set[object] = set()
        """Those that had a row since they were last replaced; files may stay without rows."""

    def apply(self, given: Statement) -> None:
        """Do what a statement does."""
        by = self.drawn.by
        if given.kind in {"insert", "insert by name"}:
            self._add(given.rows)
        elif given.kind == "overwrite partition":
            (value,) = given.partition
            self.rows = [row for row in self.rows if row[by] != value]
            self._add(given.rows)
        elif given.kind == "overwrite partitions":
            replaced = {row[by] for row in given.rows}
            self.rows = [row for row in self.rows if row[by] not in replaced]
            self._add(given.rows)
        elif given.kind == "update":
            self.rows = [
                {**row, **given.values} if holds(given.where, row) else row for row in self.rows
            ]
        elif given.kind == "delete":
            self.rows = [row for row in self.rows if not holds(given.where, row)]
        elif given.kind == "merge":
            self._merge(given)
        if by is not None:
            self.partitions |= {row[by] for row in self.rows}

    def _add(self, rows: Sequence[Row]) -> None:
        if self.drawn.is_keyed:
            ids = {row["id"] for row in rows}
            self.rows = [row for row in self.rows if row["id"] not in ids]
        self.rows = [*self.rows, *map(dict, rows)]

    def _merge(self, given: Statement) -> None:
        source = {row["id"]: row for row in given.rows}
        kept, matched = [], set()
        for row in self.rows:
            new = source.get(row["id"])
            matched |= {row["id"]} if new is not None else set()
            if new is None or not holds(given.where, row):
                kept.append(row)
            elif given.action != "delete":
                kept.append(dict(new) if given.action == "update all" else {**row, **given.values})
        self.rows = [*kept, *(dict(row) for i, row in source.items() if i not in matched)]

    def selected(self, where: Filter | None) -> list[tuple]:
        """The rows that meet a filter, in an order of their own."""
        return shown(row for row in self.rows if holds(where, row))


def shown(rows: Iterator[Row] | Sequence[Row]) -> list[str]:
    """Rows as texts that can be compared: instants in UTC."""
    return sorted(repr(tuple(_plain(row[name]) for name in COLUMNS)) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return ("instant", value.astimezone(dt.UTC).replace(tzinfo=None).isoformat())
    if isinstance(value, dict):
        return tuple(sorted((name, _plain(one)) for name, one in value.items()))
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def partition_name(column: str, value: object, zone: dt.tzinfo) -> str:
    """A partition as SHOW PARTITIONS shows it."""
    if value is None:
        return f"{column}=__DEFAULT_PARTITION__"
    if isinstance(value, str) and not value.strip():
        return f"{column}='{value}'"
    if isinstance(value, dt.datetime):
        value = value.astimezone(zone).replace(tzinfo=None).isoformat(" ")
    escaped = "\"#%'*/:=?\\{}[]^"
    return f"{column}=" + "".join(f"%{ord(c):02X}" if c in escaped else c for c in str(value))
