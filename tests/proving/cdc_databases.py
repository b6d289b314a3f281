"""The databases of :mod:`proving.cdc_load` on each server, and what their tables are in the lake.

A :class:`Shop` is one empty database of a running server. It makes the tables in the server's SQL,
gives the arguments of a job that follows them, and reads them by ``SELECT *``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
import pymysql

__all__ = ["SERVERS", "MySqlShop", "PostgresShop", "Shop", "shops"]

POSTGRES_SETTINGS = ("wal_level=logical", "max_wal_senders=10", "max_replication_slots=10",
                     "wal_sender_timeout=5s")  # fmt: skip
_POSTGRES = (
    "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(30), price NUMERIC(10, 2), at TIMESTAMP,"
    " zoned TIMESTAMPTZ, done BOOLEAN, ratio FLOAT8, day DATE, big TEXT, raw BYTEA)",
    "ALTER TABLE items ALTER big SET STORAGE EXTERNAL, ALTER raw SET STORAGE EXTERNAL",
    "CREATE TABLE orders (region VARCHAR(10), id INT, amount BIGINT, memo TEXT,"
    " PRIMARY KEY (region, id))",
    "ALTER TABLE orders ALTER memo SET STORAGE EXTERNAL",
    "CREATE TABLE stock (id BIGINT PRIMARY KEY, shelf INT NOT NULL, amount INT)",
    "CREATE TABLE notes (id INT, day INT, note TEXT, PRIMARY KEY (id, day))"
    " PARTITION BY RANGE (day)",
    "CREATE TABLE notes_0 PARTITION OF notes FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE notes_1 PARTITION OF notes FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE notes_2 PARTITION OF notes FOR VALUES FROM (20) TO (30)",
    "CREATE TABLE events (id BIGINT, note TEXT)",
    "ALTER TABLE events REPLICA IDENTITY FULL",
)
_MYSQL = (
    "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(30), price DECIMAL(10, 2),"
    " at DATETIME(6), zoned TIMESTAMP(6) NULL, done BOOLEAN, ratio DOUBLE, day DATE, big LONGTEXT,"
    " raw BLOB)",
    "CREATE TABLE orders (region VARCHAR(10), id INT, amount BIGINT, memo LONGTEXT,"
    " PRIMARY KEY (region, id))",
    "CREATE TABLE stock (id BIGINT PRIMARY KEY, shelf INT NOT NULL, amount INT)",
    "CREATE TABLE notes (id INT, day INT, note LONGTEXT, PRIMARY KEY (id, day))"
    " PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE events (id BIGINT, note LONGTEXT)",
)
TYPES = {
    "items": {
        "id": "INT", "name": "VARCHAR(30)", "price": "DECIMAL(10, 2)", "at": "TIMESTAMP(6)",
        "zoned": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "done": "BOOLEAN", "ratio": "DOUBLE",
        "day": "DATE", "big": "STRING", "raw": "BYTES",
    },
    "orders": {"region": "VARCHAR(10)", "id": "INT", "amount": "BIGINT", "memo": "STRING"},
    "stock": {"id": "BIGINT", "shelf": "INT", "amount": "INT"},
    "notes": {"id": "INT", "day": "INT", "note": "STRING"},
    "events": {"id": "BIGINT", "note": "STRING"},
}  # fmt: skip
"""Of the columns in the lake, before the tables are altered."""
_NUMBERS = itertools.count()


@dataclass
class Shop:
    """One database; see the module."""

    server: Any
    database: str
    kind = ""
    types: ClassVar[dict[str, dict[str, str]]] = TYPES

    def connect(self) -> Any:
        """Open a connection with transactions, in UTC."""
        raise NotImplementedError

    def create(self) -> None:
        """Make the tables."""
        raise NotImplementedError

    def conf(self) -> dict[str, str]:
        """The settings of a source."""
        raise NotImplementedError

    def log_whole_rows(self, *tables: str) -> None:
        """Let the log have old rows whole, where that is a choice."""

    def drop(self) -> None:
        """Remove the database, and what a job made."""
        raise NotImplementedError

    def is_refusal(self, error: Exception) -> bool:
        """Whether the database refused a statement, as it may."""
        raise NotImplementedError

    def names_of(self, table: str) -> list[str]:
        """The columns of a table."""
        return self._read(f"SELECT * FROM {table}")[0]

    def rows_of(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table."""
        return self._read(f"SELECT * FROM {table}")[1]

    def _read(self, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return [column[0] for column in cursor.description], [*cursor.fetchall()]
        finally:
            connection.close()


@dataclass
class PostgresShop(Shop):
    """A database of PostgreSQL."""

    kind = "postgres"

    def _admin(self) -> Any:
        return psycopg.connect(**self.server.conninfo("postgres"), autocommit=True)

    def connect(self) -> Any:
        known = self.server.conninfo(self.database)
        return psycopg.connect(**known, options="-c timezone=UTC -c deadlock_timeout=50ms")

    def create(self) -> None:
        with self._admin() as admin:
            admin.execute(f"CREATE DATABASE {self.database}")
        with self.connect() as connection:
            for statement in _POSTGRES:
                connection.execute(statement)

    def log_whole_rows(self, *tables: str) -> None:
        with self.connect() as connection:
            for table in tables:
                connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")

    def conf(self) -> dict[str, str]:
        known = self.server.conninfo(self.database)
        return {
            "hostname": str(known["host"]), "port": str(known["port"]),
            "username": str(known["user"]), "password": str(known["password"]),
            "database-name": self.database, "slot.name": f"slot_{self.database}",
        }  # fmt: skip

    def is_refusal(self, error: Exception) -> bool:
        return isinstance(error, psycopg.errors.Error) and not isinstance(
            error, psycopg.errors.SyntaxError | psycopg.errors.UndefinedTable
        )

    def drop(self) -> None:
        mine = "FROM pg_replication_slots WHERE database = %s"
        with self._admin() as admin:
            for _ in range(100):
                admin.execute(
                    f"SELECT pg_terminate_backend(active_pid) {mine} AND active", [self.database]
                )
                try:
                    admin.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}",
                                  [self.database])  # fmt: skip
                    break
                except psycopg.errors.ObjectInUse:
                    admin.execute("SELECT pg_sleep(0.05)")
            admin.execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")


@dataclass
class MySqlShop(Shop):
    """A database of MariaDB or MySQL."""

    kind = "mysql"
    # as Paimon maps TIMESTAMP
    types: ClassVar = {**TYPES, "items": {**TYPES["items"], "zoned": "TIMESTAMP(6)"}}

    def connect(self) -> Any:
        connection = self.server.connect(database=self.database, autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
        return connection

    def create(self) -> None:
        made = f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4"
        self.server.do(made, database=None)
        self.server.do(*_MYSQL, database=self.database)

    def conf(self) -> dict[str, str]:
        return self.server.conf(database_name=self.database)

    def is_refusal(self, error: Exception) -> bool:
        # 1064 is SQL that nobody understands, 1146 a table that is not there
        known = isinstance(error, pymysql.err.MySQLError)
        return known and error.args[0] not in (1064, 1146)

    def drop(self) -> None:
        self.server.do(f"DROP DATABASE IF EXISTS {self.database}", database=None)


@contextmanager
def _postgres(version: int) -> Iterator[Callable[[str], Shop]]:
    from servers.postgres import postgres

    with postgres(version, *POSTGRES_SETTINGS) as server:
        yield lambda name: PostgresShop(server, name)


@contextmanager
def _mariadb() -> Iterator[Callable[[str], Shop]]:
    from servers.mariadb import mariadb

    with mariadb() as server:
        yield lambda name: MySqlShop(server, name)


@contextmanager
def _mysql56() -> Iterator[Callable[[str], Shop]]:
    from servers.mysql56 import GTIDS_ON, mysql56

    with mysql56(*GTIDS_ON) as server:
        yield lambda name: MySqlShop(server, name)


SERVERS: dict[str, Callable[[], Any]] = {
    "postgres18": lambda: _postgres(18),
    "postgres16": lambda: _postgres(16),
    "mariadb": _mariadb,
    "mysql56": _mysql56,
}


@contextmanager
def shops(server: str) -> Iterator[Callable[[], Any]]:
    """Start a server; gives what makes an empty database of it, a context of its own."""
    with SERVERS[server]() as make:

        @contextmanager
        def one() -> Iterator[Shop]:
            shop = make(f"shop{next(_NUMBERS)}")
            shop.create()
            try:
                yield shop
            finally:
                shop.drop()

        yield one
