"""Tables of a REST catalog in an object store, by keys that the server gives for a while."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from servers.rest_catalog import TOKEN, RestCatalogServer
from servers.s3 import KEY_ID
from unit.fileio.object_store.test_renewing import EndingAt

import tidelake
from tidelake.catalog.identifier import Identifier
from tidelake.catalog.rest.table_storages import TableStorages
from tidelake.errors import (
    InvalidInputError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio import secret
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.metadata.log.incarnation import OPENED_SCHEMA
from tidelake.telemetry import Env

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})


class KnownKeys:
    """The server's own key, and those that it gives."""

    def __contains__(self, key_id):
        return key_id == KEY_ID or key_id.startswith("key-")


@pytest.fixture
def server(s3):
    s3.key_ids = KnownKeys()
    fileio = open_storage(parse_location("s3://lake/house"), s3.storage(), Env.system())
    catalog = RestCatalogServer("/house", vends=True, fileio=fileio, shown_as="s3://lake")
    catalog.vends_sessions = True
    catalog.now_ms = Env.seeded(1).clock.now_ms()
    catalog.defaults |= {"s3.endpoint": s3.url, "s3.fast.upload": "true", "fs.oss.endpoint": "x"}
    with catalog as started:
        yield started


@pytest.fixture
def catalog(server):
    return tidelake.open(catalog=server.options(), env=Env.seeded(1))


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})


@pytest.fixture
def log(catalog):
    """A table whose writes are one commit each."""
    options = {"bucket": "1", "write-only": "true"}
    return catalog.create_table("db.log", COLUMNS, primary_keys=["k"], options=options)


def rows_of(table, **moment):
    return sorted(tuple(row.values()) for row in table.to_arrow(**moment).to_pylist())


def test_the_life_of_a_table_with_given_keys(s3, server, catalog, table):
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    table.write([{"k": 2, "v": "b"}])
    table.compact(full=True)
    table.delete("k = 1")
    table.alter(tidelake.AddColumn("n", pa.int32()))
    again = catalog.table("db.t")
    again.tags.create("whole")
    again.write([{"k": 3, "v": "c", "n": 1}], mode="overwrite")
    assert rows_of(again) == [(3, "c", 1)]
    assert rows_of(again, tag="whole") == [(2, "b")]
    assert rows_of(again, snapshot_id=1) == [(1, "a"), (2, "a")]
    assert server.count("/token") == 1
    assert {request.key_id for request in s3.requests} == {KEY_ID, "key-1"}
    catalog.drop_table("db.t")
    assert s3.listing("house/db.db/t") == []
    catalog.create_table("db.t", COLUMNS).write([{"k": 1, "v": "new"}])
    assert rows_of(catalog.table("db.t")) == [(1, "new")]
    assert server.count("/token") == 2  # another table, though of the same name


def test_keys_are_renewed_before_they_end(s3, server, catalog, table):
    clock = catalog.env.clock
    table.write([{"k": 1, "v": "a"}])
    clock.sleep_ms(server.token_life_ms * 0.9)
    server.now_ms = clock.now_ms()
    s3.requests.clear()
    table.write([{"k": 2, "v": "b"}])
    assert {request.key_id for request in s3.requests} == {KEY_ID, "key-2"}


def test_keys_may_end_at_each_request_of_a_commit(s3, log):
    expected, nth = [], 0
    while True:
        nth += 1
        s3.expired_tokens = EndingAt(nth)
        log.write([{"k": nth, "v": "a"}])
        expected.append((nth, "a"))
        if not s3.expired_tokens.ended:
            break
    assert nth > 5
    assert rows_of(log) == expected
    assert log.latest_snapshot_id == nth


def test_where_no_new_keys_are_given_the_outcome_is_known(s3, server, log):
    """Keys end at each request of a commit in turn, and the server gives no others."""
    log.write([{"k": 0, "v": "a"}])
    expected, refused, ends = [(0, "a")], [], {""}
    while ends:
        before = server.tables["db", "log"].newest.id
        s3.expired_tokens = EndingAt(len(refused) + 1)
        fault = server.fault("status", "GET", "/token", status=403, count=1000)
        try:
            log.write([{"k": len(refused) + 1, "v": "a"}])
        except StorageRefusedError as error:
            refused.append(error)
            assert server.tables["db", "log"].newest.id == before
        else:
            expected.append((len(refused) + 1, "a"))
        fault.count = 0
        ends = s3.expired_tokens.ended
        s3.expired_tokens = set(ends)
        assert rows_of(log) == expected
    assert len(refused) > 3
    for error in refused:
        assert error.kind == "credentials"
        assert "403" in str(error)
        assert "secret-" not in str(error) + repr(error.__cause__)


def test_snapshots_with_and_without_the_mark_of_a_store_are_the_tables(s3, catalog, log):
    """The server's carry none; those of a catalog of the files do."""
    log.write([{"k": 1, "v": "a"}])
    assert log.handle.snapshots.load(1).properties is None
    log.alter(tidelake.AddColumn("n", pa.int32()))
    of_files = tidelake.open("s3://lake/house", storage=s3.storage()).table("db.log")
    assert of_files.latest_snapshot_id == 1
    of_files.write([{"k": 2, "v": "b", "n": 2}])
    assert of_files.handle.snapshots.load(2).properties[OPENED_SCHEMA].startswith("1@")
    for table in (log, catalog.table("db.log"), of_files):  # one was opened with schema 0
        assert table.latest_snapshot_id == 2
        assert table.handle.snapshots.ids() == [1, 2]
    assert rows_of(of_files) == [(1, "a", None), (2, "b", 2)]


def test_keys_are_in_no_message_display_or_copy(s3, server, catalog, table):
    table.write([{"k": 1, "v": "a"}])
    sent = pickle.dumps(table)
    assert b"secret-1" not in sent
    assert b"session-1" not in sent
    assert rows_of(pickle.loads(sent)) == [(1, "a")]
    fileio = catalog.metastore.load_table(Identifier("db", "t")).fileio
    shown = repr(table) + repr(fileio) + repr(catalog)
    shown += str(catalog.table("sys.catalog_options").to_arrow().to_pylist())
    s3.fault("status", "GET", "house", status=403, code="secret-1 session-1", count=99)
    with pytest.raises(StorageError) as refused:
        table.to_arrow()
    assert "secret-1" not in shown + str(refused.value) + repr(refused.value.__cause__)


def test_keys_that_end_in_a_long_job_are_renewed_in_the_process_of_its_tasks(
    s3, server, catalog, table, monkeypatch
):
    table.write([{"k": 1, "v": "a"}])
    sent = pickle.dumps(table)
    token = secret.SentSecrets({"token": TOKEN}).number
    kept = {token: {"token": TOKEN}}
    monkeypatch.setattr(secret, "_REGISTRY", kept)  # as where a broadcast brought the token alone
    server.token_life_ms = 10 * server.token_life_ms
    task = pickle.loads(sent)
    assert rows_of(task) == [(1, "a")]
    s3.expired_tokens = {"session-1", "session-2"}
    assert rows_of(task) == [(1, "a")]
    assert rows_of(pickle.loads(sent)) == [(1, "a")], "the next task, of an old pickle"
    assert server.count("/token") == 3
    kept.clear()
    s3.expired_tokens |= {"session-3"}
    lost = pickle.loads(sent)
    with pytest.raises(StorageRefusedError) as refused:
        lost.to_arrow()
    assert refused.value.kind == "credentials"
    assert "its token did not come along" in str(refused.value)


def test_a_copy_without_the_storages_options_arrives_and_names_the_catalog(
    catalog, server, monkeypatch
):
    given = {"s3.secret-key": "hush"}
    storages = TableStorages(catalog.metastore.client, given, env=Env.seeded(1))
    sent = pickle.dumps(storages)
    assert b"hush" not in sent
    assert pickle.loads(sent)._options() == given
    monkeypatch.setattr(secret, "_REGISTRY", {})  # another process, to which no secret came
    copied = pickle.loads(pickle.dumps(pickle.loads(sent)))  # and further
    with pytest.raises(StorageRefusedError, match=f"catalog 'lake' at {server.url} was") as refused:
        copied("s3://lake/house/db.db/t", None)
    assert refused.value.kind == "catalog_elsewhere"


def test_a_renamed_table_gives_no_keys_under_its_old_name(s3, server, catalog, table):
    table.write([{"k": 1, "v": "a"}])
    renamed = catalog.rename_table("db.t", "db.u")
    s3.expired_tokens = {"session-1"}
    assert rows_of(renamed) == [(1, "a")]
    with pytest.raises(StorageRefusedError, match="dropped or renamed"):
        table.to_arrow()


def test_keys_of_ones_own_where_the_server_gives_none(s3, server):
    del server.overrides["data-token.enabled"]
    server.overrides["s3.endpoint"] = s3.url
    keys = {"s3.access-key": KEY_ID, "s3.secret-key": "own-secret", "s3.endpoint": "http://127.9:1"}
    for given in ({"storage": keys}, {"catalog": server.options() | keys}):
        catalog = tidelake.open(**{"catalog": server.options(), **given})
        table = catalog.create_table(f"db.t{len(given)}{len(server.tables)}", COLUMNS)
        table.write([{"k": 1, "v": "a"}])
        assert rows_of(table) == [(1, "a")]
        shown = str(catalog.table("sys.catalog_options").to_arrow().to_pylist())
        assert "own-secret" not in shown + repr(catalog) + repr(catalog.metastore)
    assert server.count("/token") == 0


def test_what_cannot_be_opened_is_refused(server, catalog, table):
    entry = server.tables["db", "t"]
    entry.shown = "az://lake/house/db.db/t"
    with pytest.raises(UnsupportedError, match=r"keys for az://lake.* those of S3 and GCS"):
        catalog.table("db.t")
    entry.shown = "gs://lake/house/db.db/t"
    with pytest.raises(UnsupportedError, match=r"s3.access-key.* reads those of GCS"):
        catalog.table("db.t")
    entry.shown = "oss://lake/house/db.db/t"
    with pytest.raises(UnsupportedError, match=r"oss://lake/house.*not known"):
        catalog.table("db.t")
    with pytest.raises(InvalidInputError, match=r"'s3\.acess-key' is unknown.*Did you mean"):
        tidelake.open(catalog=server.options(), storage={"s3.acess-key": "k"})


def test_a_token_of_gcs_is_used_renewed_and_not_shown(s3):
    keys = {"gs.endpoint": s3.url, "gcs.access-token": "owner"}
    files = open_storage(parse_location("gs://lake/house"), keys, Env.system())
    server = RestCatalogServer("/house", vends=True, fileio=files, shown_as="gs://lake")
    server.now_ms = Env.seeded(1).clock.now_ms()
    server.defaults["gs.endpoint"] = s3.url
    with server:
        catalog = tidelake.open(catalog=server.options(), env=Env.seeded(1))
        table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
        table.write([{"k": 1, "v": "a"}])
        assert {request.key_id for request in s3.requests} == {"owner", "oauth-1"}
        s3.expired_tokens = {"oauth-1"}
        table.write([{"k": 2, "v": "a"}])
        sent = pickle.dumps(table)
        assert b"oauth-" not in sent
        s3.expired_tokens = {"oauth-1", "oauth-2"}
        assert rows_of(pickle.loads(sent)) == rows_of(table) == [(1, "a"), (2, "a")]
        s3.fault("status", "GET", "house", status=403, code="oauth-4", count=99)
        with pytest.raises(StorageError) as refused:
            table.to_arrow()
        assert "oauth-4" not in str(refused.value) + repr(refused.value.__cause__)


def test_keys_as_pypaimon_spells_them(s3, server, catalog, monkeypatch):
    def keys(number):
        return {
            "fs.s3.accessKeyId": f"key-{number}",
            "fs.s3.accessKeySecret": f"secret-{number}",
            "fs.s3.securityToken": f"session-{number}",
            "fs.s3.region": "us-east-1",
        }

    monkeypatch.setattr(server, "keys", keys)
    table = catalog.create_table("db.t", COLUMNS)
    table.write([{"k": 1, "v": "a"}])
    assert rows_of(table) == [(1, "a")]
    assert {request.key_id for request in s3.requests} == {KEY_ID, "key-1"}
