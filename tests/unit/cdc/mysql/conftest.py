"""Servers of MariaDB and MySQL 5.6, one for each process of a run, and sources on them."""

from __future__ import annotations

import pytest

pytest.importorskip("pymysql")


@pytest.fixture(scope="session")
def maria_server():
    from servers.mariadb import AbsentError, mariadb

    try:
        with mariadb() as server:
            yield server
    except AbsentError as reason:
        pytest.skip(f"no MariaDB: {reason}")


@pytest.fixture
def maria(maria_server):
    """The server with an empty database ``shop``."""
    maria_server.do("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", database=None)
    return maria_server


@pytest.fixture(scope="session")
def mysql56_server():
    from servers.mysql56 import GTIDS_ON, AbsentError, mysql56

    try:
        with mysql56(*GTIDS_ON) as server:
            yield server
    except AbsentError as reason:
        pytest.skip(f"no MySQL 5.6: {reason}")


@pytest.fixture
def mysql56(mysql56_server):
    """The server with an empty database ``shop``."""
    mysql56_server.do("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", database=None)
    return mysql56_server


@pytest.fixture
def open_source():
    """Make a source on a server; closed at the end of the test."""
    from tidelake.cdc.mysql.settings import MySqlSettings
    from tidelake.cdc.mysql.source import MySqlSource
    from tidelake.cdc.source.type_mapping import TypeMapping
    from tidelake.engine.env import SystemClock

    made = []

    def open_one(server, *switches, **conf):
        settings = MySqlSettings.of(server.conf(**conf))
        made.append(MySqlSource(settings, TypeMapping.of(switches), SystemClock()))
        return made[-1]

    yield open_one
    for source in made:
        source.close()
