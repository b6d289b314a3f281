"""What a branch leaves and takes along: its tags, its parts, and what the clock does to them."""

from __future__ import annotations

import contextlib
import itertools
import logging
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.maintenance import call
from tidelake.telemetry import Env, ManualClock
from tidelake.testing import FaultMode, FaultyFileIO, SimulatedCrash

KEYED = pa.schema({"k": pa.int64(), "v": pa.int64()})
BATCH = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "newest"}
DAILY = {"tag.automatic-creation": "process-time", "snapshot.num-retained.min": "1"}


class At(ManualClock):
    """A clock that is set."""

    def set(self, text: str) -> None:
        self._now_ms = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def opened(files):
    seeded = Env.seeded(5)
    env = Env(clock=At(), rng=seeded.rng, ids=seeded.ids, executor=seeded.executor, zone="UTC")
    return tidelake.open("/w", fileio=files, env=env)


@pytest.fixture
def files():
    return MemoryFileIO()


@pytest.fixture
def make(files):
    catalog = opened(files)

    def make(options=None):
        return catalog.create_table("db.t", KEYED, primary_keys=["k"], options=options)

    return make


def write(table, *moments):
    for moment in moments:
        table.handle.env.clock.set(moment)
        table.write([{"k": 1, "v": 1}])


def tags(table):
    return {tag.name: tag.snapshot_id for tag in table.tags}


def test_the_clock_leaves_the_tag_that_a_branch_began_at(make, caplog):
    table = make({"tag.default-time-retained": "1 d"})
    write(table, "2024-01-01 10:00", "2024-01-01 11:00")
    table.tags.create("start")
    table.tags.replace("start", snapshot_id=1)  # for ever
    table.tags.create("short")
    table.branches.create("b", tag="start")
    caplog.set_level(logging.INFO, "tidelake")
    later = {"older_than": "2100-01-01T00:00:00Z"}
    assert table.tags.expire(**later, dry_run=True) == ["short"]
    assert "tag 'start' stays, for branch 'b' needs it" in caplog.text
    assert table.tags.expire(**later) == ["short"]
    assert table.branch("b").tags.expire(**later) == []
    assert (tags(table), tags(table.branch("b"))) == ({"start": 1}, {"start": 1})
    table.branches.delete("b")
    assert table.tags.expire(**later) == ["start"]


def test_of_two_tags_of_a_start_the_clock_leaves_one(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("a")
    table.tags.create("b")
    table.branches.create("branch", tag="a")
    assert table.tags.expire(older_than="2100-01-01T00:00:00Z") == ["a"]
    assert tags(table) == {"b": 1}


def test_the_most_tags_that_are_retained_leave_the_start_of_a_branch(make):
    table = make({**DAILY, "tag.num-retained-max": "2"})
    write(table, "2024-01-01 10:00", "2024-01-02 10:00")
    table.branches.create("b", tag="2023-12-31")
    write(table, "2024-01-03 10:00", "2024-01-04 10:00")
    assert set(tags(table)) == {"2023-12-31", "2024-01-02", "2024-01-03"}
    table.branches.delete("b")
    write(table, "2024-01-05 10:00")
    assert set(tags(table)) == {"2024-01-03", "2024-01-04"}


def test_the_tag_of_a_batch_is_not_moved_from_the_start_of_a_branch(make, caplog):
    table = make(BATCH)
    write(table, "2024-01-01 10:00")
    table.branches.create("b", tag="newest")
    write(table, "2024-01-01 11:00")
    assert tags(table) == {"newest": 1}
    assert "tag 'newest' is not moved" in caplog.text
    table.branches.delete("b")
    write(table, "2024-01-01 12:00")
    assert tags(table) == {"newest": 3}


def test_a_branch_of_a_snapshot_relies_on_no_tag_that_goes_by_itself(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("short", time_retained="1 d")
    table.handle.tags.create("tidelake-rollback-1", table.handle.snapshots.load(1))
    table.branches.create("b", snapshot_id=1)
    pin = "tidelake-branch-b"
    assert tags(table.branch("b")) == {pin: 1}
    table.handle.env.clock.set("2024-01-03 10:00")
    assert table.tags.expire() == ["short"]
    with pytest.raises(InvalidInputError, match="branch 'b' began at its snapshot"):
        table.tags.delete(pin)
    table.branches.delete("b")
    assert set(tags(table)) == {"tidelake-rollback-1"}


def test_a_tag_with_a_time_to_live_stays_where_a_branch_began_at_it(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("short", time_retained="1 d")
    table.branches.create("b", tag="short")
    table.handle.env.clock.set("2024-01-03 10:00")
    assert (table.tags.expire(), table.branch("b").tags.expire()) == ([], [])
    assert tags(table) == tags(table.branch("b")) == {"short": 1}
    table.branches.delete("b")
    assert table.tags.expire() == ["short"]


def test_a_snapshot_that_only_such_a_tag_keeps_may_begin_a_branch(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.tags.create("short", time_retained="1 d")
    write(table, "2024-01-01 11:00", "2024-01-01 12:00")
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    table.branches.create("b", snapshot_id=1)
    table.handle.env.clock.set("2024-01-03 10:00")
    table.tags.expire()
    assert table.branch("b").count() == 1
    table.branches.delete("b")
    assert tags(table) == {}
    data = [s.name for s in table.fileio.list_dir(f"{table.paths.location}/bucket-0")]
    live = table.system_table("files").to_arrow()["file_path"].to_pylist()
    assert len(data) == len(live)  # what only the tag kept has gone with it


def test_only_the_first_tag_of_a_branch_is_its_start(make):
    table = make()
    write(table, "2024-01-01 10:00")
    table.branches.create("b", snapshot_id=1)
    write(table.branch("b"), "2024-01-01 11:00")
    table.branch("b").tags.create("own")
    table.branches.fast_forward("b")
    table.tags.delete("own")
    with pytest.raises(InvalidInputError, match="branch 'b' began"):
        table.tags.delete("tidelake-branch-b")


def test_a_branch_makes_no_tag_of_a_period_before_it(make):
    table = make(DAILY)
    write(table, "2024-01-01 10:00", "2024-01-02 01:00", "2024-01-02 14:00")
    assert tags(table) == {"2023-12-31": 1, "2024-01-01": 2}
    table.branches.create("b", snapshot_id=3)
    branch = table.branch("b")
    write(branch, "2024-01-02 15:00")
    assert tags(branch) == {"tidelake-branch-b": 3}
    write(branch, "2024-01-03 00:10", "2024-01-03 00:20")
    assert tags(branch) == {"tidelake-branch-b": 3, "2024-01-02": 5}


@pytest.mark.parametrize(
    ("began", "tagged"),
    [("2024-01-02 01:59", {"2024-01-01": 3}), ("2024-01-02 02:00", {})],
)
def test_a_delay_counts_for_the_period_in_which_a_branch_began(make, began, tagged):
    table = make({**DAILY, "tag.creation-delay": "2 h"})
    write(table, "2024-01-01 10:00", began)
    table.branches.create("b", snapshot_id=2)
    branch = table.branch("b")
    write(branch, "2024-01-02 02:01")
    found = tags(branch)
    found.pop("tidelake-branch-b", None)
    if tagged:
        assert found == tagged
    else:  # main's own, at which it began
        assert found == {"2024-01-01": 2}


def test_a_branch_that_begins_empty_or_at_a_period_s_tag_goes_on_from_there(make):
    table = make(DAILY)
    write(table, "2024-01-01 10:00")
    table.branches.create("empty")
    table.branches.create("day", tag="2023-12-31")
    for name, found in (("empty", {"2024-01-01": 2}), ("day", {"2023-12-31": 1, "2024-01-01": 3})):
        branch = table.branch(name)
        write(branch, "2024-01-01 15:00", "2024-01-02 15:00")
        assert tags(branch) == found


def test_a_name_that_a_renamed_branch_had_is_free(make):
    table = make()
    write(table, "2024-01-01 10:00", "2024-01-01 11:00")
    table.branches.create("a", snapshot_id=1)
    table.branches.rename("a", "c")
    table.branches.create("a", snapshot_id=2)
    assert tags(table) == {"tidelake-branch-a": 1, "tidelake-branch-a-2": 2}
    table.branches.delete("a")
    assert tags(table) == {"tidelake-branch-a": 1}
    table.branches.delete("c")
    assert tags(table) == {}


def test_a_branch_that_is_given_up_leaves_no_tag(make, monkeypatch):
    table = make()
    write(table, "2024-01-01 10:00")

    def gone(*_args, **_named):
        raise NotFoundError("the table was dropped", kind="table_not_found")

    monkeypatch.setattr("tidelake.table.jobs.branching._copy_schemas", gone)
    with pytest.raises(NotFoundError, match="was dropped"):
        table.branches.create("b", snapshot_id=1)
    assert tags(table) == {}


@pytest.mark.parametrize("by_sql", [False, True])
def test_a_deletion_that_died_is_ended_by_another(make, files, by_sql):
    table = make()
    write(table, "2024-01-01 10:00")
    halves = 0
    for number in itertools.count(1):
        table.branches.create("b", snapshot_id=1)
        write(table.branch("b"), "2024-01-01 11:00")
        faulty = FaultyFileIO(files, {number: FaultMode.CRASH_BEFORE})
        with contextlib.suppress(SimulatedCrash):
            opened(faulty).table("db.t").branches.delete("b")
        if not faulty.is_hit():
            break
        assert [branch.name for branch in table.branches] == ["b"]
        halves += not files.exists(table.paths.of_branch("b").schema(0))
        if by_sql:
            call(opened(files), "delete_branch", ("db.t", "b"), {})
        else:
            table.branches.delete("b")
        assert (tags(table), table.branches.list()) == ({}, [])
    assert halves > 4


def test_a_creation_that_died_is_deleted_with_its_tag(make, files):
    table = make()
    write(table, "2024-01-01 10:00")
    table.handle.tags.create("tidelake-branch-b", table.handle.snapshots.load(1))
    part = table.paths.of_branch("b").snapshot(1)
    files.write_once(part, files.read_bytes(table.paths.snapshot(1)))
    with pytest.raises(NotFoundError, match="has no branch 'd'"):
        call(opened(files), "delete_branch", ("db.t", "b,d"), {})
    assert [branch.name for branch in table.branches] == ["b"]
    call(opened(files), "delete_branch", ("db.t", "b"), {})
    assert (tags(table), table.branches.list()) == ({}, [])


def test_a_branch_of_an_expired_snapshot_names_no_changelog_that_is_gone(make):
    table = make({"changelog-producer": "input", "bucket": "1"})
    write(table, "2024-01-01 10:00")
    table.tags.create("kept")
    write(table, "2024-01-01 11:00", "2024-01-01 12:00")
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    table.branches.create("b", tag="kept")
    (start,) = table.branch("b").system_table("snapshots").to_arrow().to_pylist()
    assert (start["snapshot_id"], start["changelog_manifest_list"]) == (1, None)
    assert table.branch("b").count() == 1
    streamed = list(table.branch("b").stream(timeout=0))
    assert sum(batch.data.num_rows for batch in streamed) == 1
    list(table.branch("b").stream(start=1, timeout=0))
