"""A delete of a name that is used again: nothing of it comes later, whatever the wire does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from servers.s3 import S3Server

import tidelake
from tidelake.errors import StorageError
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import ObjectStoreFileIO, parse_settings, reused_name
from tidelake.telemetry import Env
from tidelake.telemetry.env import SystemClock

NAME = "/house/db.db/t/snapshot/snapshot-2"
KEY = NAME[1:]
UNCLEAR = {
    "lost": {},
    "drop": {},
    "dup": {},
    "defer": {"after": 10_000},
    "status": {"status": 503, "code": "SlowDown"},
    "status_after": {"status": 500, "code": "InternalError"},
}


@dataclass
class StoreClock(SystemClock):
    """A wait takes no time here, and has passed in the store."""

    s3: S3Server
    act: Callable[[], object] = field(default=lambda: None)

    def sleep_ms(self, duration_ms):
        self.act()
        self.s3.clock_offset_s = (self.s3.clock_offset_s or 0) + duration_ms / 1000


def env_of(s3):
    return replace(Env.system(), clock=StoreClock(s3))


def bucket(s3):
    settings = parse_settings("s3", s3.storage())
    return ObjectStoreFileIO(parse_location("s3://lake/house"), settings, env_of(s3))


@pytest.fixture(params=["a condition", "no condition"])
def store(s3, request):
    """Of each kind: deletes may be sent on a condition, or it is left aside."""
    s3.delete_conditions = request.param == "a condition"
    s3.bucket().put(KEY, b"ours", 0)
    return s3


@pytest.mark.parametrize("mode", UNCLEAR)
def test_what_comes_later_under_the_name_stays(store, mode):
    files = bucket(store)
    store.fault(mode, "DELETE", "snapshot-2", **UNCLEAR[mode])
    assert files.delete(NAME, reused=True) is True
    assert store.bucket().get(KEY) is None
    assert files.put_if_absent(NAME, b"theirs")
    store.settle()
    assert store.bucket().get(KEY).data == b"theirs"


@pytest.mark.parametrize("mode", ["lost", "status_after"])
def test_what_came_under_the_name_before_the_answer_stays(store, mode):
    """The delete took effect, nobody knows, and another commits meanwhile."""
    files = bucket(store)
    store.fault(mode, "DELETE", "snapshot-2", **UNCLEAR[mode])
    files._env.clock.act = lambda: store.bucket().put(KEY, b"theirs", 0)
    assert files.delete(NAME, reused=True) is True
    assert store.bucket().get(KEY).data == b"theirs"


@pytest.mark.parametrize("mode", [None, "drop", "lost"])
def test_of_expected_bytes_another_s_object_stays(store, mode):
    files = bucket(store)
    if mode is not None:
        store.fault(mode, "DELETE", "snapshot-2")
    files._env.clock.act = lambda: store.bucket().put(KEY, b"theirs", 0)
    assert files.delete(NAME, reused=True, expected=b"ours") is True
    store.bucket().put(KEY, b"theirs", 0)
    assert files.delete(NAME, reused=True, expected=b"ours") is False
    assert store.bucket().get(KEY).data == b"theirs"


def test_what_is_missing_is_said(store):
    files = bucket(store)
    assert files.delete(NAME, reused=True)
    assert not files.delete(NAME, reused=True)


def test_anothers_object_stays_where_the_store_knows_the_condition(s3, monkeypatch):
    s3.bucket().put(KEY, b"ours", 0)
    files, signed = bucket(s3), reused_name.ReusedName._signed

    def late(self, key):
        s3.bucket().put(KEY, b"theirs", 0)
        return signed(self, key)

    monkeypatch.setattr(reused_name.ReusedName, "_signed", late)
    assert not files.delete(NAME, reused=True)
    assert s3.bucket().get(KEY).data == b"theirs"


def test_a_store_that_never_answers_is_said_to_leave_it_open(s3, monkeypatch):
    monkeypatch.setattr(reused_name, "ASKS_MAX", 2)
    s3.bucket().put(KEY, b"ours", 0)
    s3.fault("drop", "DELETE", "snapshot-2", count=100)
    with pytest.raises(StorageError, match="may still be on its way"):
        bucket(s3).delete(NAME, reused=True)


def test_without_a_signed_url_the_client_deletes(s3):
    s3.bucket().put(KEY, b"ours", 0)
    settings = parse_settings("s3", {"s3.endpoint": s3.url, "s3.anonymous": "true"})
    files = ObjectStoreFileIO(parse_location("s3://lake/house"), settings, env_of(s3))
    assert files.delete(NAME, reused=True)
    assert (s3.count("DELETE"), s3.count("POST", "?delete")) == (0, 1)


@pytest.mark.parametrize("offset_s", [-600, -45, 25, 600])
@pytest.mark.parametrize("mode", ["lost", "drop", "defer"])
def test_a_clock_that_differs_takes_no_protection_away(store, caplog, offset_s, mode):
    files = bucket(store)
    store.clock_offset_s = offset_s
    nth = 2 if offset_s > 20 else 1  # the first URL is refused, and tells the store's time
    store.fault(mode, "DELETE", "snapshot-2", nth=nth, **UNCLEAR[mode])
    assert files.delete(NAME, reused=True) is True
    assert store.count("POST", "?delete") == 0, "the client's own delete has no end"
    assert files.put_if_absent(NAME, b"theirs")
    store.settle()
    assert store.bucket().get(KEY).data == b"theirs"
    assert not caplog.records


def test_that_no_url_is_taken_is_said_once(s3, caplog):
    settings = parse_settings("s3", {"s3.endpoint": s3.url, "s3.anonymous": "true"})
    files = ObjectStoreFileIO(parse_location("s3://lake/house"), settings, env_of(s3))
    for _ in range(2):
        s3.bucket().put(KEY, b"ours", 0)
        assert files.delete(NAME, reused=True)
    [said] = caplog.records
    assert "takes no signed URL" in said.getMessage()


def test_a_late_delete_of_a_rollback_takes_no_snapshot_that_was_committed_since(store):
    """The store's deletes are late until all is over; see ADR 80."""
    store.bucket().delete(KEY)
    table = tidelake.open(
        "s3://lake/house", storage=store.storage(), env=env_of(store)
    ).create_table("db.t", {"k": "BIGINT"})
    for k in range(3):
        table.write([{"k": k}])
    store.fault("defer", "DELETE", "snapshot-2", after=10_000)
    store.fault("lost", "DELETE", "snapshot-3")
    assert table.rollback_to(1).removed_snapshot_ids == (2, 3)
    for k in (7, 8):
        table.write([{"k": k}])
    store.settle()
    assert table.latest_snapshot_id == 3
    assert [table.to_arrow(snapshot_id=i).num_rows for i in (1, 2, 3)] == [1, 2, 3]
