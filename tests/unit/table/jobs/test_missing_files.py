"""Files that are lost: which ones, what is left, and whom the removal gives way to."""

from __future__ import annotations

import os

import pytest
from proving.fsck import check_table

import tidelake
from tidelake.errors import ConflictError, NotFoundError, StorageError
from tidelake.maintenance import call
from tidelake.table.jobs import missing_files

KINDS = {
    "appended": ({}, ()),
    "appended, marked": ({"deletion-vectors.enabled": "true"}, ()),
    "in buckets": ({"bucket": "2", "bucket-key": "k"}, ()),
    "keyed": ({"bucket": "1", "write-only": "true"}, ("k",)),
    "keyed, marked": ({"bucket": "1", "deletion-vectors.enabled": "true"}, ("k",)),
    "dynamic": ({"write-only": "true"}, ("k",)),
}


def lost(table, count=1):
    """Delete some data files of the newest snapshot; the rows of the rest."""
    found = [
        table.paths.data_file(split.partition, split.bucket, file)
        for split in table.plan().splits
        for file in split.files
    ]
    for path in sorted(found)[:count]:
        os.remove(path)
    return sorted(found)[:count]


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path)


def made(catalog, kind):
    options, keys = KINDS[kind]
    table = catalog.create_table(
        "db.t", {"k": "INT", "v": "INT"}, primary_keys=keys, options=options
    )
    for number in range(3):
        table.write([{"k": k, "v": number} for k in range(number * 10, number * 10 + 10)])
    table.delete("k in (3, 14)")
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_the_rest_can_be_read_and_written(catalog, kind):
    table = made(catalog, kind)
    before = table.to_arrow().num_rows
    paths = lost(table)
    with pytest.raises(NotFoundError):
        table.to_arrow()
    dry = table.maintenance.remove_missing_files(dry_run=True)
    assert (list(dry.paths), dry.snapshot_id) == (paths, None)
    newest = table.latest_snapshot_id
    done = table.maintenance.remove_missing_files()
    assert list(done.paths) == paths
    assert done.snapshot_id == newest + 1
    assert done.rows_count > 0
    assert table.history()["commit_kind"].to_pylist()[-1] == "OVERWRITE"
    # a lost file may have held the deletes, so that keys come back
    assert table.to_arrow().num_rows <= (before if not table.primary_keys else 30)
    check_table(table.fileio, table.location, newest_only=True)
    table.write([{"k": 99, "v": 9}])
    assert table.count(where="k = 99") == 1
    table.compact(full=True)
    assert table.maintenance.remove_missing_files().paths == ()
    assert table.latest_snapshot_id > done.snapshot_id


def test_a_whole_directory_may_be_gone(catalog):
    table = catalog.create_table("db.t", {"p": "INT", "k": "INT"}, partition_keys=["p"])
    table.write([{"p": p, "k": k} for p in (1, 2) for k in range(3)])
    directory = table.paths.bucket_dir(table.plan(where="p = 1").splits[0].partition, 0)
    for name in os.listdir(directory):
        os.remove(f"{directory}/{name}")
    os.rmdir(directory)
    assert call(catalog, "remove_unexisting_files", ("db.t", True)).num_rows == 1
    (path,) = call(catalog, "sys.remove_unexisting_files", ("db.t",))["fileName"].to_pylist()
    assert path.startswith(directory)
    assert table.to_arrow()["p"].to_pylist() == [2, 2, 2]


def test_a_file_that_others_replaced_meanwhile_is_a_conflict(catalog, monkeypatch):
    table = made(catalog, "appended")
    lost(table)
    messages = missing_files._messages

    def overtaken(*args):
        table.overwrite([{"k": 1, "v": 1}])
        return messages(*args)

    monkeypatch.setattr(missing_files, "_messages", overtaken)
    with pytest.raises(ConflictError):
        table.maintenance.remove_missing_files()
    assert table.count() == 1


def test_an_error_of_a_listing_is_no_missing_file(tmp_path, catalog):
    table = made(catalog, "appended")
    fileio = Unlisted(table.fileio)
    again = tidelake.open(tmp_path, fileio=fileio).table("db.t")
    with pytest.raises(StorageError):
        again.maintenance.remove_missing_files()
    assert table.count() == 28


class Unlisted:
    """A storage whose directories of buckets cannot be listed."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def list_dir(self, path):
        if "bucket-" in path:
            raise StorageError("no answer", kind="timeout")
        return self._inner.list_dir(path)


def test_an_empty_table_misses_nothing(catalog):
    table = catalog.create_table("db.e", {"k": "INT"})
    assert table.maintenance.remove_missing_files().paths == ()
