"""A database of PostgreSQL as a source of changes, and changes as lines of text, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
from servers.postgres import PASSWORD, USER, Postgres

from tidelake.cdc.postgres import PostgresSettings, PostgresSource
from tidelake.cdc.source.changes import SourceRows, Truncated
from tidelake.cdc.source.source import EpochLimits
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.types import RowKind

SETTINGS = ("wal_level=logical", "max_wal_senders=10", "max_replication_slots=10")
QUICK = EpochLimits(wait_ms=3_000, gather_ms=150)


@dataclass
class Place:
    """A database, and a source of it.

    Parameters
    ----------
    made : list
        Sources to end.
    """

    server: Postgres
    database: str
    connection: psycopg.Connection
    made: list = field(default_factory=list)

    def conf(self, **more):
        return {
            "hostname": "127.0.0.1",
            "port": str(self.server.port),
            "username": USER,
            "password": PASSWORD,
            "database-name": self.database,
            "slot.name": f"slot_{self.database}",
            **{key.replace("_", "-"): value for key, value in more.items()},
        }

    def source(self, *switches, conf=None, env=None):
        settings = PostgresSettings.of(conf or self.conf())
        found = PostgresSource(settings, TypeMapping.of(switches), env)
        self.made.append(found)
        return found

    def run(self, *statements):
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, query):
        return self.connection.execute(query).fetchall()

    def followed(self, *switches, conf=None):
        """A source whose tables are published and whose slot is made: it, its tables, position."""
        source = self.source(*switches, conf=conf)
        names = [table.name for table in source.tables()]
        source.prepare(names)
        with source.first_copy(names) as copy:
            return source, names, copy.position


def version_of(server):
    return int(server.bin_path.parent.name.removeprefix("pginstall") or 16)


def lines(changes):
    """Changed rows as texts: kind, sub-order, values; `~` for a value that was not sent."""
    return [line for part in changes.parts for line in part_lines(part)]


def part_lines(part):
    if isinstance(part, Truncated):
        return [f"truncated {part.table.table}"]
    if not isinstance(part, SourceRows):
        return [str(part)]
    found = []
    for row, values in enumerate(part.rows.to_pylist()):
        shown = [
            "~" if name in part.unchanged and part.unchanged[name][row] else short(value)
            for name, value in values.items()
        ]
        kind = RowKind(int(part.kinds[row]))
        found.append(f"{part.table.name.table} {kind} {' '.join(shown)}")
    return found


def short(value):
    text = "null" if value is None else str(value)
    return text if len(text) < 30 else f"{text[0]}*{len(text)}"


def read(source, position, names, limits=QUICK, **more):
    return source.read(position, names, limits, **more)


def read_to(source, position, names, goal, limits=QUICK):
    """Ranges until a goal is reached; all of their lines, and the ranges."""
    ranges, found = [], []
    for _ in range(200):
        changes = source.read(position, names, limits)
        ranges.append(changes)
        found += lines(changes)
        position = changes.end
        if not source.is_before(position, goal):
            return found, ranges
    raise AssertionError(position)
