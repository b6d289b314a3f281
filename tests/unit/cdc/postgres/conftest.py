"""PostgreSQL with logical decoding; a database of its own for each test."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from cdc_postgres import SETTINGS, Place
from servers.postgres import postgres
from sizes import FULL, SIZE

VERSIONS = [18, 16] if SIZE is FULL else [18]
"""The drawn jobs of `tests/sim` meet both in each run."""
_NUMBERS = itertools.count()


@pytest.fixture(scope="session", params=VERSIONS, ids="pg{}".format)
def server(request):
    with postgres(request.param, *SETTINGS) as started:
        yield started


@pytest.fixture
def place(server):
    number = next(_NUMBERS)
    with psycopg.connect(**server.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE d{number}")
    name = f"d{number}"
    with psycopg.connect(**server.conninfo(name), autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        found = Place(server, name, connection)
        yield found
        for source in found.made:
            source.close()
    with psycopg.connect(**server.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE active AND database = %s",
            [name],
        )
        for _ in range(100):
            try:
                admin.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                    " WHERE database = %s",
                    [name],
                )
                break
            except psycopg.errors.ObjectInUse:
                admin.execute("SELECT pg_sleep(0.05)")
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
