"""A JDBC catalog whose tables lie in an object store: rows in a database, files by requests."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import NotFoundError, TidelakeError, UnsupportedError
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
