"""A run holds snapshots: expiry leaves them, a second live run is refused, a dead one followed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest
from proving.expiring import ALL, Meanwhile, again, check, make, rows, work

import tidelake
from tidelake import ClosedError, ConflictError, InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import END_RETAINED_MS, ConsumerLog
from tidelake.table.stream import StreamLease, StreamPlan, held_snapshot
from tidelake.table.stream.consumer_reset import clear_consumers, reset_consumer
from tidelake.table.stream.lease import LEASE_TIMEOUT_MS


@pytest.fixture
def fileio():
    return MemoryFileIO()


@pytest.fixture
def table(fileio):
    made = make(fileio, primary_keys=["k"], bucket="1")
    work(made, 5)
    return made


def open_lease(table, next_snapshot=3, *, run_id="a", consumer_id="c", **how):
    return StreamLease.open(table.handle, consumer_id, next_snapshot, run_id=run_id, **how)


def log_of(table):
    return ConsumerLog(table.fileio, table.handle.paths)


def test_what_a_lease_holds_does_not_expire(table):
    newest = table.latest_snapshot_id
    before = rows(table, snapshot_id=3)
    with open_lease(table) as lease:
        assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2)
        assert rows(table, snapshot_id=3) == before
        lease.advance(5)
        assert table.maintenance.expire_snapshots(**ALL).ids == (3, 4)
    assert table.maintenance.expire_snapshots(**ALL).ids == ()  # the consumer stays
    assert table.system_table("consumers").to_arrow().to_pylist() == [
        {"consumer_id": "c", "next_snapshot_id": 5}
    ]
    open_lease(table, 5, run_id="b").close(forget=True)
    assert table.maintenance.expire_snapshots(**ALL).ids == tuple(range(5, newest))
    assert log_of(table).states() == {}
    check(table)


def test_expiry_says_for_whom_it_keeps_snapshots(table, caplog):
    newest = table.latest_snapshot_id
    assert table.maintenance.expire_snapshots(**ALL, dry_run=True).held_by == ()
    with open_lease(table) as lease, open_lease(table, newest, run_id="b", consumer_id="d"):
        heard_ms = log_of(table).states()["c"].lease.renewed_ms
        with caplog.at_level("INFO", "tidelake"):
            expired = table.maintenance.expire_snapshots(**ALL)
        (holder,) = expired.held_by  # what the other consumer keeps would stay anyway
        assert (holder.consumer_id, holder.snapshot_id, holder.is_live) == ("c", 3, True)
        assert holder.heard_ms >= heard_ms
        assert "Expiry of table 'db.t' keeps snapshots for c from snapshot 3 on" in caplog.text
        lease.advance(newest)
        assert table.maintenance.expire_snapshots(**ALL).held_by == ()


def test_a_second_live_run_is_refused_and_another_consumer_is_not(table):
    with open_lease(table):
        with pytest.raises(ConflictError, match=r"Consumer 'c' .* in use by run 'a'") as refused:
            open_lease(table, 4, run_id="b")
        assert refused.value.kind == "consumer_in_use"
        open_lease(table, 4, run_id="b", consumer_id="d").close()
        assert log_of(table).next_ids() == {"c": 3, "d": 4}
    open_lease(table, 4, run_id="b").close()


def test_the_same_run_opens_its_lease_again(table):
    first = open_lease(table)
    again_ = open_lease(table, 4)
    assert log_of(table).newest_term("c") == 1
    again_.advance(5)
    again_.close()
    assert first.consumer_id == again_.consumer_id == "c"


def test_a_silent_run_is_taken_over_and_then_refused(table):
    silent = open_lease(table)
    table.handle.env.clock.sleep_ms(LEASE_TIMEOUT_MS)
    with open_lease(table, 4, run_id="b") as lease:
        for call in (lambda: silent.advance(6), silent.renew):
            with pytest.raises((ConflictError, ClosedError)):
                call()
        assert log_of(table).next_id("c") == 4
        assert log_of(table).lease("c").run_id == "b"
        silent.close()  # takes nothing from the other
        lease.advance(5)
        assert log_of(table).next_id("c") == 5


def test_the_error_of_a_run_that_was_taken_over_says_so(table):
    silent = open_lease(table)
    table.handle.env.clock.sleep_ms(LEASE_TIMEOUT_MS)
    open_lease(table, 4, run_id="b")
    with pytest.raises(ConflictError, match="taken over by another run") as lost:
        silent.advance(5)
    assert lost.value.kind == "consumer_taken_over"
    with pytest.raises(ClosedError, match="is closed"):
        silent.advance(5)


def test_a_run_that_renews_is_not_taken_over(table):
    clock = table.handle.env.clock
    lease = open_lease(table)
    for _ in range(5):
        clock.sleep_ms(LEASE_TIMEOUT_MS // 2)
        lease.renew_if_due()
    with pytest.raises(ConflictError):
        open_lease(table, 4, run_id="b")


def test_renewing_before_it_is_due_makes_no_call(table, monkeypatch):
    lease = open_lease(table)
    monkeypatch.setattr(lease, "renew", lambda: pytest.fail("it was not due"))
    table.handle.env.clock.sleep_ms(LEASE_TIMEOUT_MS // 4)
    lease.renew_if_due()


KILLED = """
import sys, tidelake
from tidelake.table.stream import StreamLease
table = tidelake.open(sys.argv[1]).table("db.t")
lease = StreamLease.open(table.handle, "c", 1, run_id="child")
print("open", flush=True)
input()
"""


def test_a_run_whose_process_was_killed_is_followed_at_once(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", {"k": "INT"})
    table.write([{"k": 1}])
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(ConflictError, match="run 'child'"):
            open_lease(table, 1)
        child.kill()
        child.wait()
        with open_lease(table, 1) as lease:
            assert lease.next_snapshot == 1
            assert log_of(table).newest_term("c") == 2


def test_an_expired_snapshot_is_refused_with_the_range_and_nothing_is_left(table):
    newest = table.latest_snapshot_id
    table.maintenance.expire_snapshots(**ALL)
    with pytest.raises(NotFoundError, match=rf"Snapshots {newest} to {newest} are there") as gone:
        open_lease(table, 2)
    assert gone.value.kind == "snapshot_expired"
    assert log_of(table).states() == {}
    open_lease(table, newest).close()
    with pytest.raises(NotFoundError):
        open_lease(table, 2, run_id="b")
    assert log_of(table).next_id("c") == newest  # as it was
    open_lease(table, newest, run_id="d").close()


def test_a_kept_changelog_is_enough_for_changes_and_not_for_the_state(fileio):
    kept = {"changelog.num-retained.max": "50", "changelog-producer": "input"}
    table = make(fileio, primary_keys=["k"], bucket="1", **kept)
    work(table, 4)
    table.maintenance.expire_snapshots(**ALL)
    with open_lease(table, 2) as lease:
        assert table.maintenance.expire_changelogs(retain_max=1, retain_min=1).ids == (1,)
        with pytest.raises(NotFoundError):
            open_lease(table, 2, consumer_id="d", of_state=True)
        lease.advance(3)
        assert table.maintenance.expire_changelogs(retain_max=1, retain_min=1).ids == (2,)
    check(table)


def test_a_consumer_goes_back_by_a_new_run_only(table):
    lease = open_lease(table, 4)
    with pytest.raises(InvalidInputError, match="cannot go back to 3"):
        lease.advance(3)
    lease.close()
    open_lease(table, 3, run_id="b").close()
    assert log_of(table).next_id("c") == 3


@pytest.mark.parametrize("number", [0, -1, True, "3", None])
def test_the_next_snapshot_is_a_number_from_one_on(table, number):
    with pytest.raises(InvalidInputError, match="an id from 1 on"):
        open_lease(table, number)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb"])
def test_a_consumer_s_name_is_checked(table, name):
    with pytest.raises(InvalidInputError, match="not a valid consumer name"):
        open_lease(table, consumer_id=name)


def test_a_table_made_anew_gets_no_lease_of_the_old_one(fileio, table):
    catalog = tidelake.open("/w", fileio=fileio)
    lease = open_lease(table)
    catalog.drop_table("db.t")
    anew = catalog.create_table("db.t", {"k": "INT"})
    anew.write([{"k": 1}])
    with pytest.raises(NotFoundError):
        lease.advance(4)
    lease.close()
    with pytest.raises(NotFoundError):
        open_lease(table)
    assert log_of(anew).states() == {}


def test_a_forked_child_uses_no_lease(table, monkeypatch):
    lease = open_lease(table)
    monkeypatch.setattr("tidelake.telemetry.fork._Forks.count", 1)
    with pytest.raises(ClosedError, match="forked"):
        lease.renew()
    lease.close()
    assert not log_of(table).lease("c").is_closed


def test_a_killed_read_holds_for_an_hour_and_a_consumer_as_its_option_says(fileio):
    table = make(fileio, **{"consumer.expiration-time": "1 d"})
    work(table, 4)
    clock, newest = table.handle.env.clock, table.latest_snapshot_id
    killed = held_snapshot(table.handle, 2)
    killed.__enter__()
    ConsumerLog(fileio, table.handle.paths).record("java", 3)
    assert table.maintenance.expire_snapshots(**ALL).ids == (1,)
    clock.sleep_ms(3_601_000)
    assert table.maintenance.expire_snapshots(**ALL).ids == (2,)
    assert list(log_of(table).states()) == ["java"]
    clock.sleep_ms(86_400_000)
    told = table.maintenance.expire_snapshots(**ALL, dry_run=True)
    assert list(log_of(table).states()) == ["java"]
    assert table.maintenance.expire_snapshots(**ALL) == told
    assert told.ids == tuple(range(3, newest))
    assert log_of(table).states() == {}
    check(table)


def test_a_read_holds_its_snapshot_while_the_block_runs(table):
    before = rows(table, snapshot_id=2)
    with held_snapshot(table.handle, 2):
        table.maintenance.expire_snapshots(**ALL)
        assert rows(again(table, table.fileio), snapshot_id=2) == before
    table.maintenance.expire_snapshots(**ALL)
    with pytest.raises(NotFoundError), held_snapshot(table.handle, 2):
        pytest.fail("it was gone")
    check(table)


def test_a_late_write_of_an_older_run_takes_nothing_from_the_live_one(table):
    with open_lease(table, 2):
        log_of(table).record("c", 5)
        assert table.maintenance.expire_snapshots(**ALL).ids == (1,)


def test_a_purge_removes_leases(table):
    open_lease(table).close()
    table.maintenance.purge_files()
    assert log_of(table).states() == {}


def silent_and_cleared(table, how):
    """A run that is silent for long, while its consumer is cleared, reset or removed."""
    silent = open_lease(table)
    table.handle.env.clock.sleep_ms(LEASE_TIMEOUT_MS)
    if how == "cleared":
        assert clear_consumers(table.handle) == ("c",)
        assert clear_consumers(table.handle) == ()
    elif how == "forgotten":
        log_of(table).delete("c")
    else:
        reset_consumer(table.handle, "c", 5 if how == "reset" else None)
    return silent


@pytest.mark.parametrize("how", ["cleared", "removed", "reset", "forgotten"])
def test_a_silent_run_does_not_take_the_lease_of_the_run_after_a_reset_for_its_own(table, how):
    silent = silent_and_cleared(table, how)
    with open_lease(table, 4, run_id="b") as lease:
        with pytest.raises(ConflictError, match="taken over by another run, or was reset"):
            silent.advance(6)
        assert log_of(table).next_id("c") == 4
        assert log_of(table).lease("c").run_id == "b"
        lease.advance(5)


@pytest.mark.parametrize("how", ["cleared", "removed", "reset", "forgotten"])
def test_a_silent_run_that_closes_takes_nothing_from_the_run_after_a_reset(table, how):
    silent = silent_and_cleared(table, how)
    with open_lease(table, 4, run_id="b") as lease:
        silent.close(forget=True)
        assert log_of(table).next_id("c") == 4
        lease.advance(5)


@pytest.mark.parametrize("how", ["cleared", "removed", "reset"])
def test_a_silent_run_is_refused_after_a_reset_though_nobody_came_after_it(table, how):
    silent = silent_and_cleared(table, how)
    for call in (silent.renew, silent.close):
        with pytest.raises(ConflictError) if call == silent.renew else nullcontext():
            call()
    assert log_of(table).next_ids() == ({"c": 5} if how == "reset" else {})
    assert log_of(table).newest_term("c") == 2


def test_the_end_of_a_lease_holds_nothing_and_goes_after_a_day(table):
    silent_and_cleared(table, "cleared")
    newest = table.latest_snapshot_id
    assert table.maintenance.expire_snapshots(**ALL).ids == tuple(range(1, newest))
    assert log_of(table).newest_term("c") == 2
    table.handle.env.clock.sleep_ms(END_RETAINED_MS + 1)
    table.write([{"k": 1, "v": 1, "p": "a"}])
    table.maintenance.expire_snapshots(**ALL)
    assert log_of(table).states() == {}


def test_a_consumer_of_java_s_beside_the_end_of_a_lease_stays(table):
    silent_and_cleared(table, "cleared")
    log_of(table).record("c", 4)
    table.handle.env.clock.sleep_ms(END_RETAINED_MS + 1)
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2, 3)
    assert log_of(table).next_ids() == {"c": 4}


def held_behind_the_hint(table):
    """A consumer whose lease came between an expiry's first look and its hint."""
    came = []
    hint = table.handle.paths.earliest_hint
    files = Meanwhile(table.fileio, "replace", hint, lambda: came.append(open_lease(table, 2)))
    assert again(table, files).maintenance.expire_snapshots(**ALL).ids == (1,)
    assert table.handle.snapshots.earliest_id() == table.latest_snapshot_id
    return came[0]


def test_a_consumer_goes_on_with_what_it_holds_though_the_hint_is_ahead(table):
    before = rows(table, snapshot_id=2)
    held_behind_the_hint(table).close()
    with open_lease(table, 2, run_id="b", of_state=True):
        assert rows(table, snapshot_id=2) == before
        table.maintenance.expire_snapshots(**ALL)
        assert rows(again(table, table.fileio), snapshot_id=2) == before
    with open_lease(table, 3, run_id="d") as lease:
        assert table.maintenance.expire_snapshots(**ALL).ids == (2,)
        lease.advance(table.latest_snapshot_id)
    assert table.maintenance.expire_snapshots(**ALL).ids == tuple(
        range(3, table.latest_snapshot_id)
    )
    check(table)


def test_what_a_consumer_does_not_hold_yet_is_refused_behind_the_hint(table):
    held_behind_the_hint(table).close()
    for wanted, consumer_id in ((1, "c"), (3, "d")):
        with pytest.raises(NotFoundError, match=f"no longer has snapshot {wanted}"):
            open_lease(table, wanted, consumer_id=consumer_id, run_id="b")
    assert log_of(table).next_ids() == {"c": 2}


def test_a_consumer_that_is_to_be_forgotten_is_refused_behind_the_hint(table):
    held_behind_the_hint(table).close()
    table.handle.env.clock.sleep_ms(86_400_000)
    timed = table.with_options({"consumer.expiration-time": "1 h"})
    with pytest.raises(NotFoundError, match="no longer has snapshot 2"):
        open_lease(timed, 2, run_id="b")


def test_a_stream_passes_over_nothing_that_is_there_behind_the_hint(table):
    held_behind_the_hint(table).close()
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "2"})
    assert plan.initial().snapshot == 2
    own = StreamPlan.of(table.handle, {"consumer-id": "c"})
    assert own.initial().snapshot == 2


def test_issue_36_a_run_whose_table_was_renamed_is_followed_under_the_new_name(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table("db.s", {"k": "INT"}, options={"bucket": -1})
    table.write([{"k": 1}])
    stream = table.stream(start=1, consumer_id="c", timeout=0)
    next(stream)
    catalog.rename_table("db.s", "db.other")
    with pytest.raises(NotFoundError, match="dropped or renamed"):
        next(stream)
    again = catalog.table("db.other").stream(consumer_id="c", timeout=0)
    assert [batch.snapshot_id for batch in again] == [1]
