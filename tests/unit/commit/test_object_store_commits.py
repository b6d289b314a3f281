"""Commits over a wire that fails: an acknowledged row is there once, whatever the store answers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from unit.fileio.object_store.test_publish import faults, named

import tidelake
from tidelake.errors import OutcomeUnknownError, StorageError
from tidelake.fileio.object_store.publish import ObjectPublisher
from tidelake.telemetry import Env

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def opened(s3, *, env=None, timeout="60 s"):
    storage = s3.storage(**{"s3.timeout": timeout, "s3.retries": "2"})
    return tidelake.open("s3://lake/w", storage=storage, env=env or Env.seeded(3))


def meetings():
    """The publishing put meets every fault; the others those that leave a doubt."""
    for mode, more in faults():
        slow = {"ms": 900} if "ms" in more else more
        yield "snapshot-2", mode, slow
        if mode in {"lost", "drop", "defer", "status_after"}:
            yield from ((place, mode, slow) for place in ("manifest/", "bucket-0/", "LATEST"))


@pytest.mark.parametrize(("place", "mode", "more"), [*meetings()], ids=named)
def test_a_commit_that_meets_a_fault_is_there_once_or_says_that_it_is_not(s3, place, mode, more):
    table = opened(s3).create_table(
        "db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "2"}
    )
    table.write([{"k": 1, "v": "a"}])
    if "ms" in more:
        table = opened(s3, timeout="600 ms").table("db.t")
    s3.fault(mode, "PUT", place, **more)
    said = "done"
    try:
        table.write([{"k": 2, "v": "b"}], commit_user="w", commit_identifier=1)
    except OutcomeUnknownError:
        said = "unknown"
    except StorageError:
        said = "failed"
    s3.settle()
    s3.forget()
    found = opened(s3).table("db.t")
    keys = [row["k"] for row in found.to_arrow().to_pylist()]
    allowed = {"done": [[1, 2]], "failed": [[1]], "unknown": [[1], [1, 2]]}[said]
    assert sorted(keys) in allowed
    found.write([{"k": 2, "v": "b"}], commit_user="w", commit_identifier=1)
    found.write([{"k": 3, "v": "c"}])
    kept = sorted(row["k"] for row in found.to_arrow().to_pylist())
    assert kept == [1, 2, 3]
    snapshots = found.system_table("snapshots").to_arrow().to_pylist()
    ours = [one for one in snapshots if one["commit_user"] == "w"]
    assert len(ours) == 1


@pytest.fixture
def two(s3):
    """Two writers of a table with one snapshot."""
    first = opened(s3).create_table("db.t", SCHEMA, options={"bucket": "-1"})
    first.write([{"k": 1, "v": "a"}])
    return first, opened(s3, env=Env.seeded(4)).table("db.t")


def beside_the_put(monkeypatch, act, *, before):
    """Another acts right before, or after, the first put of snapshot 2."""
    put, puts = ObjectPublisher._put, []

    def slow(self, path, *what, **more):
        if not path.endswith("snapshot-2"):
            return put(self, path, *what, **more)
        puts.append(path)
        if before and len(puts) == 1:
            act()
        answer = put(self, path, *what, **more)
        if not before and len(puts) == 1:
            act()
        return answer

    monkeypatch.setattr(ObjectPublisher, "_put", slow)


def keys_of(table):
    return sorted(row["k"] for row in table.to_arrow().to_pylist())


def test_a_put_that_comes_once_a_rollback_has_freed_its_name_is_set_aside(s3, two, monkeypatch):
    """Its files are there: another engine may read it until the next commit replaces it."""
    ours, other = two
    s3.fault("defer", "PUT", "snapshot-2", after=10**9)
    beside_the_put(monkeypatch, lambda: other.write([{"k": 2, "v": "b"}]), before=False)
    assert ours.write([{"k": 3, "v": "c"}]).snapshot_ids == (3,)
    other.rollback_to(snapshot_id=1)
    s3.settle()
    found = opened(s3, env=Env.seeded(5)).table("db.t")
    assert (found.latest_snapshot_id, keys_of(found)) == (1, [1])
    late = json.loads(found.fileio.read_bytes(found.paths.snapshot(2)))
    names = {key.rpartition("/")[2] for key in s3.listing("w/db.db/t/manifest/")}
    assert {late["baseManifestList"], late["deltaManifestList"]} <= names
    assert found.write([{"k": 4, "v": "d"}]).snapshot_ids == (2,)
    assert keys_of(found) == [1, 4]


def test_a_commit_that_may_come_late_is_unknown_and_not_lost(s3, two, monkeypatch):
    """Its caller would delete the data files of one that is lost."""
    ours, other = two
    ours = ours.with_options({"commit.max-retries": "0"})
    s3.fault("defer", "PUT", "snapshot-2", after=10**9)
    beside_the_put(monkeypatch, lambda: other.write([{"k": 2, "v": "b"}]), before=False)
    with pytest.raises(OutcomeUnknownError):
        ours.write([{"k": 3, "v": "c"}])
    other.rollback_to(snapshot_id=1)
    s3.settle()
    found = opened(s3).table("db.t")
    late = json.loads(found.fileio.read_bytes(found.paths.snapshot(2)))
    names = {key.rpartition("/")[2] for key in s3.listing("w/db.db/t/manifest/")}
    assert {late["baseManifestList"], late["deltaManifestList"]} <= names
    assert keys_of(found) == [1]  # the rollback holds: what comes behind it is set aside


def test_a_race_that_was_lost_for_good_leaves_no_file(s3, two, monkeypatch):
    ours, other = two
    beside_the_put(monkeypatch, lambda: other.write([{"k": 2, "v": "b"}]), before=True)
    assert ours.write([{"k": 3, "v": "c"}]).snapshot_ids == (3,)
    lists = [key for key in s3.listing("w/db.db/t/manifest/") if "manifest-list" in key]
    assert len(lists) == 2 * 3


LATENCY_MS = 20


def test_an_upsert_is_so_many_requests_in_so_many_rounds(s3):
    """Bounds that only fall. A busy machine may take more rounds once, but not each time."""
    table = opened(s3, env=Env.system()).create_table(
        "db.t",
        SCHEMA,
        primary_keys=["k"],
        options={"bucket": "1", "num-sorted-run.compaction-trigger": "9"},
    )
    table.write([{"k": 0, "v": "a"}])
    s3.latency_ms = LATENCY_MS
    rounds = []
    for k in range(1, 4):
        s3.forget()
        table.write([{"k": k, "v": "b"}])
        rounds.append(s3.rounds)
        assert s3.count() <= 28  # of them four for the chain, none in a round of its own
        assert s3.count("PUT") == 6
    assert min(rounds) <= 12
