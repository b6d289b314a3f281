"""A warehouse in an object store: everything that a table does, over the S3 of the tests."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake
from tidelake.catalog.dropped_directories import DroppedDirectories
from tidelake.catalog.staging import staged_table
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError, UnsupportedError
from tidelake.fileio.object_store import ObjectStoreFileIO
from tidelake.fileio.object_store.file_io import DIRECTORY_MARKER
from tidelake.sql import SqlSession, execute, parse

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
SECRET = "tide-secret-a1b2c3"


@pytest.fixture
def catalog(s3):
    return tidelake.open("s3://lake/house", storage=s3.storage())


def rows(table, **selection):
    return sorted(tuple(row.values()) for row in table.to_arrow(**selection).to_pylist())


def batch(*pairs):
    return [{"k": k, "v": v} for k, v in pairs]


def test_a_primary_key_table_lives_in_a_bucket(s3, catalog):
    t = catalog.create_table(
        "db.t",
        SCHEMA,
        primary_keys=["k"],
        options={
            "bucket": "2",
            "changelog-producer": "lookup",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "3",
        },
    )
    for i in range(4):
        t.write(batch((1, f"a{i}"), (i, "b")))
    t.delete("k = 2")
    t.compact(full=True)
    assert rows(t) == [(0, "b"), (1, "a3"), (3, "b")]
    assert t.get(1) == {"k": 1, "v": "a3"}
    newest = t.latest_snapshot_id
    changes = t.changes(newest - 1, newest, mode="changelog")
    assert changes.schema.names[1:] == ["k", "v"]
    t.maintenance.expire_snapshots()
    assert len(t.system_table("snapshots").to_arrow()) <= 3
    assert rows(tidelake.open("s3a://lake/house", storage=s3.storage()).table("db.t")) == rows(t)
    assert all(key.startswith("house/db.db/t/") for key in s3.listing() if "/t/" in key)


def test_an_append_table_with_partitions_and_deletes(catalog):
    schema = pa.schema([("p", pa.string()), ("n", pa.int64())])
    t = catalog.create_table(
        "db.a", schema, partition_keys=["p"], options={"deletion-vectors.enabled": "true"}
    )
    t.write([{"p": "x/y", "n": 1}, {"p": "ü z", "n": 2}, {"p": "x/y", "n": 3}])
    t.delete("n = 1")
    assert rows(t) == [("x/y", 3), ("ü z", 2)]
    t.tags.create("one")
    t.write([{"p": "x/y", "n": 9}])
    t.rollback_to("one")
    assert rows(t) == [("x/y", 3), ("ü z", 2)]


def test_a_warehouse_may_be_a_whole_bucket(s3):
    catalog = tidelake.open("s3://lake", storage=s3.storage())
    catalog.create_table("db.t", SCHEMA).write(batch((1, "a")))
    assert (catalog.uri, catalog.table("db.t").handle.uri) == ("s3://lake", "s3://lake/db.db/t")
    assert rows(tidelake.open("s3://lake/", storage=s3.storage()).table("db.t")) == [(1, "a")]
    assert {key.partition("/")[0] for key in s3.listing()} == {"db.db"}
    catalog.drop_table("db.t")
    catalog.drop_database("db")
    assert s3.listing() == []


def test_a_replacement_is_refused_before_its_rows_are_written(s3, catalog):
    catalog.create_table("db.t", SCHEMA).write(batch((1, "a")))
    before = s3.listing()
    with pytest.raises(UnsupportedError, match="cannot be made beside its place") as caught:
        staged_table(catalog, "db.t", SCHEMA)
    assert (caught.value.kind, s3.listing()) == ("replace_table", before)


def test_databases_show_while_they_are_empty_and_are_dropped(s3, catalog):
    catalog.create_database("empty")
    assert catalog.list_databases() == ["empty"]
    assert catalog.list_tables("empty") == []
    catalog.drop_database("empty")
    assert (catalog.list_databases(), s3.listing()) == ([], [])


def test_a_drop_hides_the_table_first_and_its_snapshots_go_last(s3, catalog):
    t = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    t.write(batch((1, "a")))
    deletes = s3.count("POST", "?delete")
    s3.fault("status", "POST", "?delete", nth=2, count=99, status=403, code="AccessDenied")
    with pytest.raises(tidelake.StorageError):
        catalog.drop_table("db.t")
    assert s3.count("POST", "?delete") > deletes
    assert not catalog.table_exists("db.t")
    with pytest.raises(tidelake.AlreadyExistsError, match="interrupted"):
        catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    s3.forget()
    catalog.drop_table("db.t")
    assert s3.listing("house/db.db/t/") == []
    catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})


def test_a_table_is_not_renamed(catalog):
    t = catalog.create_table("db.t", SCHEMA)
    t.write(batch((1, "a")))
    with pytest.raises(UnsupportedError, match=r"s3://lake/house/db\.db/t cannot be renamed"):
        catalog.rename_table("db.t", "db.u")
    assert rows(catalog.table("db.t")) == [(1, "a")]


def test_the_catalog_shows_its_uri_and_no_secret(s3, catalog):
    catalog.create_table("db.t", SCHEMA).write(batch((1, "a")))
    assert repr(catalog) == "Catalog('s3://lake/house')"
    shown = [
        repr(catalog),
        catalog._repr_html_(),
        str(catalog.table("sys.catalog_options").to_arrow()),
    ]
    assert "s3://lake/house" in shown[2]
    assert not [text for text in shown if SECRET in text]
    sent = pickle.dumps(catalog)
    assert SECRET.encode() not in sent
    assert rows(pickle.loads(sent).table("db.t")) == [(1, "a")]


def test_a_bucket_or_key_that_is_wrong(s3):
    with pytest.raises(InvalidInputError, match=r"Did you mean 's3.access-key'"):
        tidelake.open("s3://lake/house", storage={"s3.acces-key": "x"})
    with pytest.raises(tidelake.StorageError, match=r"s3://none at http://127.*does not exist"):
        tidelake.open("s3://none/house", storage=s3.storage()).list_databases()
    with pytest.raises(InvalidInputError, match="unknown storage"):
        tidelake.open("s5://lake/house")
    with pytest.raises(InvalidInputError, match="local files need none"):
        tidelake.open("/tmp/house", storage={"endpoint": "x"})


def sql(session, text):
    return [execute(statement, session) for statement in parse(text)]


def test_statements_reach_a_store_by_catalog_and_by_path(s3, tmp_path):
    session = SqlSession(tidelake.open(tmp_path))
    keys = ", ".join(f"'{key}' = '{value}'" for key, value in s3.storage().items())
    sql(session, f"CREATE CATALOG c WITH ('type' = 'paimon', 'warehouse' = 's3://lake/w', {keys})")
    sql(session, "USE CATALOG c; CREATE DATABASE d; USE d")
    sql(session, "CREATE TABLE t (k BIGINT PRIMARY KEY NOT ENFORCED, v STRING)")
    session.catalogs["c"].table("d.t").write(batch((1, "a"), (2, "b")))
    sql(
        session,
        "CREATE TEMPORARY TABLE p (k BIGINT PRIMARY KEY NOT ENFORCED, v STRING) WITH ("
        f"'connector' = 'paimon', 'path' = 's3://lake/of/path', 'auto-create' = 'true', {keys})",
    )
    session.temporary["p"].open().write(batch((3, "c")))
    assert any(key.startswith("of/path/snapshot/") for key in s3.listing())
    sql(
        session,
        "CREATE TEMPORARY TABLE q WITH ('connector' = 'paimon', 'path' = 's3://lake/w/d.db/t')",
    )
    assert rows(session.temporary["q"].open()) == [(1, "a"), (2, "b")]
    assert SECRET not in str(sql(session, "SHOW CATALOGS"))


def test_the_code_of_the_page_runs(s3):
    page = (Path(__file__).parents[3] / "docs" / "storage.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(block.replace("https://minio.example:9000", s3.url), names)
    assert repr(names["catalog"]) == "Catalog('s3://lake/house')"


def test_a_missing_table_is_missing(catalog):
    with pytest.raises(NotFoundError):
        catalog.table("db.none")


def after_schema(monkeypatch, act):
    """Do something once, right after the schema of a table that is dropped was deleted."""
    delete_dir, done = ObjectStoreFileIO.delete_dir, []

    def then(self, path):
        delete_dir(self, path)
        if path.endswith("/schema") and not done:
            done.append(path)
            act()

    monkeypatch.setattr(ObjectStoreFileIO, "delete_dir", then)


def made_beside(s3):
    """Another process that makes the table; what it was told."""
    other, told = tidelake.open("s3://lake/house", storage=s3.storage()), []

    def make():
        try:
            other.create_table("db.t", SCHEMA).write(batch((7, "new")))
        except TidelakeError as error:
            told.append(error.kind)

    return make, told


@pytest.mark.parametrize("is_late", [False, True])
def test_a_table_that_is_made_while_it_is_dropped_loses_nothing(s3, catalog, monkeypatch, is_late):
    """Its creator is told, also if it had looked before the drop began."""
    catalog.create_table("db.t", SCHEMA)
    make, told = made_beside(s3)
    if is_late:
        looks, look = [], DroppedDirectories.is_dropping

        def is_dropping(self, path):
            looks.append(path)
            return len(looks) > 1 and look(self, path)

        monkeypatch.setattr(DroppedDirectories, "is_dropping", is_dropping)
    after_schema(monkeypatch, make)
    catalog.drop_table("db.t")
    assert told == ["table_remains"]
    assert catalog.list_tables("db") == []
    assert s3.listing("house/db.db/t") == s3.listing("house/.tidelake-staging") == []
    make()
    assert rows(catalog.table("db.t")) == [(7, "new")]


def test_a_drop_that_dies_in_the_middle_is_finished_by_the_next(s3, catalog, monkeypatch):
    catalog.create_table("db.t", SCHEMA)

    def die():
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        after_schema(patched, die)
        with pytest.raises(KeyboardInterrupt):
            catalog.drop_table("db.t")
    make, told = made_beside(s3)
    make()
    assert told == ["table_remains"]
    catalog.drop_table("db.t", if_missing="ignore")
    assert s3.listing("house/.tidelake-staging") == []
    make()
    assert rows(catalog.table("db.t")) == [(7, "new")]


SIGN = "house/.tidelake-staging/db.db.t-11111111-1111-1111-1111-111111111111-dropping"


def after_listing(monkeypatch, act):
    """Do something once, right after a drop listed the directory of its table."""
    list_dir, done = ObjectStoreFileIO.list_dir, []

    def then(self, path):
        listed = list_dir(self, path)
        if path.endswith("/db.db/t") and not done:
            done.append(path)
            act()
        return listed

    monkeypatch.setattr(ObjectStoreFileIO, "list_dir", then)


def age_signs(s3):
    """Let the signs of drops be two hours old."""
    objects = s3.bucket()
    for key in s3.listing("house/.tidelake-staging"):
        found = objects.get(key)
        objects.put(key, found.data, found.modified_s - 7200, found.metadata)


def dropped_by_another(s3):
    tidelake.open("s3://lake/house", storage=s3.storage()).drop_table("db.t", if_missing="ignore")


def test_a_slow_drop_keeps_its_sign_when_another_drop_ends_before_it(s3, catalog, monkeypatch):
    """What is created after the faster one would be deleted by the slower one."""
    catalog.create_table("db.t", SCHEMA).write(batch((1, "old")))
    make, told = made_beside(s3)

    def drop_and_make():
        dropped_by_another(s3)
        make()

    after_listing(monkeypatch, drop_and_make)
    catalog.drop_table("db.t")
    assert told == ["table_remains"]
    assert s3.listing("house/.tidelake-staging") == []
    make()
    assert rows(catalog.table("db.t")) == [(7, "new")]


def test_a_drop_that_slept_for_hours_deletes_nothing_new(s3, catalog, monkeypatch):
    """Another took its sign for one of a killed drop."""
    catalog.create_table("db.t", SCHEMA).write(batch((1, "old")))
    make, told = made_beside(s3)

    def sleep():
        age_signs(s3)
        dropped_by_another(s3)
        make()

    after_listing(monkeypatch, sleep)
    catalog.drop_table("db.t")
    assert told == []
    assert rows(catalog.table("db.t")) == [(7, "new")]


def test_the_sign_of_a_killed_drop_goes_with_the_first_drop_an_hour_later(s3, catalog):
    catalog.create_table("db.t", SCHEMA)
    catalog.metastore.fileio.write_once(f"/{SIGN}", b"")
    catalog.drop_table("db.t")
    make, told = made_beside(s3)
    make()
    dropped_by_another(s3)
    make()
    assert told == ["table_remains", "table_remains"]
    assert s3.listing("house/.tidelake-staging") == [SIGN]
    age_signs(s3)
    dropped_by_another(s3)
    make()
    assert rows(catalog.table("db.t")) == [(7, "new")]


@pytest.mark.parametrize("sees_sign", [False, True])
def test_a_creator_beside_a_drop_leaves_the_table_of_the_next(s3, catalog, monkeypatch, sees_sign):
    """It put its schema and looked for signs; then the drop ended and another made the table."""
    files, looks, look = catalog.metastore.fileio, [], DroppedDirectories.is_dropping
    catalog.create_database("db")
    make, told = made_beside(s3)

    def is_dropping(self, path):
        looks.append(path)
        if len(looks) != 2:
            return look(self, path)
        files.write_once(f"/{SIGN}", b"")
        found = look(self, path)
        files.delete_dir(path)
        files.delete(f"/{SIGN}")
        make()
        return found and sees_sign

    monkeypatch.setattr(DroppedDirectories, "is_dropping", is_dropping)
    with pytest.raises(tidelake.AlreadyExistsError) as refused:
        catalog.create_table("db.t", pa.schema([("mine", pa.int64())]))
    assert (refused.value.kind, told) == ("table_exists", [])
    assert rows(catalog.table("db.t")) == [(7, "new")]
    assert s3.listing("house/.tidelake-staging") == []


def test_nobody_creates_a_table_while_a_creator_takes_its_schema_back(s3, catalog, monkeypatch):
    """Between its last look at the schema and the delete another could put one there."""
    files, looks, look = catalog.metastore.fileio, [], DroppedDirectories.is_dropping
    delete = ObjectStoreFileIO.delete
    catalog.create_database("db")
    make, told = made_beside(s3)

    def is_dropping(self, path):
        looks.append(path)
        if len(looks) == 2:
            files.write_once(f"/{SIGN}", b"")
        return look(self, path)

    def deleted_late(self, path, **given):
        if path.endswith("/schema-0"):
            delete(files, f"/{SIGN}")
            delete(files, path)
            make()
        return delete(self, path, **given)

    monkeypatch.setattr(DroppedDirectories, "is_dropping", is_dropping)
    monkeypatch.setattr(ObjectStoreFileIO, "delete", deleted_late)
    with pytest.raises(tidelake.AlreadyExistsError) as refused:
        catalog.create_table("db.t", SCHEMA)
    assert (refused.value.kind, told) == ("table_remains", ["table_remains"])
    monkeypatch.undo()
    make()
    assert rows(catalog.table("db.t")) == [(7, "new")]


def test_a_creator_that_is_refused_leaves_the_sign_of_a_drop_that_failed(s3, catalog, monkeypatch):
    """That drop's files are still there."""
    files, looks, look = catalog.metastore.fileio, [], DroppedDirectories.is_dropping
    catalog.create_database("db")
    files.write_once("/house/db.db/t/bucket-0/data-1.parquet", b"x")

    def is_dropping(self, path):
        looks.append(path)
        if len(looks) == 2:
            files.write_once(f"/{SIGN}", b"")
            files.write_once(f"/{SIGN}-ended", b"")
        return look(self, path)

    monkeypatch.setattr(DroppedDirectories, "is_dropping", is_dropping)
    for _ in range(2):
        with pytest.raises(tidelake.AlreadyExistsError, match="drop was interrupted"):
            catalog.create_table("db.t", SCHEMA)
    catalog.drop_table("db.t")
    assert catalog.create_table("db.t", SCHEMA).count() == 0
    assert s3.listing("house/.tidelake-staging") == []


def before_move(monkeypatch, act):
    """Do something once, after a drop looked for tables in a database."""
    move = DroppedDirectories.move

    def then(self, path):
        act()
        return move(self, path)

    monkeypatch.setattr(DroppedDirectories, "move", then)


def before_marker_goes(monkeypatch, act):
    """Do something right before the marker of a database is deleted."""
    delete = ObjectStoreFileIO.delete

    def then(self, path, **given):
        if path.endswith(DIRECTORY_MARKER):
            act()
        return delete(self, path, **given)

    monkeypatch.setattr(ObjectStoreFileIO, "delete", then)


def test_a_table_that_is_made_while_an_empty_database_is_dropped_stays(s3, catalog, monkeypatch):
    catalog.create_database("db")
    make, told = made_beside(s3)
    with monkeypatch.context() as patched:
        before_move(patched, make)
        with pytest.raises(InvalidInputError, match="holds 1 tables"):
            catalog.drop_database("db")
    assert rows(catalog.table("db.t")) == [(7, "new")]
    catalog.drop_table("db.t")
    before_marker_goes(monkeypatch, make)
    catalog.drop_database("db")
    assert rows(catalog.table("db.t")) == [(7, "new")]
    assert (told, catalog.list_databases()) == ([], ["db"])


def test_what_late_writers_left_goes_with_an_empty_database(s3, catalog):
    catalog.create_database("db")
    for name in ("t/bucket-0/data-1.parquet", "note.txt"):
        catalog.metastore.fileio.write_once(f"/house/db.db/{name}", b"x")
    catalog.drop_database("db")
    assert s3.listing() == []
