"""Catalogs in a file of SQLite and in a real PostgreSQL."""

from __future__ import annotations

import itertools
import sqlite3
from dataclasses import dataclass

import psycopg
import pytest
from servers.postgres import postgres

import tidelake

_KEYS = itertools.count()


@dataclass
class Place:
    """A database that catalogs are in.

    Parameters
    ----------
    kind : str
        ``sqlite`` or ``postgresql``.
    options : dict
        Of a catalog.
    warehouse : str
        Its directory.
    """

    kind: str
    options: dict
    warehouse: str

    def open(self, *, fileio=None, env=None, **more):
        """Open a catalog; further options may be given."""
        return tidelake.open(
            self.warehouse, catalog={**self.options, **more}, fileio=fileio, env=env
        )

    def run(self, text, *values):
        """Run a statement as another program would."""
        with self.connect() as connection:
            cursor = connection.execute(self.text(text), values)
            return cursor.fetchall() if cursor.description else []

    def text(self, text):
        return text if self.kind == "sqlite" else text.replace("?", "%s")

    def connect(self):
        if self.kind == "sqlite":
            return sqlite3.connect(self.options["uri"].removeprefix("jdbc:sqlite:"))
        host, _, database = self.options["uri"].removeprefix("jdbc:postgresql://").partition("/")
        return psycopg.connect(
            host="127.0.0.1",
            port=host.partition(":")[2],
            dbname=database,
            user=self.options["jdbc.user"],
            password=self.options["jdbc.password"],
        )

    def rows(self, table):
        """Rows of this catalog, without the key."""
        asked = f"SELECT * FROM {table} WHERE catalog_key = ?"
        return sorted(row[1:] for row in self.run(asked, self.options["catalog-key"]))


@pytest.fixture(scope="session")
def server():
    with postgres() as started:
        yield started


@pytest.fixture
def sqlite_place(tmp_path):
    options = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "catalog-key": "mine"}
    return Place("sqlite", options, f"{tmp_path}/w")


@pytest.fixture
def postgres_place(server, tmp_path):
    options = {**server.options(), "catalog-key": f"key-{next(_KEYS)}"}
    return Place("postgresql", options, f"{tmp_path}/w")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    """Each kind of database."""
    return request.getfixturevalue(f"{request.param}_place")
