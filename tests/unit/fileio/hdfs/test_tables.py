"""Tables on HDFS, over a name node in memory: what they do, and who meets a drop or a rename."""

from __future__ import annotations

import itertools
import json

import pytest
from proving.fsck import check_table
from servers.name_node import Fault, NameNode, library
from unit.fileio.hdfs.test_file_io import LOST
from unit.table.write import test_paused_operations as paused

import tidelake
from tidelake.errors import NotFoundError, OutcomeUnknownError, StorageError
from tidelake.fileio import _optional
from tidelake.fileio.hdfs import HdfsFileIO, HdfsSettings
from tidelake.fileio.location import parse_location
from tidelake.sql import SqlSession, execute, parse
from tidelake.telemetry import Env

HOSTS = itertools.count(1)


@pytest.fixture
def nodes(monkeypatch):
    """Name nodes by their URLs; one comes into being when it is asked."""
    found: dict[str, NameNode] = {}
    monkeypatch.setattr(
        _optional,
        "hdfs_native",
        lambda: library(lambda url: found.setdefault(url, NameNode())),
    )
    return found


@pytest.fixture
def filled(nodes):
    """What makes name nodes with one table of four commits."""

    def on(node):
        host = f"host{next(HOSTS)}:1"
        nodes[f"hdfs://{host}"] = node
        location = parse_location(f"hdfs://{host}/w")
        return HdfsFileIO(location, HdfsSettings(), Env.seeded(next(HOSTS)))

    first = NameNode()
    paused.fill(on(first))
    return lambda: on(first.copy())


def rows(table):
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def test_a_table_lives_on_hdfs(nodes):
    catalog = tidelake.open("hdfs://nn:8020/house")
    t = catalog.create_table(
        "db.t",
        paused.COLUMNS,
        primary_keys=["k"],
        options={"bucket": "2", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"},
    )
    for i in range(5):
        t.write([{"k": 1, "v": f"a{i}"}, {"k": i, "v": "b"}])
    t.delete("k = 2")
    t.compact(full=True)
    t.maintenance.expire_snapshots()
    t.tags.create("one")
    assert rows(t) == [(0, "b"), (1, "a4"), (3, "b"), (4, "b")]
    catalog.rename_table("db.t", "other.u")
    t = catalog.table("other.u")
    t.write([{"k": 9, "v": "z"}])
    t.rollback_to("one")
    assert rows(t) == [(0, "b"), (1, "a4"), (3, "b"), (4, "b")]
    check_table(catalog.fileio, "/house/other.db/u")
    assert not [path for path in nodes["hdfs://nn:8020"].nodes if "held" in path or ".tmp" in path]
    catalog.drop_table("other.u")
    catalog.drop_database("other")
    catalog.drop_database("db")
    left = [path for path, data in nodes["hdfs://nn:8020"].nodes.items() if data is not None]
    assert left == []


def test_statements_reach_hdfs_by_catalog_and_by_path(nodes, tmp_path):
    session = SqlSession(tidelake.open(tmp_path))

    def sql(text):
        return [execute(statement, session) for statement in parse(text)][-1]

    sql(
        "CREATE CATALOG h WITH ('type' = 'paimon', 'warehouse' = 'hdfs://nn:8020/w',"
        " 'hadoop.dfs.replication' = '2')"
    )
    sql("USE CATALOG h; CREATE DATABASE d; USE d")
    sql("CREATE TABLE t (k BIGINT PRIMARY KEY NOT ENFORCED, v STRING)")
    session.catalogs["h"].table("d.t").write([{"k": 1, "v": "a"}])
    assert nodes["hdfs://nn:8020"].nodes["/w/d.db/t/snapshot/snapshot-1"]
    sql(
        "CREATE TEMPORARY TABLE p (k BIGINT PRIMARY KEY NOT ENFORCED, v STRING) WITH ("
        "'connector' = 'paimon', 'path' = 'hdfs://other/of/path', 'auto-create' = 'true')"
    )
    session.temporary["p"].open().write([{"k": 3, "v": "c"}])
    assert nodes["hdfs://other:8020"].nodes["/of/path/snapshot/snapshot-1"]
    sql("ALTER TABLE t RENAME TO u")
    assert rows(session.catalogs["h"].table("d.u")) == [(1, "a")]


def test_a_catalog_in_a_database_keeps_tables_on_hdfs(nodes, tmp_path):
    """They are renamed there, which no object store can."""
    options = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": "hdfs://nn/w"}
    catalog = tidelake.open(catalog=options)
    catalog.create_table("db.t", paused.COLUMNS, primary_keys=["k"]).write([{"k": 1, "v": "a"}])
    catalog.rename_table("db.t", "db.u")
    again = tidelake.open(catalog=options)
    assert (again.list_tables("db"), rows(again.table("db.u"))) == (["u"], [(1, "a")])
    catalog.drop_table("db.u")
    left = [path for path, data in nodes["hdfs://nn:8020"].nodes.items() if data is not None]
    assert left == []


def test_iceberg_metadata_beside_a_table_names_its_files_on_hdfs(nodes):
    t = tidelake.open("hdfs://nn/w").create_table(
        "db.t", paused.COLUMNS, options={"metadata.iceberg.storage": "table-location"}
    )
    t.write([{"k": 1, "v": "a"}])
    files = nodes["hdfs://nn:8020"].nodes
    [path] = [path for path in files if path.endswith(".metadata.json")]
    told = json.loads(files[path])
    assert told["location"] == "hdfs://nn/w/db.db/t"
    assert told["snapshots"][0]["manifest-list"].startswith("hdfs://nn/w/db.db/t/metadata/")


# ---- at every call of a commit


@pytest.mark.parametrize("call", ["rename", "create", "close", "mkdirs", "delete"])
@pytest.mark.parametrize("fault", ["lost", "effect", "again"])
def test_a_commit_whose_calls_are_not_answered_is_there_once(nodes, filled, call, fault):
    for number in range(1, 99):
        files = filled()
        node = nodes[f"hdfs://{files._location.authority}"]
        table = paused.opened(files)
        more = {"lost": {"before": LOST}, "effect": {"after": LOST}, "again": {"again": True}}
        node.fault_at(Fault(call, **more[fault]), number)
        said = "done"
        try:
            table.write([{"k": 9, "v": "mine"}], commit_user="w", commit_identifier=1)
        except OutcomeUnknownError:
            said = "unknown"
        except (StorageError, tidelake.AlreadyExistsError, NotFoundError):
            said = "failed"
        found = 9 in paused.keys(paused.opened(files))
        assert found or said != "done", number
        assert not found or said != "failed", number
        paused.opened(files).write([{"k": 9, "v": "mine"}], commit_user="w", commit_identifier=1)
        check_table(files, "/w/db.db/t")
        snapshots = paused.opened(files).system_table("snapshots").to_arrow().to_pylist()
        ours = [s["commit_kind"] for s in snapshots if s["commit_user"] == "w"]
        assert ours.count("APPEND") == 1, number
        if node.has_pending:  # the write makes fewer calls of that name
            break
    assert number > 1


# ---- a drop, and another table of the name; a rename


@pytest.mark.parametrize("what", ["write", "expire", "rollback", "tag"])
def test_what_is_slow_in_a_dropped_table_changes_nothing_in_the_next(filled, what):
    """As elsewhere; but after a put nobody knows whether the table was dropped or renamed."""
    expected, refused = [100, 101], 0
    for moment in paused.moments(filled, paused.OPERATIONS[what], paused.create_anew(2)):
        files, where = moment.files, f"{what}, {moment.where}"
        table = paused.opened(files)
        assert paused.keys(table) == expected, f"{where}: {paused.keys(table)}"
        assert table.latest_snapshot_id == 2, where
        assert sorted(table.handle.tags.names()) == ["t1"], where
        refused += moment.error is not None
        table.write([{"k": 500, "w": 1, "v": 1}])
        assert paused.keys(paused.opened(files)) == [*expected, 500], where
        check_table(files, "/w/db.db/t")
        paused.check_hints(files, where)
    assert refused >= 2


def test_a_write_beside_a_rename_is_in_the_table_or_refused(filled):
    outcomes = set()

    def rename(files):
        paused.catalog_on(files).rename_table("db.t", "db.u")

    for moment in paused.moments(filled, paused.write, rename):
        files, where = moment.files, moment.where
        found = 9 in paused.keys(paused.catalog_on(files).table("db.u"))
        outcomes.add(("written" if moment.error is None else type(moment.error).__name__, found))
        unknown = isinstance(moment.error, OutcomeUnknownError)
        assert not found or moment.error is None or unknown, f"{where}: {moment.error!r}"
        assert found or moment.error is not None, where
        check_table(files, "/w/db.db/u")
        assert paused.catalog_on(files).list_tables("db") == ["u"], where
    assert ("OutcomeUnknownError", True) in outcomes
    assert ("written", True) in outcomes
