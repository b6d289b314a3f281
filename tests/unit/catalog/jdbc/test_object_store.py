"""A JDBC catalog whose tables lie in an object store: rows in a database, files by requests."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.catalog.dropped_directories import DroppedDirectories
from tidelake.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio.object_store import ObjectStoreFileIO

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
ROW = {"k": 1, "v": "a"}


@pytest.fixture
def catalog(sqlite_place, s3):
    options = {**sqlite_place.options, **s3.storage()}
    return tidelake.open("s3://lake/house", catalog=options)


def test_the_life_of_a_table(sqlite_place, s3, catalog):
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"})
    table.write([ROW, {"k": 2, "v": "a"}])
    table.write([{"k": 2, "v": "b"}])
    table.delete("k = 1")
    table.add_column("n", "INT")
    again = tidelake.open("s3a://lake/house", catalog={**sqlite_place.options, **s3.storage()})
    assert again.table("db.t").to_arrow().to_pylist() == [{"k": 2, "v": "b", "n": None}]
    assert sqlite_place.rows("paimon_tables") == [("db", "t")]
    location = ("db", "location", "s3://lake/house/db.db")
    assert location in sqlite_place.rows("paimon_database_properties")
    assert sqlite_place.run("SELECT * FROM paimon_distributed_locks") == []
    again.drop_table("db.t")
    assert catalog.list_tables("db") == []
    assert s3.listing("house/db.db/t") == []
    with pytest.raises(NotFoundError):
        table.write([ROW])
    catalog.create_table("db.t", SCHEMA).write([ROW])
    catalog.drop_database("db", cascade=True)
    assert (catalog.list_databases(), s3.listing("house/db.db")) == ([], [])


def test_a_rename_is_refused_and_changes_nothing(sqlite_place, s3, catalog):
    catalog.create_table("db.t", SCHEMA).write([ROW])
    before = (sqlite_place.rows("paimon_database_properties"), s3.listing())
    for target in ("db.u", "other.u"):
        with pytest.raises(UnsupportedError, match="cannot be renamed") as refused:
            catalog.rename_table("db.t", target)
        assert refused.value.kind == "no_atomic_move"
    assert (sqlite_place.rows("paimon_database_properties"), s3.listing()) == before
    assert sqlite_place.rows("paimon_tables") == [("db", "t")]
    assert catalog.table("db.t").to_arrow().to_pylist() == [ROW]


def test_nobody_creates_a_table_while_its_files_are_deleted(sqlite_place, s3, catalog, monkeypatch):
    catalog.create_table("db.t", SCHEMA).write([ROW])
    other = tidelake.open("s3://lake/house", catalog={**sqlite_place.options, **s3.storage()})
    delete_dir, told = ObjectStoreFileIO.delete_dir, []

    def then(self, path):
        delete_dir(self, path)
        if path.endswith("/schema"):
            with pytest.raises(TidelakeError) as refused:
                other.create_table("db.t", SCHEMA)
            told.append(refused.value.kind)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStoreFileIO, "delete_dir", then)
        catalog.drop_table("db.t")
    assert told == ["table_exists"]
    assert (other.list_tables("db"), s3.listing("house/db.db/t")) == ([], [])
    other.create_table("db.t", SCHEMA).write([ROW])
    assert other.table("db.t").count() == 1


@pytest.mark.parametrize("locks", ["true", "false"])
def test_a_slow_drop_deletes_no_table_that_is_made_after_a_faster_one(
    sqlite_place, s3, monkeypatch, locks
):
    """Neither its files nor its row; the lock of a drop that is slow may be lost."""
    options = {**sqlite_place.options, **s3.storage(), "lock.enabled": locks}
    catalog, other = (tidelake.open("s3://lake/house", catalog=options) for _ in range(2))
    catalog.create_table("db.t", SCHEMA).write([ROW])
    list_dir, told = ObjectStoreFileIO.list_dir, []

    def then(self, path):
        listed = list_dir(self, path)
        if path.endswith("/db.db/t") and not told:
            told.append("once")
            other.drop_table("db.t")
            with pytest.raises(TidelakeError) as refused:
                other.create_table("db.t", SCHEMA)
            told.append(refused.value.kind)
        return listed

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStoreFileIO, "list_dir", then)
        catalog.drop_table("db.t")
    assert told == ["once", "table_remains"]
    assert s3.listing("house/.tidelake-staging") == []
    other.create_table("db.t", SCHEMA).write([ROW])
    assert catalog.table("db.t").count() == 1


@pytest.mark.parametrize("is_at_end", [False, True])
def test_a_drop_that_slept_for_hours_deletes_no_new_table(
    sqlite_place, s3, catalog, monkeypatch, is_at_end
):
    """Neither before its last file is deleted, nor before its row is."""
    catalog.create_table("db.t", SCHEMA).write([ROW])
    exists, done = ObjectStoreFileIO.exists, []

    def then(self, path, **given):
        is_time = not (is_at_end and s3.listing("house/db.db/t"))
        if path.endswith("-dropping") and is_time and not done:
            done.append(path)
            self.delete(path)  # as another drop does that takes it for a killed one's
            catalog.drop_table("db.t")
            catalog.create_table("db.t", pa.schema({"k": pa.int64()})).write([{"k": 7}])
        return exists(self, path, **given)

    monkeypatch.setattr(ObjectStoreFileIO, "exists", then)
    catalog.drop_table("db.t")
    assert len(done) == 1
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"k": 7}]
    assert sqlite_place.rows("paimon_tables") == [("db", "t")]
    assert s3.listing("house/.tidelake-staging") == []


def test_a_drop_that_begins_after_a_creator_looked_lists_no_table(sqlite_place, s3, catalog):
    """And an interrupted one is finished by the next, although nothing else is left of it."""
    sign = "/house/.tidelake-staging/db.db.t-11111111-1111-1111-1111-111111111111-dropping"
    files, looks, look = catalog.metastore.fileio, [], DroppedDirectories.is_dropping
    catalog.create_database("db")

    def is_dropping(self, path):
        looks.append(path)
        if len(looks) == 2:
            files.write_once(sign, b"")
        return look(self, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DroppedDirectories, "is_dropping", is_dropping)
        with pytest.raises(tidelake.AlreadyExistsError) as refused:
            catalog.create_table("db.t", SCHEMA)
    assert refused.value.kind == "table_remains"
    assert (sqlite_place.rows("paimon_tables"), s3.listing("house/db.db/t")) == ([], [])
    files.write_once(f"{sign}-ended", b"")
    catalog.drop_table("db.t")
    assert s3.listing("house/.tidelake-staging") == []
    assert catalog.create_table("db.t", SCHEMA).count() == 0


def test_a_table_that_is_made_while_an_empty_database_is_dropped_stays(catalog, monkeypatch):
    catalog.create_database("db")
    exists, made = ObjectStoreFileIO.exists, []

    def then(self, path, **given):
        if path.endswith("/db.db") and not made:
            made.append("db.t")
            catalog.create_table("db.t", SCHEMA).write([ROW])
        return exists(self, path, **given)

    monkeypatch.setattr(ObjectStoreFileIO, "exists", then)
    with pytest.raises(InvalidInputError, match="holds 1 tables"):
        catalog.drop_database("db")
    assert (made, catalog.list_databases()) == (["db.t"], ["db"])
    assert catalog.table("db.t").to_arrow().to_pylist() == [ROW]


def test_a_late_commit_to_a_dropped_table_is_no_snapshot_of_the_new_one(s3, catalog):
    """The database knows the table's name, the files decide about its snapshots."""
    old = catalog.create_table("db.t", SCHEMA)
    s3.fault("defer", "PUT", "snapshot-1", after=1_000_000)
    old.write([ROW])
    catalog.drop_table("db.t")
    new = catalog.create_table("db.t", SCHEMA, options={"commit.max-retries": "0"})
    s3.settle()
    assert new.to_arrow().num_rows == 0
    with pytest.raises(ConflictError) as blocked:
        new.write([ROW])
    assert blocked.value.kind == "snapshot_of_dropped_table"
