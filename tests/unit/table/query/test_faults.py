"""A query beside a storage that fails: answers stay, and a later refresh goes on."""

from __future__ import annotations

import os
import resource

import pytest

import tidelake
from tidelake.errors import StorageError, TidelakeError
from tidelake.fileio import LocalFileIO
from tidelake.table.query import local_query
from tidelake.telemetry import Env
from tidelake.testing.faulty import FaultMode, FaultyFileIO

ROWS = 30


@pytest.fixture
def warehouse(tmp_path):
    table = tidelake.open(tmp_path / "w").create_table(
        "db.t",
        {"k": "INT", "v": "STRING"},
        primary_keys=["k"],
        options={"bucket": 2, "deletion-vectors.enabled": "true"},
    )
    table.write([{"k": k, "v": "old"} for k in range(ROWS)])
    return tmp_path / "w"


def opened(warehouse, plan=None):
    storage = FaultyFileIO(LocalFileIO(), plan or {})
    catalog = tidelake.open(str(warehouse), fileio=storage, env=Env.seeded(3))
    return storage, catalog.table("db.t")


def test_a_get_does_not_touch_the_storage(warehouse, lookup_dir):
    storage, table = opened(warehouse)
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    calls = len(storage.trace)
    assert query.get(3)["v"] == "old"
    assert query.get_many(list(range(ROWS + 9))).count(None) == 9
    assert len(storage.trace) == calls


def test_whichever_call_fails_the_old_answers_stay_and_the_next_refresh_goes_on(
    warehouse, lookup_dir
):
    """Every call of the second refresh fails in turn."""
    plain = tidelake.open(warehouse).table("db.t")
    plain.write([{"k": k, "v": "new"} for k in range(0, ROWS, 2)])
    storage, table = opened(warehouse)
    query = table.local_query(directory=lookup_dir / "counted")
    query.refresh(1)
    begin = len(storage.trace)
    query.refresh()
    end = len(storage.trace)
    assert query.get(4)["v"] == "new"
    assert end - begin > 5
    failed = 0
    for number in range(begin + 1, end + 1):
        storage, table = opened(warehouse, {number: FaultMode.EIO_BEFORE})
        query = table.local_query(directory=lookup_dir / str(number))
        assert query.refresh(1) == 1
        try:
            query.refresh()
        except TidelakeError:
            failed += 1
            assert (query.snapshot_id, query.get(4)["v"]) == (1, "old")
        assert query.refresh() == plain.latest_snapshot_id
        assert (query.get(4)["v"], query.get(5)["v"]) == ("new", "old")
    assert failed


def test_files_that_cannot_be_opened_for_lack_of_descriptors_stay(tmp_path, lookup_dir):
    table = tidelake.open(tmp_path / "w").create_table(
        "db.t", {"p": "INT", "k": "INT"}, primary_keys=["p", "k"], partition_keys=["p"],
        options={"bucket": "1"},
    )  # fmt: skip
    table.write([{"p": p, "k": 1} for p in range(40)])
    table.local_query(directory=lookup_dir).refresh()
    files = set(lookup_dir.rglob("*.lookup"))
    assert len(files) == 40
    local_query._CACHES.value.clear()  # as a process does that has just started
    open_count = len(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    query = table.local_query(directory=lookup_dir)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_count + 20, limits[1]))
    try:
        with pytest.raises(StorageError, match="ulimit -n"):
            query.refresh()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert set(lookup_dir.rglob("*.lookup")) == files
    query.refresh()
    assert query.stats.builds == 0
    assert len(os.listdir("/proc/self/fd")) <= open_count + 40 + 5, "one descriptor a file"
