"""The life of tables in a REST catalog, and what happens if the server's answers are lost."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from servers.rest_catalog import TOKEN, RestCatalogServer

import tidelake
from tidelake.errors import (
    AlreadyExistsError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio import secret
from tidelake.maintenance import call
from tidelake.sql import SqlSession, execute, parse
from tidelake.telemetry import Env

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})


@pytest.fixture
def server(tmp_path):
    with RestCatalogServer(tmp_path) as started:
        yield started


@pytest.fixture
def catalog(server):
    return tidelake.open(catalog=server.options(), env=Env.seeded(1))


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})


def rows_of(table, **moment):
    rows = table.to_arrow(**moment).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_the_life_of_a_table(server, catalog, table):
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    table.write([{"k": 2, "v": "b"}])
    table.compact(full=True)
    table.tags.create("whole")
    table.write([{"k": 3, "v": "c"}], mode="overwrite")
    table.alter(tidelake.AddColumn("n", pa.int32(), default="7"), tidelake.RenameColumn("v", "w"))
    table.write([{"k": 4, "w": "d"}])
    found = catalog.table("db.t")
    assert rows_of(found) == [(3, "c", None), (4, "d", 7)]
    assert rows_of(found, snapshot_id=1) == [(1, "a"), (2, "a")]
    assert rows_of(found, tag="whole") == [(1, "a"), (2, "b")]
    table.rollback_to(tag="whole")
    assert server.tables["db", "t"].newest.id == table.latest_snapshot_id == 3
    catalog.table("db.t").write([{"k": 5, "w": "e", "n": 1}])
    renamed = catalog.rename_table("db.t", "other.u")
    assert rows_of(renamed) == [(1, "a", None), (2, "b", None), (5, "e", 1)]
    renamed.write([{"k": 1, "w": "z", "n": None}])
    assert catalog.list_tables("db") == []
    again = catalog.create_table("db.t", COLUMNS)
    again.write([{"k": 1, "v": "new"}])
    assert rows_of(catalog.table("db.t")) == [(1, "new")]
    assert renamed.count() == 3
    catalog.drop_table("other.u")
    with pytest.raises(NotFoundError, match="There is none yet"):
        catalog.table("other.u")
    catalog.drop_database("other")
    assert catalog.list_databases() == ["db"]
    assert all(request.count("/v1/") == 1 for request in server.requests)


def test_a_writer_of_a_dropped_or_renamed_table_is_refused(catalog, table):
    table.write([{"k": 1, "v": "a"}])
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(NotFoundError, match="dropped or renamed"):
        table.write([{"k": 2, "v": "b"}])
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    with pytest.raises(NotFoundError):
        table.write([{"k": 2, "v": "b"}])
    assert rows_of(catalog.table("db.u")) == [(1, "a")]
    assert rows_of(catalog.table("db.t")) == []


def test_names_are_checked_and_suggested(server, catalog, table):
    with pytest.raises(NotFoundError, match="Did you mean 't'") as missing:
        catalog.table("db.tt")
    assert missing.value.kind == "table_not_found"
    with pytest.raises(NotFoundError, match="does not exist in lake at http"):
        catalog.table("dbx.t")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("db.t", COLUMNS)
    same = {"primary_keys": ["k"], "options": {"bucket": "1"}, "if_exists": "ignore"}
    assert catalog.create_table("db.t", COLUMNS, **same).identifier == "db.t"
    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        catalog.drop_database("db")
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("db.t", "db.t")
    server.forbidden.add("db.t")
    with pytest.raises(StorageRefusedError, match="403"):
        catalog.table("db.t")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda c: c.create_database("new"), "/databases"),
        (lambda c: c.create_table("db.new", COLUMNS, primary_keys=["k"]), "/tables"),
        (lambda c: c.rename_table("db.t", "db.u"), "/rename"),
        (lambda c: c.drop_table("db.t"), "/tables/t"),
        (lambda c: c.drop_database("db", cascade=True), "/databases/db"),
        (lambda c: c.table("db.t").alter(tidelake.AddColumn("n", pa.int32())), "/tables/t"),
        (lambda c: c.table("db.t").rollback_to(snapshot_id=1), "/rollback"),
    ],
)
@pytest.mark.parametrize("mode", ["lost", "status_after", "html_after", "drop"])
def test_a_change_whose_answer_is_lost_is_looked_up(server, catalog, table, change, path, mode):
    table.write([{"k": 1, "v": "a"}])
    table.write([{"k": 2, "v": "a"}])
    for method in ("POST", "DELETE"):
        server.fault(mode, method, path, nth=1)
    if mode != "drop":
        change(catalog)
        return
    before = (dict(server.databases), dict(server.tables))
    with pytest.raises(OutcomeUnknownError, match="unknown whether"):
        change(catalog)
    assert (server.databases, server.tables) == before
    change(catalog)  # nothing happened, so it can be done again


def test_a_storage_that_the_server_sees_and_we_do_not_is_named(server, catalog, table):
    server.tables["db", "t"].shown = "file:/elsewhere/t"
    with pytest.raises(CorruptError, match="sees the same storage"):
        catalog.table("db.t")
    server.tables["db", "t"].shown = "oss://bucket/t"
    with pytest.raises(UnsupportedError, match="oss://bucket/t"):
        catalog.table("db.t")


def test_a_definition_of_another_form_is_the_servers_error(server, catalog, table, monkeypatch):
    shown = server._shown
    for wrong in ({"schema": {"options": ["a"]}}, {"path": 7}, {"schema": ["a"]}):
        monkeypatch.setattr(server, "_shown", lambda *of, wrong=wrong: shown(*of) | wrong)
        with pytest.raises(CorruptError, match="another object than Paimon's"):
            catalog.table("db.t")


def test_sql_creates_a_rest_catalog(server, tmp_path):
    session = SqlSession(tidelake.open(tmp_path / "local"))
    for statement in (
        f"""
        CREATE CATALOG r WITH ('type' = 'paimon', 'metastore' = 'rest', 'uri' = '{server.url}',
            'warehouse' = 'lake', 'token.provider' = 'bear', 'token' = '{TOKEN}')
        """,
        """
        CREATE TABLE r.db.t (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED)
        WITH ('bucket' = '1')
        """,
        "ALTER TABLE r.db.t ADD n INT",
    ):
        execute(parse(statement)[0], session)
    table = session.catalogs["r"].table("db.t")
    assert table.table_schema.field_names == ("k", "v", "n")
    assert server.count("POST /v1/tide+lake/databases/db/tables/t") == 1


def test_what_a_rest_catalog_cannot_do_is_refused(server, catalog, table):
    with pytest.raises(UnsupportedError, match="replaced in one step"):
        catalog.metastore.put_in_place(("db", "t"), "/staged")
    with pytest.raises(UnsupportedError, match="DLF"):
        tidelake.open(catalog=server.options() | {"token.provider": "dlf"})
    with pytest.raises(InvalidInputError, match="Did you mean"):
        tidelake.open(catalog=server.options() | {"token.providr": "bear"})


def test_copies_have_the_token_where_secrets_come_along_and_not_in_their_bytes(
    server, catalog, table
):
    """As in a process of Spark's, to which a broadcast brings them."""
    server.defaults["header.X-Tenant"] = "seven"
    owner = tidelake.open(catalog=server.options() | {"header.X-Key": "header-hush"})
    sent = pickle.dumps((owner, owner.table("db.t")))
    assert TOKEN.encode() not in sent
    assert b"header-hush" not in sent
    copied, copied_table = pickle.loads(sent)
    copied_table.write([{"k": 1, "v": "a"}])
    assert rows_of(copied.table("db.t")) == rows_of(catalog.table("db.t")) == [(1, "a")]
    copied_table.alter(tidelake.AddColumn("n", pa.int32()))
    assert copied.table("db.t").table_schema.field_names == ("k", "v", "n")
    assert copied.metastore.client.settings.headers["X-Key"].reveal() == "header-hush"
    assert copied.uri == f"{server.url}/lake"
    again = pickle.loads(pickle.dumps(copied))
    assert again.metastore.client is copied.metastore.client, "copies share its connections"


def test_a_copy_without_the_token_reads_files_and_says_why_it_does_no_more(
    server, catalog, table, monkeypatch
):
    table.write([{"k": 1, "v": "a"}])
    sent = pickle.dumps((catalog, table))
    monkeypatch.setattr(secret, "_REGISTRY", {})  # another process, to which no secret came
    asked = len(server.requests)
    copied, copied_table = pickle.loads(sent)
    assert rows_of(copied_table) == [(1, "a")]
    for refused in (
        lambda: copied.table("db.t"),
        lambda: copied_table.write([{"k": 2, "v": "b"}]),
        lambda: copied_table.alter(tidelake.AddColumn("n", pa.int32())),
    ):
        with pytest.raises(StorageRefusedError, match="its token did not come along") as caught:
            refused()
        assert caught.value.kind == "catalog_elsewhere"
    assert len(server.requests) == asked
    onward = pickle.loads(pickle.dumps(copied))
    with pytest.raises(StorageRefusedError, match="did not come along"):
        onward.table("db.t")


def test_a_server_that_wants_no_token_is_asked_by_copies_anywhere(tmp_path, monkeypatch):
    with RestCatalogServer(tmp_path / "open", token=None) as server:
        catalog = tidelake.open(catalog=server.options())
        sent = pickle.dumps(catalog.create_table("db.t", COLUMNS))
        monkeypatch.setattr(secret, "_REGISTRY", {})
        pickle.loads(sent).write([{"k": 1, "v": "a"}])
        assert rows_of(catalog.table("db.t")) == [(1, "a")]


def test_options_are_shown_without_secrets(server, catalog):
    shown = str(catalog.table("sys.catalog_options").to_arrow().to_pylist())
    assert "'uri'" in shown
    assert server.url in shown
    assert TOKEN not in shown + repr(catalog) + catalog._repr_html_()


def test_secrets_that_the_server_configures_are_not_shown(server):
    keys = [
        *("s3.secret-key", "s3.access-key", "fs.oss.accessKeySecret", "fs.azure.account.key.a"),
        *("dlf.access_key_id", "my.password", "jdbc.token", "Authorization", "sas-key"),
    ]
    server.defaults |= {**dict.fromkeys(keys, "hidden"), "table-default.bucket": "2"}
    server.overrides |= {**dict.fromkeys(keys[::2], "hidden"), "data-token.enabled": "true"}
    catalog = tidelake.open(catalog=server.options())
    rows = catalog.table("sys.catalog_options").to_arrow().to_pylist()
    shown = {row["key"]: row["value"] for row in rows}
    assert shown["table-default.bucket"] == "2"
    assert shown["data-token.enabled"] == "true"
    assert not shown.keys() & set(keys)
    assert "hidden" not in str(shown)


def test_wrong_keys_of_a_storage_are_refused_before_the_first_table(server):
    keys = {"s3.endpoint": "https://minio:9000", "s3.secret-key": "hidden"}
    for given in ({"storage": keys}, {"catalog": server.options() | keys}):
        with pytest.raises(InvalidInputError, match="Give both") as raised:
            tidelake.open(**{"catalog": server.options(), **given})
        assert "hidden" not in str(raised.value)


def test_a_warehouse_within_a_database_of_another_is_refused(tmp_path):
    """The server does not say where its warehouse is, but where each table lies."""
    with RestCatalogServer(tmp_path / "out.db" / "inner") as server:
        inner = tidelake.open(catalog=server.options())
        server.make_database("d")
        with pytest.raises(InvalidInputError, match="a database of another warehouse") as refused:
            inner.create_table("d.t", COLUMNS)
        assert refused.value.kind == "warehouse_inside"
        assert inner.list_tables("d") == []


def test_a_database_that_holds_another_warehouse_is_not_dropped(server, catalog, table):
    outer = server.directory / "db.db"
    (outer / "other.db").mkdir()
    with pytest.raises(InvalidInputError, match=r"holds other\.db, a database of another"):
        catalog.drop_database("db", cascade=True)
    assert catalog.list_tables("db") == ["t"]
    (outer / "other.db").rmdir()
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == []


def test_the_server_is_told_that_a_partition_is_done(server, catalog):
    options = {"partition.mark-done-action": "mark-event", "metastore.partitioned-table": "true"}
    columns = pa.schema({"day": pa.string(), "k": pa.int64()})
    table = catalog.create_table("db.days", columns, partition_keys=["day"], options=options)
    table.write([{"day": "a b", "k": 1}, {"day": "c", "k": 2}])
    call(catalog, "mark_partition_done", ("db.days", "day=a b"), {})
    known = server.tables["db", "days"].partitions.values()
    assert {one["spec"]["day"]: one["done"] for one in known} == {"a b": True, "c": False}
    table.set_options({"metastore.partitioned-table": "false"})
    with pytest.raises(UnsupportedError, match=r"Set 'metastore\.partitioned-table' = 'true', or"):
        call(catalog, "mark_partition_done", ("db.days", "day=c"), {})
    table.set_options({"partition.mark-done-action": "done-partition"})
    with pytest.raises(UnsupportedError, match="'success-file', 'http-report' or 'mark-event'"):
        call(catalog, "mark_partition_done", ("db.days", "day=c"), {})
