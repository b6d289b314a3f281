"""A PostgreSQL 18 for the session, a database of its own for each test, and jobs of it on Spark."""

from __future__ import annotations

import contextlib
import itertools
import time

import psycopg
import pytest
from cdc_postgres import SETTINGS
from servers.postgres import PASSWORD, USER, postgres
from waiting import until

import tidelake
import tidelake.cdc
from tidelake.errors import NotFoundError

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cdc_server():
    with postgres(18, *SETTINGS) as started:
        yield started


class Shop:
    """A database, and jobs of it into a lake."""

    def __init__(self, server, lake, name):
        self.server = server
        self.lake = lake
        self.name = name
        self.connection = psycopg.connect(**server.conninfo(name), autocommit=True)
        self.connection.execute("SET timezone = 'UTC'")
        self.conf = {
            "hostname": "127.0.0.1",
            "port": server.port,
            "username": USER,
            "password": "env:CDC_PASSWORD",
            "database-name": name,
            "slot.name": f"slot_{name}",
        }

    def run(self, *statements):
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, query):
        return self.connection.execute(query).fetchall()

    def job(self, *, chunk_rows=None, **more):
        conf = dict(self.conf)
        if chunk_rows:
            conf["scan.incremental.snapshot.chunk.size"] = chunk_rows
        given = {"database": "ods", "postgres_conf": conf, "interval": "200 ms"}
        return self.lake.cdc("postgres_sync_database", **{**given, **more})

    def plain_job(self, **more):
        """The same job without Spark."""
        given = {"warehouse": self.lake.catalog.uri, "database": "ods", "postgres_conf": self.conf}
        return tidelake.cdc.sync("postgres_sync_database", **{**given, **more})

    def content(self, table, *columns):
        rows = self.lake.catalog.table(f"ods.{table}").to_arrow(columns=list(columns)).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=str)

    def commits(self, identifier):
        """How many commits with rows a table has."""
        history = self.lake.catalog.table(identifier).history()
        return len(set(history["commit_identifier"].to_pylist()))

    def has_column(self, table, column, seconds=120):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if column in self.lake.catalog.table(f"ods.{table}").schema.names:
                return True
            time.sleep(0.1)
        return False

    def is_equal(self, table, *columns):
        wanted = self.rows(f"SELECT {', '.join(columns)} FROM {table}")
        return self.content(table, *columns) == sorted(wanted, key=str)

    def becomes_equal(self, table, *columns, seconds=120):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with contextlib.suppress(NotFoundError):  # the table is not there yet
                if self.is_equal(table, *columns):
                    return True
            time.sleep(0.1)
        return False


@pytest.fixture
def shop(cdc_server, lake, monkeypatch):
    monkeypatch.setenv("CDC_PASSWORD", PASSWORD)
    name = f"spark{next(_NUMBERS)}"
    with psycopg.connect(**cdc_server.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    made = Shop(cdc_server, lake, name)
    made.run(
        "CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(8, 2), at timestamptz)",
        "CREATE TABLE users (mail varchar(40) PRIMARY KEY, age smallint)",
        "INSERT INTO users VALUES ('a@b', 1)",
    )
    yield made
    for job in lake.jobs():
        job.stop()
    made.run(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        " WHERE active AND database = current_database()"
    )
    mine = "FROM pg_replication_slots WHERE database = current_database()"
    until(lambda: not made.rows(f"SELECT 1 {mine} AND active"))
    made.run(f"SELECT pg_drop_replication_slot(slot_name) {mine}")
    made.connection.close()
