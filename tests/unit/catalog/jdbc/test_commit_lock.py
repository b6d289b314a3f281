"""``commit.lock`` = ``catalog``: commits under the catalog's lock on a store without conditions."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest
from servers.object_map import ObjectMap, Page

import tidelake
from tidelake.catalog.jdbc.lock import HeldLock, TableLock
from tidelake.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
)
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import ObjectStoreFileIO, parse_settings
from tidelake.telemetry import Env

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
LOCKS = "paimon_distributed_locks"
LOCK_ID = "mine.db.t"


@pytest.fixture(params=["ignored", "refused"])
def store(request, s3):
    """A store without conditional writes: it ignores the condition, or refuses it."""
    s3.conditions = request.param
    return s3


@pytest.fixture
def ignoring(s3):
    s3.conditions = "ignored"
    return s3


def opened(place, s3, **more):
    options = {**place.options, **s3.storage(), "commit.lock": "catalog"}
    options["lock-check-max-sleep"] = "5 ms"
    return tidelake.open("s3://lake/house", catalog={**options, **more})


def made(catalog):
    options = {"bucket": "1", "write-only": "true"}
    return catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)


def keys(table):
    return sorted(row["k"] for row in table.to_arrow().to_pylist())


def test_such_a_store_is_refused_without_the_word(sqlite_place, store):
    with pytest.raises(StorageRefusedError, match=r"'commit\.lock' = 'catalog'.*no safer") as said:
        made(opened(sqlite_place, store, **{"commit.lock": "none"}))
    assert said.value.kind == "store_not_safe"
    assert store.listing() == []


def test_the_life_of_a_table_under_the_lock(sqlite_place, store):
    catalog = opened(sqlite_place, store)
    table = made(catalog)
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
    table.add_column("n", "INT")
    table.tags.create("whole")
    table.compact(full=True)
    table.delete("k = 1")
    table.rollback_to(tag="whole")
    table.write([{"k": 3, "v": "b", "n": 1}])
    found = pickle.loads(pickle.dumps(catalog.table("db.t")))
    assert keys(found) == [1, 2, 3]
    found.write([{"k": 4, "v": "c", "n": 1}])
    assert keys(table) == [1, 2, 3, 4]
    assert sqlite_place.run(f"SELECT * FROM {LOCKS}") == []
    without = opened(sqlite_place, store, **{"commit.lock": "none"})
    assert keys(without.table("db.t")) == [1, 2, 3, 4]  # reading needs no lock
    with pytest.raises(StorageRefusedError, match="no conditional writes"):
        without.table("db.t").write([{"k": 5, "v": "c", "n": 1}])
    catalog.drop_table("db.t")
    assert store.listing("house/db.db/t") == []


def test_no_commit_of_several_writers_is_lost(sqlite_place, ignoring):
    made(opened(sqlite_place, ignoring))
    tables = [opened(sqlite_place, ignoring).table("db.t") for _ in range(3)]

    def write(of):
        for number in range(4):
            tables[of].write([{"k": of * 10 + number, "v": "a"}])

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    expected = sorted(of * 10 + number for of in range(3) for number in range(4))
    assert keys(tables[0]) == expected
    assert tables[0].latest_snapshot_id == len(expected)


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("lost", {}),
        ("drop", {}),
        ("dup", {}),
        ("status", {"status": 503}),
        ("status_after", {"status": 500}),
        ("status", {"status": 409, "code": "ConditionalRequestConflict"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_a_commit_that_meets_a_fault_is_made_once(sqlite_place, ignoring, mode, more):
    table = made(opened(sqlite_place, ignoring))
    table.write([{"k": 1, "v": "a"}])
    ignoring.fault(mode, "PUT", "snapshot-2", **more)
    table.write([{"k": 2, "v": "a"}])
    ignoring.settle()
    assert (keys(table), table.latest_snapshot_id) == ([1, 2], 2)


def stealing(monkeypatch, place, when):
    """Another removes the lock's row, as if it were too old, before the nth look at it."""
    original, looked = HeldLock.is_held, []

    def is_held(self):
        looked.append(self.lock_id)
        if len(looked) == when:
            place.run(f"DELETE FROM {LOCKS} WHERE lock_id = ?", self.lock_id)
        return original(self)

    monkeypatch.setattr(HeldLock, "is_held", is_held)
    return looked


def test_a_lock_that_is_lost_before_the_put_ends_the_commit(sqlite_place, ignoring, monkeypatch):
    table = made(opened(sqlite_place, ignoring))
    table.write([{"k": 1, "v": "a"}])
    with monkeypatch.context() as patched:
        assert stealing(patched, sqlite_place, 1) == []
        with pytest.raises(StorageRefusedError, match="lock was lost before") as said:
            table.write([{"k": 2, "v": "a"}])
    assert said.value.kind == "catalog_lock"
    assert table.latest_snapshot_id == 1
    assert [key for key in ignoring.listing("house/db.db/t") if key.endswith("snapshot-2")] == []
    table.write([{"k": 3, "v": "a"}])
    assert keys(table) == [1, 3]


def test_a_lock_that_is_lost_during_the_put_leaves_the_outcome_unknown(
    sqlite_place, ignoring, monkeypatch
):
    table = made(opened(sqlite_place, ignoring))
    with monkeypatch.context() as patched:
        assert stealing(patched, sqlite_place, 2) == []
        with pytest.raises(OutcomeUnknownError, match="may write over it"):
            table.write([{"k": 1, "v": "a"}], commit_user="me", commit_identifier=1)
    assert keys(table) == [1]  # nobody did, and no file was deleted
    again = table.write([{"k": 1, "v": "a"}], commit_user="me", commit_identifier=1)
    assert table.latest_snapshot_id == 1, again


def test_a_lock_that_is_too_old_counts_as_lost(sqlite_place, ignoring, monkeypatch):
    table = made(opened(sqlite_place, ignoring, **{"lock-acquire-timeout": "60 s"}))
    acquire = TableLock._acquire

    def slow(self, *of):
        acquired_at, acquired_ms = acquire(self, *of)
        return acquired_at, acquired_ms - 60_000  # a holder that was stopped for so long

    with monkeypatch.context() as patched:
        patched.setattr(TableLock, "_acquire", slow)
        with pytest.raises(StorageRefusedError, match="lock was lost before"):
            table.write([{"k": 1, "v": "a"}])
    assert table.latest_snapshot_id is None
    table.write([{"k": 2, "v": "a"}])
    assert keys(table) == [2]


def test_a_database_that_fails_under_the_lock_is_told_apart(sqlite_place, ignoring, monkeypatch):
    table = made(opened(sqlite_place, ignoring))
    for when, expected in ((1, StorageRefusedError), (2, OutcomeUnknownError)):
        looked = []

        def is_held(self, looked=looked, when=when):
            looked.append(1)
            if len(looked) < when:
                return True
            message = "The catalog's database is away."
            raise StorageError(message)

        with monkeypatch.context() as patched:
            patched.setattr(HeldLock, "is_held", is_held)
            with pytest.raises(expected):
                table.write([{"k": when, "v": "a"}])
    assert keys(table) == [2]


def test_what_a_killed_holder_leaves_is_taken_over_when_it_is_old(sqlite_place, ignoring):
    table = made(opened(sqlite_place, ignoring))
    left = f"INSERT INTO {LOCKS} (lock_id, acquired_at, expire_time_seconds) VALUES (?, ?, ?)"
    sqlite_place.run(left, LOCK_ID, "2020-01-01 00:00:00", 480)
    table.write([{"k": 1, "v": "a"}])
    assert keys(table) == [1]
    sqlite_place.run(left, LOCK_ID, "2099-01-01 00:00:00", 480)
    waiting = opened(sqlite_place, ignoring, **{"lock-acquire-timeout": "0 ms"}).table("db.t")
    with pytest.raises(StorageRefusedError, match="is locked in the catalog"):
        waiting.write([{"k": 2, "v": "a"}])
    assert (keys(table), table.latest_snapshot_id) == ([1], 1)


def test_a_commit_that_may_still_come_keeps_others_waiting(sqlite_place, ignoring):
    """Its snapshot comes after all reads said absent: nobody may have written there meanwhile."""
    table = made(opened(sqlite_place, ignoring))
    table.write([{"k": 1, "v": "a"}])
    ignoring.fault("defer", "PUT", "snapshot-2", count=99, after=10_000)
    with pytest.raises(OutcomeUnknownError, match="lock is not given back"):
        table.write([{"k": 2, "v": "a"}])
    waiting = opened(sqlite_place, ignoring, **{"lock-acquire-timeout": "0 ms"}).table("db.t")
    with pytest.raises(StorageRefusedError, match="is locked in the catalog"):
        waiting.write([{"k": 3, "v": "a"}])
    ignoring.forget()  # it comes
    assert (keys(table), table.latest_snapshot_id) == ([1, 2], 2)
    sqlite_place.run(f"UPDATE {LOCKS} SET acquired_at = '2020-01-01 00:00:00'")
    table.write([{"k": 3, "v": "a"}])
    assert keys(table) == [1, 2, 3]


def test_an_alteration_that_may_still_come_does_not_wait_for_its_own_lock(sqlite_place, ignoring):
    table = made(opened(sqlite_place, ignoring, **{"lock-acquire-timeout": "1 s"}))
    table.write([{"k": 1, "v": "a"}])
    fault = ignoring.fault("defer", "PUT", "schema-1", count=99, after=10_000)
    with pytest.raises(OutcomeUnknownError, match=r"whether schema 1 of table 'db\.t'") as said:
        table.add_column("n", "INT")
    assert (said.value.kind, fault.seen) == ("alter_unknown", 4)
    ignoring.forget()  # it comes
    assert "n" in opened(sqlite_place, ignoring).table("db.t").to_arrow().column_names


def test_another_that_does_not_wait_for_the_lock_is_noticed(sqlite_place, ignoring, monkeypatch):
    """Its object is read back in place of ours: the commit has lost, and is made on top of it."""
    catalog = opened(sqlite_place, ignoring)
    table, other = made(catalog), catalog.table("db.t")
    held = TableLock.held
    rude = threading.local()

    @contextmanager
    def sometimes(self, name):
        if getattr(rude, "now", False):
            yield HeldLock(self, "none", "", 1 << 60)
            return
        with held(self, name) as lock:
            yield lock

    original = HeldLock.is_held

    def is_held(self):
        return self.lock_id == "none" or original(self)

    monkeypatch.setattr(TableLock, "held", sometimes)
    monkeypatch.setattr(HeldLock, "is_held", is_held)
    put = ObjectStoreFileIO._put_shared
    raced = []

    def beside(self, path, data, **more):
        if path.endswith("snapshot-1") and not raced:
            raced.append(path)
            found = put(self, path, data, **more)
            rude.now = True
            # as a writer that had looked before ours was there
            ignoring.bucket().delete(path[1:])
            other.write([{"k": 2, "v": "theirs"}])
            rude.now = False
            return found
        return put(self, path, data, **more)

    monkeypatch.setattr(ObjectStoreFileIO, "_put_shared", beside)
    table.write([{"k": 1, "v": "ours"}])
    assert keys(table) == [1, 2]


def test_conditions_are_used_where_the_store_has_them(sqlite_place, s3):
    table = made(opened(sqlite_place, s3))
    table.write([{"k": 1, "v": "a"}])
    puts = [r for r in s3.requests if r.method == "PUT" and r.target.endswith("/snapshot-1")]
    assert [r.condition for r in puts] == ["if-none-match=*"]


def test_a_lock_that_is_switched_off_and_an_unknown_word_are_refused(sqlite_place, s3):
    with pytest.raises(InvalidInputError, match="needs the lock"):
        opened(sqlite_place, s3, **{"lock.enabled": "false"})
    with pytest.raises(InvalidInputError, match=r"commit\.lock"):
        opened(sqlite_place, s3, **{"commit.lock": "maybe"})


def test_a_place_that_lists_nothing_is_refused_under_a_lock_too(ignoring, monkeypatch):
    class NoLock:
        def hold(self, path):
            raise AssertionError(path)

    settings = parse_settings("s3", ignoring.storage())
    files = ObjectStoreFileIO(parse_location("s3://lake/w"), settings, Env.seeded(1))
    monkeypatch.setattr(ObjectMap, "page", lambda *_: Page([], [], None))
    with pytest.raises(StorageRefusedError, match=r"not in the listing\. Use another store"):
        files.with_put_lock(NoLock()).put_if_absent("/w/a", b"1")
