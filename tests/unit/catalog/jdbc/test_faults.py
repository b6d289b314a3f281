"""Each statement of each change is cut or interrupted, before and after it took effect."""

import sqlite3
from contextlib import suppress

import pyarrow as pa
import pytest

from tidelake.catalog.catalog import Catalog
from tidelake.catalog.jdbc.database import Database
from tidelake.catalog.jdbc.dialect import DriverFailure
from tidelake.catalog.jdbc.lock import TableLock
from tidelake.catalog.jdbc.metastore import JdbcMetastore
from tidelake.catalog.jdbc.sqlite import SqliteDialect
from tidelake.catalog.warehouse import Warehouse
from tidelake.errors import AlreadyExistsError, StorageError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

SCHEMA = pa.schema({"k": pa.int64()})
STATEMENTS_MAX = 60


class LostError(sqlite3.OperationalError):
    """The connection is gone."""


class Wire:
    """Counts statements; one of them fails, before or after its effect."""

    def __init__(self):
        self.count, self.cut_at, self.after, self.failure = 0, None, False, LostError

    def pass_through(self, run):
        self.count += 1
        if self.count != self.cut_at:
            return run()
        if self.after:
            run()
        raise self.failure


class Connection:
    """A connection, or a cursor of one, on the wire."""

    def __init__(self, inner, wire):
        self._inner, self._wire = inner, wire

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def cursor(self):
        return Connection(self._inner.cursor(), self._wire)

    def execute(self, *given):
        return self._wire.pass_through(lambda: self._inner.execute(*given))


class FastDialect(SqliteDialect):
    """SQLite that waits for no disk: the machine does not crash in these tests."""

    def connect(self):
        connection = super().connect()
        connection.execute("PRAGMA synchronous = OFF")
        return connection


class Dialect(FastDialect):
    """SQLite behind a wire."""

    def __init__(self, uri, wire):
        super().__init__(uri, {})
        self._wire = wire

    def connect(self):
        return Connection(super().connect(), self._wire)

    def failure(self, error):
        return DriverFailure.LOST if isinstance(error, LostError) else super().failure(error)


class World:
    """A catalog behind a wire, and another one beside it that never fails."""

    def __init__(self, place):
        self.wire, files, env = Wire(), MemoryFileIO(), Env.system()
        self.flaky, self.sound = (
            self._open(dialect, place, files, env)
            for dialect in (
                Dialect(f"jdbc:sqlite:{place}", self.wire),
                FastDialect(f"jdbc:sqlite:{place}", {"busy_timeout": "100"}),
            )
        )

    @staticmethod
    def _open(dialect, place, files, env):
        database = Database(dialect)
        lock = TableLock(database, "jdbc", True, 10_000, 10, env.clock)
        metastore = JdbcMetastore(Warehouse("/w", files, env.ids), database, "jdbc", lock)
        return Catalog(metastore.prepare(lock_key_length=255), env=env)

    def rows(self, name):
        return self.sound.table(name).to_arrow().to_pylist()


def create(catalog):
    catalog.create_table("new.t", SCHEMA)


def rename(catalog):
    catalog.rename_table("db.t", "new.u")


def drop(catalog):
    catalog.drop_table("db.t")


def drop_database(catalog):
    catalog.drop_database("db", cascade=True)


def check_create(world):
    """The table is there or can be made; it is whole."""
    try:
        world.sound.create_table("new.t", SCHEMA).write([{"k": 1}])
    except AlreadyExistsError:
        world.sound.table("new.t").write([{"k": 1}])
    assert world.rows("new.t") == [{"k": 1}]
    assert world.sound.list_tables("new") == ["t"]


def check_rename(world):
    """It has one name, and all its rows."""
    old = world.sound.table_exists("db.t")
    assert world.sound.table_exists("new.u") is not old
    assert world.rows("db.t" if old else "new.u") == [{"k": 7}]
    if old:
        rename(world.sound)
    assert world.rows("new.u") == [{"k": 7}]


def check_whole_if_listed(world):
    if "db" in world.sound.list_databases():
        for table in world.sound.list_tables("db"):
            assert world.rows(f"db.{table}") == [{"k": 7}]


def check_drop(world):
    """It is as it was, or gone."""
    check_whole_if_listed(world)
    world.sound.drop_table("db.t", if_missing="ignore")
    assert world.sound.list_tables("db") == []
    assert world.sound.create_table("db.t", SCHEMA).count() == 0


def check_drop_database(world):
    """It is as it was, or gone; it can be made again without its rows."""
    check_whole_if_listed(world)
    world.sound.drop_database("db", cascade=True, if_missing="ignore")
    assert world.sound.list_databases() == []
    assert world.sound.create_table("db.t", SCHEMA).count() == 0


@pytest.mark.parametrize("failure", [LostError, KeyboardInterrupt], ids=["cut", "interrupted"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("change", "check"),
    [
        (create, check_create),
        (rename, check_rename),
        (drop, check_drop),
        (drop_database, check_drop_database),
    ],
    ids=lambda function: function.__name__,
)
def test_a_statement_that_fails_anywhere_loses_nothing(change, check, after, failure, tmp_path):
    for number in range(1, STATEMENTS_MAX):
        world = World(tmp_path / f"{number}.db")
        if change is not create:
            world.sound.create_table("db.t", SCHEMA).write([{"k": 7}])
        wire = world.wire
        wire.count, wire.cut_at, wire.after, wire.failure = 0, number, after, failure
        with suppress(StorageError, KeyboardInterrupt):
            change(world.flaky)
        if wire.count < number:
            return
        # a lock that is left behind expires; here it would only be waited for
        world.sound.metastore.database.change("DELETE FROM paimon_distributed_locks")
        check(world)
        world.flaky.create_database("later")  # is not in a transaction that was left open
        assert "later" in world.sound.list_databases()
    raise AssertionError(number)
