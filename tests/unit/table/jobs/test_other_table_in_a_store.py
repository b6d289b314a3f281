"""A job that is slow in an object store, while its table is dropped and created anew."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError
from tidelake.commit.expiry import snapshots
from tidelake.commit.expiry.tags_and_branches import References
from tidelake.metadata import SnapshotLog, TagLog
from tidelake.table.jobs import fast_forward
from tidelake.table.jobs.rollback import _Step

SCHEMA = pa.schema({"k": pa.int64()})
PLACE = "house/db.db/t/"


def opened(s3):
    return tidelake.open("s3://lake/house", storage=s3.storage())


@pytest.fixture
def table(s3):
    made = opened(s3).create_table("db.t", SCHEMA, options={"bucket": "-1"})
    for k in range(4):
        made.write([{"k": k}])
    return made


def anew(s3, writes=0):
    catalog = opened(s3)
    catalog.drop_table("db.t")
    made = catalog.create_table("db.t", SCHEMA, options={"bucket": "-1"})
    for k in range(writes):
        made.write([{"k": 100 + k}])


def keys(s3):
    return sorted(opened(s3).table("db.t").to_arrow()["k"].to_pylist())


def after(monkeypatch, owner, name, act, *, nth=1, before=False):
    """Another process acts right after, or before, one call of a method."""
    method, calls = getattr(owner, name), []

    def slow(*args, **more):
        calls.append(name)
        if before and len(calls) == nth:
            act()
        done = method(*args, **more)
        if not before and len(calls) == nth:
            act()
        return done

    monkeypatch.setattr(owner, name, slow)


def check_only_the_new_one(s3, writes=0):
    assert keys(s3) == [100 + k for k in range(writes)]
    names = [key.removeprefix(PLACE) for key in s3.listing(PLACE)]
    snapshots = [name for name in names if name.startswith("snapshot/snapshot-")]
    assert snapshots == [f"snapshot/snapshot-{i + 1}" for i in range(writes)]
    assert not [name for name in names if name.startswith("tag/")]
    opened(s3).table("db.t").write([{"k": 9}])
    assert 9 in keys(s3)


@pytest.mark.parametrize("call", ["before", "after"])
def test_a_rollback_puts_its_target_into_no_other_table(s3, table, monkeypatch, call):
    if call == "before":
        after(monkeypatch, _Step, "_remove_snapshots", lambda: anew(s3))
    else:  # right before the put, after all checks of what was there before
        table.tags.create("old", snapshot_id=1)
        table.maintenance.expire_snapshots(retain_max=2, retain_min=1)
        after(monkeypatch, SnapshotLog, "put_back", lambda: anew(s3), before=True)
    with pytest.raises(NotFoundError, match="dropped and recreated"):
        table.rollback_to("old" if call == "after" else 2)
    check_only_the_new_one(s3)


def test_a_rollback_removes_no_snapshot_and_no_tag_of_another_table(s3, table, monkeypatch):
    after(monkeypatch, _Step, "_step_back", lambda: anew(s3, writes=4))
    with pytest.raises(NotFoundError, match="dropped and recreated"):
        table.rollback_to(2)
    check_only_the_new_one(s3, writes=4)


@pytest.mark.parametrize("phase", ["_put_schemas", "_put_tags", "_put_snapshots", "_write_hints"])
def test_a_fast_forward_goes_on_in_no_other_table(s3, table, monkeypatch, phase):
    table.branches.create("b", snapshot_id=2)
    branch = table.branch("b")
    branch.write([{"k": 50}])
    branch.tags.create("new")
    after(monkeypatch, fast_forward._Step, phase, lambda: anew(s3, writes=4))
    with pytest.raises(NotFoundError, match="dropped and recreated"):
        table.branches.fast_forward("b")
    check_only_the_new_one(s3, writes=4)


def test_a_fast_forward_in_a_store(s3, table):
    table.branches.create("b", snapshot_id=2)
    table.branch("b").write([{"k": 50}])
    assert table.branches.fast_forward("b").removed_snapshot_ids == (3, 4)
    assert keys(s3) == [0, 1, 50]


@pytest.mark.parametrize("writes", [0, 2])
@pytest.mark.parametrize("nth", [1, 2])
def test_an_expiry_puts_and_removes_no_snapshot_of_another_table(
    s3, table, monkeypatch, nth, writes
):
    """Before its delete (the files that stay were read), and after it."""
    name = "unreferenced" if nth == 1 else "refresh"
    after(monkeypatch, References, name, lambda: anew(s3, writes), nth=nth)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    check_only_the_new_one(s3, writes)


def test_an_expiry_takes_its_snapshot_out_of_another_table(s3, table, monkeypatch):
    """Rolled back to the very snapshot that it removed, the table is another right at the put."""

    def rolled_back():
        for snapshot_id in (2, 3, 4):
            s3.bucket().delete(f"{PLACE}snapshot/snapshot-{snapshot_id}")

    after(monkeypatch, References, "refresh", rolled_back, nth=2)
    after(monkeypatch, snapshots, "put_new", lambda: anew(s3), before=True)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    check_only_the_new_one(s3)


@pytest.mark.parametrize("writes", [0, 4])
def test_a_tag_comes_into_no_other_table(s3, table, monkeypatch, writes):
    after(monkeypatch, TagLog, "create", lambda: anew(s3, writes), before=True)
    with pytest.raises(NotFoundError, match="dropped and recreated"):
        table.tags.create("old", snapshot_id=1)
    check_only_the_new_one(s3, writes)


def test_a_tag_of_a_dropped_table_is_no_target_of_a_rollback(s3, table):
    """As its process left it, which died before it could take it back."""
    snapshot = table.handle.snapshots.load(2)
    anew(s3, writes=3)
    new = opened(s3).table("db.t")
    new.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    new.handle.tags.create("old", snapshot)
    with pytest.raises(InvalidInputError, match="a dropped table of that name had") as refused:
        new.rollback_to("old")
    assert refused.value.kind == "rollback_target"
    new.tags.delete("old")
    assert keys(s3) == [100, 101, 102]
