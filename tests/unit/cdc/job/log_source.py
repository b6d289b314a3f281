"""A database in memory with a log, and the source that reads it: no server, every moment can fail.

Positions are ``"<transaction>:<rows>"``: all transactions before it, and some rows of that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelake.cdc.source.changes import Changes, MustReread, SourceRows, Truncated
from tidelake.cdc.source.finding import SourceFinding
from tidelake.cdc.source.lag import SourceLag
from tidelake.cdc.source.source import Chunk, CopiedRows, EpochLimits, NoCopy
from tidelake.cdc.source.source_table import (
    KeyColumns,
    SourceColumn,
    SourceName,
    SourceTable,
    no_key_columns,
)
from tidelake.errors import NotFoundError
from tidelake.types import RowKind, parse_type
from tidelake.types.arrow import to_arrow_schema


def name_of(table):
    return SourceName("shop", "", table)


def version(table, columns, keys, identity=""):
    """A table's version; columns are (name, type) or (name, type, number)."""
    made = tuple(
        SourceColumn(one[0], one[1].lower(), parse_type(one[1]), number)
        for number, one in enumerate(columns, 1)
    )
    return SourceTable(name_of(table), made, keys, identity=identity)


@dataclass(frozen=True)
class Event:
    """One row of the log, or a truncation (no kind)."""

    table: SourceTable
    kind: RowKind | None
    row: dict
    what: str = ""
    old: dict | None = None
    """The row that this one took the place of."""


@dataclass
class Database:
    """Tables and a log of transactions."""

    versions: dict[SourceName, SourceTable] = field(default_factory=dict)
    rows: dict[SourceName, dict] = field(default_factory=dict)
    log: list[list[Event]] = field(default_factory=list)
    identity: str = "7"
    hidden: set[SourceName] = field(default_factory=set)
    """Tables that show with their first row, as in a topic."""
    keeps_rows: bool = False
    forgotten: int = 0
    """Transactions before this one are gone."""

    def create(self, table, columns, keys=("id",)):
        name = name_of(table)
        self.versions[name] = version(table, columns, keys, identity=str(len(self.log)))
        self.rows[name] = {}

    def alter(self, table, columns):
        name = name_of(table)
        old = self.versions[name]
        self.versions[name] = replace(version(table, columns, old.keys), identity=old.identity)
        names = [one[0] for one in columns]
        self.rows[name] = {
            key: {n: row.get(n) for n in names} for key, row in self.rows[name].items()
        }

    def commit(self, *changes):
        """Changes are (table, "put", row), (table, "delete", key), (table, "move", key, row)."""
        events = []
        for table, what, *given in changes:
            name = name_of(table)
            at, rows = self.versions[name], self.rows[name]
            if what == "truncate":
                rows.clear()
                events.append(Event(at, None, {}, "truncate"))
                continue
            if what == "reread":
                events.append(Event(at, None, {}, "reread"))
                continue
            if what in ("delete", "move"):
                old = rows.pop(given[0])
                events.append(Event(at, RowKind.DELETE, old))
            if what in ("put", "move"):
                row = {c.name: None for c in at.columns} | given[-1]
                key = tuple(row[k] for k in at.keys) or (len(self.log), len(events))
                old, rows[key] = rows.get(key), row
                kind = RowKind.UPDATE_AFTER if at.keys else RowKind.INSERT
                events.append(Event(at, kind, row, old=old))
        self.log.append(events)


def parsed(position):
    transaction, _, rows = position.partition(":")
    return int(transaction), int(rows)


def batch(table, rows):
    schema = to_arrow_schema(table.fields)
    loose = pa.schema([f.with_nullable(True) for f in schema])
    return pa.RecordBatch.from_pylist(rows, loose)


@dataclass
class Copy:
    """A first copy."""

    database: Database
    rows: dict
    at: int
    fails: Callable[[str], None] = lambda _: None
    converges: bool = False

    @property
    def position(self):
        return f"{self.at}:0"

    @property
    def order(self):
        return (-1, -1) if self.keeps_rows else (self.at - 1, 1 << 40)

    def whole_at(self):
        return f"{len(self.database.log)}:0" if self.converges else self.position

    @property
    def keeps_rows(self):
        return self.database.keeps_rows

    def chunks(self, table, *, rows_max):
        count = len(self.rows[table.name])
        return [
            Chunk(table, str(first), min(rows_max, count - first))
            for first in range(0, count, rows_max)
        ]

    def read(self, chunk: Chunk) -> Iterator[CopiedRows]:
        self.fails("chunk")
        first = int(chunk.condition)
        seen = self.database.rows if self.converges else self.rows
        rows = list(seen[chunk.table.name].values())[first : first + chunk.rows_count]
        yield CopiedRows(batch(chunk.table, rows))

    def reader(self, chunks):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class LogSource:
    """Reads a :class:`Database`; `fails` is called with a word at each moment of interest."""

    kind = "mysql"

    def __init__(self, database: Database, fails: Callable[[str], None] = lambda _: None) -> None:
        self.database = database
        self.fails = fails
        self.confirmed: list[str] = []
        self.is_closed = False
        self.starts_at: str | None = None
        self.converges = False
        self.unread: set[SourceName] = set()
        self.prepared: list[SourceName] = []

    def identity(self) -> str:
        return self.database.identity

    def check(self, tables: Sequence[SourceTable]) -> list[SourceFinding]:
        return [
            SourceFinding("no_primary_key", f"{one.name} has no key", table=str(one.name))
            for one in tables
            if not one.keys
        ]

    def tables(self) -> list[SourceTable]:
        versions = self.database.versions
        unseen = self.database.hidden | self.unread
        return [one for name, one in versions.items() if name not in unseen]

    def reads(self, name: SourceName) -> bool:
        return name not in self.unread

    def prepare(self, tables: Sequence[SourceName]) -> None:
        self.prepared = list(tables)
        self.fails("prepare")

    def first_copy(self, tables: Sequence[SourceName], *, is_start: bool = False) -> Copy | NoCopy:
        self.fails("copy")
        if is_start and self.starts_at is not None:
            return NoCopy(self.starts_at)
        rows = {name: dict(self.database.rows[name]) for name in tables}
        return Copy(self.database, rows, len(self.database.log), self.fails, self.converges)

    def newest(self) -> str:
        return f"{len(self.database.log)}:0"

    def is_before(self, left: str, right: str) -> bool:
        return parsed(left) < parsed(right)

    def is_between_transactions(self, position: str) -> bool | None:
        return parsed(position)[1] == 0

    def read(
        self,
        start: str,
        tables: Sequence[SourceName],
        limits: EpochLimits,
        *,
        end: str | None = None,
        key_columns: KeyColumns = no_key_columns,
    ) -> Changes:
        self.fails("read")
        first, skipped = parsed(start)
        if first < self.database.forgotten:
            raise NotFoundError("The log is gone.", kind="cdc_position_lost")
        last = (len(self.database.log), 0) if end is None else parsed(end)
        taken, at, appeared = [], (first, skipped), ()
        while at < last and (end is not None or len(taken) < limits.rows_max):
            transaction, row = at
            events = self.database.log[transaction]
            if row >= len(events):
                at = (transaction + 1, 0)
                continue
            event = events[row]
            if event.table.name in self.database.hidden and end is None:
                self.database.hidden.remove(event.table.name)
                appeared = (event.table.name,)
                break
            if event.kind is None and taken and end is None:
                break  # a truncation has an epoch of its own
            taken.append((transaction, row, event))
            at = (transaction, row + 1)
            if event.kind is None and end is None:
                break
        if at[0] < len(self.database.log) and at[1] >= len(self.database.log[at[0]]):
            at = (at[0] + 1, 0)
        if end is not None:
            at = last
        found = tuple(parts(taken, tables, key_columns))
        return Changes(start, f"{at[0]}:{at[1]}", found, self.newest(), 1, appeared)

    def check_position(self, position: str) -> None:
        if parsed(position)[0] > len(self.database.log):
            raise NotFoundError("The log ends before.", kind="cdc_position_lost")

    def held(self, position: str) -> list[str]:
        return []

    def confirm(self, position: str) -> None:
        self.fails("confirm")
        self.confirmed.append(position)
        self.database.forgotten = max(self.database.forgotten, parsed(position)[0])

    def status(self):
        return {}

    def lag(self, position, newest):
        return SourceLag(messages_count=parsed(newest)[0] - parsed(position)[0])

    def slots(self):
        return []

    def drop(self):
        return []

    def close(self):
        self.is_closed = True


def parts(taken, tables, key_columns=no_key_columns):
    """The events by version of a table: tables by name, as PostgreSQL's decoder has its order."""
    groups: list[tuple[SourceTable, list]] = []
    newest: dict[SourceName, int] = {}
    for one in taken:
        event = one[2]
        if event.table.name not in tables:
            continue
        if event.what == "truncate":
            yield Truncated(event.table.name, (one[0], 2 * one[1]))
            continue
        if event.what == "reread":
            yield MustReread(event.table.name, "it was renamed", (one[0], 2 * one[1]))
            continue
        at = newest.get(event.table.name)
        if at is None or groups[at][0] != event.table:
            newest[event.table.name] = at = len(groups)
            groups.append((event.table, []))
        moving, old = key_columns(event.table), event.old
        if old is not None and any(old.get(name) != event.row[name] for name in moving):
            whole = {name: old.get(name) for name in event.row}
            groups[at][1].append((one[0], 2 * one[1], RowKind.DELETE, whole))
        groups[at][1].append((one[0], 2 * one[1] + 1, event.kind, event.row))
    for table, events in sorted(groups, key=lambda group: str(group[0].name)):
        yield SourceRows(
            table,
            batch(table, [row for *_, row in events]),
            np.array([int(kind) for _, _, kind, _ in events], np.int8),
            np.array([(t, r) for t, r, *_ in events], np.int64).reshape(-1, 2),
            np.array([t * 1000 for t, *_ in events], np.int64),
        )
