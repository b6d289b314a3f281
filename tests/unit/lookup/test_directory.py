"""The directory of lookup files: made anew, and never taken from another user."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import tidelake
from tidelake.errors import StorageError, StorageRefusedError
from tidelake.lookup import LookupDirectory


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


@pytest.fixture
def table(catalog):
    made = catalog.create_table(
        "db.t", {"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "2"}
    )
    made.write([{"k": k, "v": 0} for k in range(50)])
    return made


@pytest.mark.parametrize("what", ["root", "table", "files"])
def test_a_query_goes_on_when_its_directory_is_removed(catalog, table, tmp_path, what):
    root = tmp_path / "lookup"
    query = table.local_query(directory=root)
    assert query.get(5) == {"k": 5, "v": 0}
    for value in (1, 2):
        for gone in {"root": [root], "table": root.iterdir(), "files": root.glob("*/*")}[what]:
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        table.write([{"k": k, "v": value} for k in range(50)])
        assert query.get(5) == {"k": 5, "v": value - 1}
        query.refresh()
        assert query.get(5) == {"k": 5, "v": value}
        assert catalog.table("db.t").local_query(directory=root).get(6) == {"k": 6, "v": value}
    assert list(root.rglob("*.lookup"))


def test_a_directory_that_another_made_and_a_cleaner_removed_is_made(table, tmp_path, monkeypatch):
    """Between the refusal of the name and the look at what has it."""
    place = LookupDirectory.of(table.handle.uri, tmp_path)
    mkdir, others = os.mkdir, [place.path]

    def beside_others(path, *given, **named):
        if others and os.fspath(path) == os.fspath(others[0]):
            others.pop()
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        return mkdir(path, *given, **named)

    monkeypatch.setattr(os, "mkdir", beside_others)
    assert table.local_query(directory=tmp_path).get(5) == {"k": 5, "v": 0}
    assert not others


def test_a_directory_that_cannot_be_made_is_named(table, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="another directory") as raised:
        table.local_query(directory=tmp_path / "file").get(1)
    assert raised.value.kind == "lookup_disk"


def test_a_directory_of_temporary_files_that_others_may_write_is_refused(
    table, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    place = LookupDirectory.of(table.handle.uri, None)
    query = table.local_query()
    assert query.get(1) == {"k": 1, "v": 0}
    assert place.own_root.parent == tmp_path / "gone"
    assert place.own_root.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(place.own_root)
    place.own_root.mkdir()
    os.chmod(place.own_root, 0o777)  # as another user could have put it there meanwhile
    table.write([{"k": 1, "v": 1}])
    with pytest.raises(StorageRefusedError, match="belongs to another user"):
        query.refresh()
    assert query.get(1) == {"k": 1, "v": 0}


def test_files_are_opened_beside_each_other(catalog, tmp_path):
    """Each one that is made looks at all that are open, also at those that go meanwhile."""
    table = catalog.create_table(
        "db.many", {"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": "128"}
    )
    rows = [{"k": k, "v": 0} for k in range(1_000)]
    table.write(rows)
    keys = [{"k": row["k"]} for row in rows]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            asked = [
                threads.submit(
                    lambda: table.local_query(directory=tmp_path / "lookup").get_many(keys)
                )
                for _ in range(8)
            ]
            assert all(a.result() == rows for a in asked)
    finally:
        sys.setswitchinterval(before)
