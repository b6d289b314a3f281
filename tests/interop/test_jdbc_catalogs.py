"""JDBC catalogs that Java 1.3.1, pypaimon 2.1.0 and we share: tables, rows, renames, drops.

Views are shared with Java 2.1: its JDBC catalog is the first that keeps any.
"""

from __future__ import annotations

import sqlite3

import pytest
from servers.postgres import postgres

import tidelake
from interop.catalog_peer import PeerError, java_catalogs, pypaimon_catalogs
from interop.readers import AbsentError, JavaCore21, Pypaimon
from interop.views import check_views_are_shared
from tidelake.errors import AlreadyExistsError

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
UNCACHED = {"cache-enabled": "false"}  # Java keeps tables that it has opened


@pytest.fixture(scope="module")
def java_peer(java):
    try:
        peer = java_catalogs(java)
    except AbsentError as reason:
        pytest.skip(f"the drivers of Java are absent: {reason}")
    with peer:
        yield peer


@pytest.fixture(scope="module")
def pypaimon_peer():
    reader = Pypaimon()
    try:
        reader.prepare()
    except AbsentError as reason:
        pytest.skip(f"pypaimon is absent: {reason}")
    with pypaimon_catalogs(reader) as peer:
        yield peer


def ours(options, **more):
    return tidelake.open(
        catalog={key: value for key, value in {**options, **more}.items() if value is not None}
    )


def make(catalog, name, **row):
    table = catalog.create_table(name, COLUMNS, primary_keys=["k"], options={"bucket": 1})
    if row:
        table.write([row])
    return table


def rows(catalog, name):
    return {row["k"]: row["v"] for row in catalog.table(name).to_arrow().to_pylist()}


def share(peer, options, *, lock):
    """What each engine does, and what the other one sees of it."""
    # the other one first: Java 1.3.1 leaves a query open on a file of SQLite that has the tables,
    # and by it locks others and its own next connection out
    peer.open({**options, **lock, **UNCACHED})
    catalog = ours(options, **lock)
    make(catalog, "mine.t", k=1, v="tidelake")
    make(catalog, "mine.away", k=1, v="x")
    make(catalog, "mine.gone")
    catalog.create_database("empty")
    seen = {"mine.t": "1=tidelake", "mine.away": "1=x", "mine.gone": "", "mine": "", "empty": ""}
    assert peer.tables() == seen
    peer.do("write", "mine.t", "2", "theirs")
    peer.do("rename", "mine.away", "mine.renamed")
    peer.do("drop", "mine.gone")
    peer.do("create", "yours.u")
    peer.do("write", "yours.u", "5", "theirs")
    with pytest.raises(PeerError, match=r"(?i)exist"):
        peer.do("create", "mine.t")
    with pytest.raises(AlreadyExistsError):
        make(catalog, "yours.u")
    assert catalog.list_databases() == ["empty", "mine", "yours"]
    assert catalog.list_tables("mine") == ["renamed", "t"]
    assert rows(catalog, "mine.t") == {1: "tidelake", 2: "theirs"}
    assert rows(catalog, "mine.renamed") == {1: "x"}
    catalog.table("yours.u").write([{"k": 5, "v": "again"}])
    catalog.rename_table("yours.u", "yours.v")
    catalog.drop_table("mine.renamed")
    catalog.drop_database("empty")
    assert peer.tables() == {"mine.t": "1=tidelake,2=theirs", "mine": "", "yours.v": "5=again",
                             "yours": ""}  # fmt: skip
    return catalog


def layout(file):
    """The statements that made a database."""
    with sqlite3.connect(file) as connection:
        return set(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))


def test_java_and_we_share_a_catalog_in_sqlite(java_peer, tmp_path):
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/c.db",
        "warehouse": f"{tmp_path}/w",
        "jdbc.user": "x",
        "jdbc.password": "x",
    }
    catalog = share(java_peer, options, lock={"lock.enabled": "true"})
    java_peer.do("alter", "yours.v", "snapshot.num-retained.max", "70")
    altered = catalog.table("yours.v").table_schema.options
    assert altered["snapshot.num-retained.max"] == "70"
    java_peer.do("dropdb", "yours")
    assert catalog.list_databases() == ["mine"]


def test_java_makes_the_tables_that_we_use(java_peer, tmp_path):
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/c.db",
        "warehouse": f"{tmp_path}/w",
        "catalog-key": "theirs",
    }
    java_peer.open({**options, "lock.enabled": "true", **UNCACHED})
    ours({**options, "uri": f"jdbc:sqlite:{tmp_path}/ours.db"}, **{"lock.enabled": "true"})
    assert layout(tmp_path / "ours.db") == layout(tmp_path / "c.db")
    java_peer.do("create", "jdb.t")
    java_peer.do("write", "jdb.t", "1", "java")
    catalog = ours(options)
    assert rows(catalog, "jdb.t") == {1: "java"}
    assert ours(options, **{"catalog-key": "other"}).list_databases() == []
    catalog.drop_database("jdb", cascade=True)
    assert java_peer.tables() == {}


def test_java_and_we_share_a_catalog_in_postgresql(java_peer, tmp_path):
    with postgres() as server:
        options = {
            **{k: v for k, v in server.options().items() if k != "type"},
            "metastore": "jdbc",
            "warehouse": f"{tmp_path}/w",
        }
        share(java_peer, options, lock={"lock.enabled": "true"})


def test_pypaimon_and_we_share_a_catalog_in_sqlite(pypaimon_peer, tmp_path):
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/c.db",
        "warehouse": f"{tmp_path}/w",
    }
    share(pypaimon_peer, options, lock={})


def test_views_are_shared_with_java_2_1(tmp_path):
    core = JavaCore21()
    try:
        core.prepare()
        peer = java_catalogs(core)
    except AbsentError as reason:
        pytest.skip(f"Java Paimon 2.1 is absent: {reason}")
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/c.db",
        "warehouse": str(tmp_path / "w"),
        "catalog-key": "views",
        "jdbc.user": "x",
        "jdbc.password": "x",
    }
    with peer:
        peer.open({**options, **UNCACHED})
        check_views_are_shared(peer, ours(options))
