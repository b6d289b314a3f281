"""Tables on a remote storage: the same answers as on a local one, in few rounds of requests."""

from __future__ import annotations

import pickle
import threading
import time

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import LocalFileIO, MemoryFileIO
from tidelake.telemetry import Env, ManualClock
from tidelake.testing import DelayedFileIO

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])


@pytest.fixture(scope="module")
def stored():
    """A table of 30 commits whose merges read several runs, and one to append to."""
    files = MemoryFileIO()
    catalog = tidelake.open("/w", fileio=files)
    options = {"bucket": "2", "write-only": "true"}
    keyed = catalog.create_table("db.k", SCHEMA, primary_keys=["k"], options=options)
    for number in range(30):
        keyed.write([{"k": k, "v": number, "s": f"{k}"} for k in range(number, number + 40)])
    appended = catalog.create_table("db.a", SCHEMA, options={"write-only": "true"})
    for number in range(20):
        appended.write([{"k": number, "v": 2 * number, "s": None}])
    return files


class Waves(ManualClock):
    """Lets all requests end together when no new one has begun for a while.

    A while is a number of looks, not of seconds: where other processes have the cores, who looks
    waits as long as the thread whose request is late.
    """

    def __init__(self):
        super().__init__()
        self._lock = threading.Lock()
        self._wave = self._begun = 0

    def sleep_ms(self, duration_ms):
        with self._lock:
            self._begun += 1
            own, seen, looks = self._wave, self._begun, 0
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                if self._wave != own:
                    return  # the first that saw it quiet ended the wave for all
                looks = looks + 1 if self._begun == seen else 0
                seen = self._begun
                if looks == QUIET_LOOKS:
                    self._wave += 1
                    return


def remote(files, *, clock=None, **env):
    delayed = DelayedFileIO(files, delay_ms=0, clock=clock)
    catalog = tidelake.open("/w", fileio=delayed, **env)
    return delayed, catalog


LOOK_SECONDS, QUIET_LOOKS = 0.005, 8


def counted(delayed, work):
    delayed.reset()
    found = work()
    return found, delayed.counts


def test_a_first_plan_reads_its_files_side_by_side(stored):
    files, catalog = remote(stored, clock=Waves())
    table = catalog.table("db.k")
    plan, counts = counted(files, table.plan)
    assert plan.files_read == 60
    assert counts.requests > 35  # a manifest for each commit
    assert counts.rounds <= 12
    again, counts = counted(files, table.plan)
    assert again.files_read == 60
    assert counts.rounds <= 8


def test_rows_are_those_of_the_local_table(stored):
    local = tidelake.open("/w", fileio=stored)
    _, catalog = remote(stored)
    for name in ("db.k", "db.a"):
        expected = local.table(name).to_arrow().sort_by("k")
        assert catalog.table(name).to_arrow().sort_by("k").equals(expected)
        where = "k > 7 and k < 30"
        expected = local.table(name).to_arrow(where=where, columns=["v", "k"]).sort_by("k")
        found = catalog.table(name).to_arrow(where=where, columns=["v", "k"])
        assert found.sort_by("k").equals(expected)


def test_runs_of_a_merge_are_opened_at_once(stored):
    files, catalog = remote(stored, clock=Waves())
    table = catalog.table("db.k")
    table.plan()
    rows, counts = counted(files, table.to_arrow)
    assert rows.num_rows == 69
    assert counts.requests > 60
    # the newest snapshot and the schema, then the files: each is small and one request
    assert counts.rounds <= 12


def test_files_of_a_split_are_opened_at_once(stored):
    files, catalog = remote(stored, clock=Waves())
    table = catalog.table("db.a")
    table.plan()
    rows, counts = counted(files, table.to_arrow)
    assert rows.num_rows == 20
    assert counts.requests > 20
    assert counts.rounds <= 12


def test_little_memory_gives_the_same_rows_with_fewer_files_at_once(stored):
    files, catalog = remote(stored, memory="64 mb")
    table = catalog.table("db.k")
    assert sorted(table.to_arrow().column("k").to_pylist()) == list(range(69))
    assert files.counts.in_flight_max <= 64


def test_without_threads_every_request_waits_for_the_one_before(stored):
    files = DelayedFileIO(stored, delay_ms=0)
    table = tidelake.open("/w", fileio=files, env=Env.seeded(3)).table("db.k")
    assert table.to_arrow().num_rows == 69
    assert files.counts.in_flight_max == 1


def test_a_table_on_a_remote_storage_travels_to_executors(tmp_path):
    files = DelayedFileIO(LocalFileIO(), delay_ms=0)
    table = tidelake.open(tmp_path, fileio=files).create_table("db.a", SCHEMA)
    table.write([{"k": 1, "v": 2, "s": None}])
    assert pickle.loads(pickle.dumps(table)).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("begins", "error"), [("manifest-", CorruptError), ("data-", CorruptError)]
)
def test_a_file_that_shrank_is_named(stored, begins, error):
    damaged = MemoryFileIO()
    for path in _paths(stored, "/w"):
        data = stored.read_bytes(path)
        name = path.rpartition("/")[2]
        cut = name.startswith(begins) and "list" not in name
        damaged.write_once(path, data[:-20] if cut else data)
    _, catalog = remote(damaged)
    with pytest.raises(CorruptError, match=rf"/{begins}"):
        catalog.table("db.a").to_arrow()


def test_a_missing_manifest_is_not_found_by_its_path(stored):
    lacking = MemoryFileIO()
    for path in _paths(stored, "/w/db.db/a"):
        lacking.write_once(path, stored.read_bytes(path))
    gone = sorted(p for p in _paths(lacking, "/w/db.db/a/manifest") if "list" not in p)[3]
    lacking.delete(gone)
    _, catalog = remote(lacking)
    with pytest.raises(NotFoundError, match=gone):
        catalog.table("db.a").plan()


def test_the_newest_snapshot_is_found_from_a_hint_that_is_behind(stored):
    files = MemoryFileIO()
    for path in _paths(stored, "/w/db.db/a"):
        files.write_once(path, stored.read_bytes(path))
    for hint in ("1", "7", "18", "20", "21", "99", "x"):
        files.replace("/w/db.db/a/snapshot/LATEST", hint.encode())
        _, catalog = remote(files)
        table = catalog.table("db.a")
        assert table.latest_snapshot_id == 20
        assert table.handle.snapshots.latest().id == 20
        assert table.plan().files_read == 20


def _paths(files, directory):
    for status in files.list_dir(directory):
        path = f"{directory}/{status.name}"
        if status.is_dir:
            yield from _paths(files, path)
        else:
            yield path
