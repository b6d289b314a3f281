"""An application on a real database: drawn tables, and threads that change them at random.

All of it is SQL, so that nothing of the engine decides what a table should hold. The tables:

=======  ===========================================================================================
items    all common types; a text and bytes that PostgreSQL keeps out of line; gets new columns
orders   a key of two columns, of which the target is partitioned by the first: keys move
stock    a column that grows wider; its target may be partitioned by a column outside the key
notes    partitioned in the source, by the second column of its key
events   without a key: rows are inserted only
=======  ===========================================================================================

A transaction changes several tables, sets savepoints and goes back to them, or is rolled back as a
whole. What two writers do to each other (deadlocks, keys that exist) ends a transaction as in life.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

KEYS = 40
"""Of each table; few, so that writers meet."""
LARGE_BYTES = (2_500, 9_000)
"""Of a value out of line."""
STEPS_MAX = 6
"""Statements of a transaction."""
DDL_PAUSE_S = 1.2
"""The longest time from one change of a schema to the next."""
ALTERED = ("items", "stock", "notes")
TRUNCATED = ("items", "orders", "stock", "notes")
EXTRA = "extra"
"""Begins the names of columns that are added on the way."""


class Database(Protocol):
    """One kind of server: its SQL, and connections to one database of it."""

    kind: str
    """``postgres`` or ``mysql``."""

    def connect(self) -> Any:
        """Open a connection with transactions."""
        ...

    def create(self, connection: Any) -> None:
        """Make the tables."""
        ...

    def is_refusal(self, error: Exception) -> bool:
        """Whether the database refused a statement, as it may."""
        ...


@dataclass
class Application:
    """The writers of one database.

    Parameters
    ----------
    transactions : int
        Of each writer at most.
    pause_s : float
        The longest pause between two transactions.
    """

    database: Database
    seed: int
    writers: int
    transactions: int
    pause_s: float
    ddl_count: int
    added: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in ALTERED})
    """Columns that were added, by table."""
    widened: bool = False
    done: int = 0
    """Transactions committed."""
    errors: list[Exception] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """Whether a writer has more to do."""
        return any(thread.is_alive() for thread in self._threads)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let it run; at the end of the block the writers are stopped."""
        doing = [(self._write, number) for number in range(self.writers)]
        doing.append((self._alter, self.writers))
        self._threads = [
            threading.Thread(target=self._guarded, args=one, daemon=True) for one in doing
        ]
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in self._threads:
                thread.join(60)
            assert not self.is_running, "a writer hangs"
        if self.errors:
            raise self.errors[0]

    def _guarded(self, work: Any, number: int) -> None:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001, given to the thread that waits
            self.errors.append(error)

    # ---- rows

    def fill(self) -> None:
        """Put rows into the tables before anybody follows them."""
        rng = random.Random(f"{self.seed} filled")
        connection = self.database.connect()
        try:
            work = _Work(self, rng, connection, number=99)
            for key in range(0, KEYS, 2):
                for table in ("items", "orders", "stock", "notes", "events"):
                    work.put(table, key)
            connection.commit()
        finally:
            connection.close()

    def touch(self) -> None:
        """Change a row of each table: the log tells a new column with the next row."""
        connection = self.database.connect()
        try:
            work = _Work(self, random.Random(f"{self.seed} touched"), connection, number=98)
            for table in ("items", "orders", "stock", "notes", "events"):
                work.put(table, KEYS - 1)
            connection.commit()
        finally:
            connection.close()

    def _write(self, number: int) -> None:
        rng = random.Random(f"{self.seed} writer {number}")
        connection = self.database.connect()
        try:
            work = _Work(self, rng, connection, number)
            for _ in range(self.transactions):
                if self.stopped.is_set():
                    return
                if work.transaction():
                    self.done += 1
                time.sleep(rng.uniform(0, self.pause_s))
        finally:
            connection.close()

    # ---- schemas

    def _alter(self, _: int) -> None:
        rng = random.Random(f"{self.seed} schemas")
        connection = self.database.connect()
        try:
            for number in range(self.ddl_count):
                if self.stopped.wait(rng.uniform(0, DDL_PAUSE_S)):
                    return
                self._alter_once(rng, connection, number)
        finally:
            connection.close()

    def _alter_once(self, rng: random.Random, connection: Any, number: int) -> None:
        table, what = rng.choice(ALTERED), rng.choice(["plain", "default", "must", "widen"])
        if what == "widen" and not self.widened:
            statement = {
                "postgres": "ALTER TABLE stock ALTER COLUMN amount TYPE BIGINT",
                "mysql": "ALTER TABLE stock MODIFY amount BIGINT",
            }[self.database.kind]
        else:
            kind = {"default": "INT DEFAULT 7", "must": "INT NOT NULL DEFAULT 8"}.get(what, "INT")
            statement = f"ALTER TABLE {table} ADD COLUMN {EXTRA}{number} {kind}"
        try:
            connection.cursor().execute(statement)
            connection.commit()
        except Exception as error:
            if not self.database.is_refusal(error):
                raise
            connection.rollback()
            return
        if what == "widen" and not self.widened:
            self.widened = True
        else:
            self.added[table].append(f"{EXTRA}{number}")


@dataclass
class _Work:
    """What one writer does, on one connection."""

    application: Application
    rng: random.Random
    connection: Any
    number: int
    counted: int = 0

    @property
    def _is_postgres(self) -> bool:
        return self.application.database.kind == "postgres"

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, tuple(values))

    def transaction(self) -> bool:
        """Do one; False if it was rolled back."""
        rng = self.rng
        try:
            for _ in range(rng.randrange(1, STEPS_MAX)):
                if rng.random() < 0.15:
                    self._within_savepoint()
                else:
                    self._step()
            if rng.random() < 0.1:
                self.connection.rollback()
                return False
            self.connection.commit()
        except Exception as error:
            if not self.application.database.is_refusal(error):
                raise
            self.connection.rollback()
            return False
        return True

    def _within_savepoint(self) -> None:
        self.run("SAVEPOINT s")
        for _ in range(self.rng.randrange(1, 4)):
            self._step(may_truncate=False)
        if self.rng.random() < 0.6:
            self.run("ROLLBACK TO SAVEPOINT s")
        else:
            self.run("RELEASE SAVEPOINT s")

    def _step(self, *, may_truncate: bool = True) -> None:
        rng = self.rng
        if may_truncate and rng.random() < 0.006:
            self._truncate()
            return
        table = rng.choice(["items", "items", "orders", "orders", "stock", "notes", "events"])
        key = rng.randrange(KEYS)
        what = rng.random()
        if table == "events" or what < 0.3:
            self.put(table, key)
        elif what < 0.65:
            self._update(table, key)
        elif what < 0.75:
            self._update_many(table)
        elif what < 0.85:
            self.run(f"DELETE FROM {table} WHERE id = %s", [key])
        else:
            self._move(table, key)

    def _truncate(self) -> None:
        names = self.rng.sample(TRUNCATED, self.rng.choice([1, 1, 2]))
        if self._is_postgres:
            self.run(f"TRUNCATE {', '.join(names)}")
        else:
            self.run(f"TRUNCATE TABLE {names[0]}")

    # ---- of one table

    def put(self, table: str, key: int) -> None:
        """Insert a row, or replace it."""
        if table == "events":
            self.counted += 1
            number = self.number * 1_000_000 + self.counted
            self.run("INSERT INTO events (id, note) VALUES (%s, %s)", [number, self._text()])
            return
        rows: dict[str, Callable[[], dict[str, Any]]] = {
            "items": lambda: self._item(key),
            "orders": lambda: {"region": self._region(), "id": key, "amount": self._count(),
                               "memo": self._large()},
            "stock": lambda: {"id": key, "shelf": self.rng.randrange(4), "amount": self._count()},
            "notes": lambda: {"id": key, "day": self.rng.randrange(30), "note": self._text()},
        }  # fmt: skip
        row = rows[table]()
        if added := self.application.added.get(table):
            row[self.rng.choice(added)] = self._count()
        keys = {"orders": "region, id", "notes": "id, day"}.get(table, "id")
        others = [name for name in row if name not in keys.split(", ")]
        names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
        if self._is_postgres:
            sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
            last = f"ON CONFLICT ({keys}) DO UPDATE SET {sets}"
        else:
            sets = ", ".join(f"{name} = VALUES({name})" for name in others)
            last = f"ON DUPLICATE KEY UPDATE {sets}"
        values = [*row.values()]
        self.run(f"INSERT INTO {table} ({names}) VALUES ({marks}) {last}", values)

    def _update(self, table: str, key: int) -> None:
        """Change one column; a large value is mostly left alone."""
        rng = self.rng
        makers: dict[str, dict[str, Callable[[], Any]]] = {
            "items": {
                "name": self._text, "price": self._price, "done": lambda: rng.random() < 0.5,
                "ratio": rng.random, "big": self._large, "raw": self._bytes,
            },
            "orders": {"amount": self._count, "memo": self._large},
            "stock": {"amount": self._count, "shelf": lambda: rng.randrange(4)},
            "notes": {"note": self._text},
        }  # fmt: skip
        columns = makers[table]
        for added in self.application.added.get(table, ()):
            columns[added] = self._count
        names = [name for name in columns if name not in ("big", "memo", "raw")]
        if rng.random() < 0.2:
            names = [*columns]
        name = rng.choice(names)
        self.run(f"UPDATE {table} SET {name} = %s WHERE id = %s", [columns[name](), key])

    def _update_many(self, table: str) -> None:
        statement = {
            "items": "UPDATE items SET price = price + 1 WHERE MOD(id, 5) = %s",
            "orders": "UPDATE orders SET amount = amount + 1 WHERE MOD(id, 5) = %s",
            "stock": "UPDATE stock SET shelf = MOD(shelf + 1, 4) WHERE MOD(id, 5) = %s",
            "notes": "UPDATE notes SET note = 'many' WHERE MOD(id, 5) = %s",
        }[table]
        self.run(statement, [self.rng.randrange(5)])

    def _move(self, table: str, key: int) -> None:
        """Change a key."""
        other = self.rng.randrange(KEYS)
        if table == "orders" and self.rng.random() < 0.7:
            values = [self._region(), self._region(), key]
            self.run("UPDATE orders SET region = %s WHERE region = %s AND id = %s", values)
        elif table == "notes" and self.rng.random() < 0.7:
            values = [self.rng.randrange(30), key]
            self.run("UPDATE notes SET day = %s WHERE id = %s", values)
        else:
            self.run(f"UPDATE {table} SET id = %s WHERE id = %s", [other, key])

    # ---- values

    def _item(self, key: int) -> dict[str, object]:
        rng = self.rng
        moment = f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 28):02}"
        text = f"{moment} {rng.randrange(24):02}:10:20.{rng.randrange(1_000_000):06}"
        return {
            "id": key, "name": self._text(), "price": self._price(), "at": text, "zoned": text,
            "done": rng.random() < 0.5, "ratio": rng.random(), "day": moment, "big": self._large(),
            "raw": self._bytes(),
        }  # fmt: skip

    def _text(self) -> str | None:
        return self.rng.choice([None, "", "a,\"b'\n", "größer", f"n{self.rng.randrange(1000)}"])

    def _region(self) -> str:
        return self.rng.choice(["north", "east", "süd"])

    def _count(self) -> int:
        return self.rng.randrange(-1000, 1000)

    def _price(self) -> str | None:
        if self.rng.random() < 0.1:
            return None
        return f"{self.rng.randrange(-9999, 9999)}.{self.rng.randrange(100):02}"

    def _large(self) -> str | None:
        if self.rng.random() < 0.2:
            return self._text()
        length = self.rng.randrange(*LARGE_BYTES)
        return self.rng.choice("abcdef") * 7 + str(self.rng.getrandbits(64)) + "x" * length

    def _bytes(self) -> bytes | None:
        return self.rng.choice([None, b"", self.rng.randbytes(self.rng.randrange(1, 3_000))])
