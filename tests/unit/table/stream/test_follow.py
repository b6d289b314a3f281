"""A table followed without an engine: every change once, in order, with its progress recorded."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest
from proving.expiring import ALL, make, rows, work
from sizes import SIZE

import tidelake
from tidelake import (
    ClosedError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageRefusedError,
    UnsupportedError,
)
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import ConsumerLog, state_holder
from tidelake.table.stream import follow
from tidelake.table.stream.consumer_reset import clear_consumers, reset_consumer
from tidelake.table.stream.lease import LEASE_TIMEOUT_MS, StreamLease

KEYED = {"primary_keys": ["k"], "bucket": "1", "changelog-producer": "input"}


@pytest.fixture
def fileio():
    return MemoryFileIO()


@pytest.fixture
def table(fileio):
    return make(fileio, **KEYED)


@pytest.fixture(params=[errno.EROFS])
def read_only(tmp_path, monkeypatch, request):
    """A table on a disk that takes no new file once the fixture's function is called."""
    table = tidelake.open(tmp_path).create_table("db.t", {"k": "INT", "v": "INT", "p": "STRING"})

    def refuses(*_args, **_kwargs):
        raise OSError(request.param, os.strerror(request.param))

    def freeze():
        for name in ("mkdir", "link", "replace"):
            monkeypatch.setattr(os, name, refuses)
        return table

    return table, freeze


def put(table, *keys, v=1):
    return table.write([{"k": k, "v": v, "p": "a"} for k in keys])


def keys_of(batches):
    return [(b.snapshot_id, k) for b in batches for k in b.data["k"].to_pylist()]


def progress(table):
    return ConsumerLog(table.fileio, table.handle.paths).next_ids()


def test_all_rows_then_each_change_with_its_snapshot(table):
    put(table, 1, 2)
    put(table, 3)
    stream = table.stream(timeout=0)
    first = next(stream)
    put(table, 4)
    put(table, 1, v=9)
    assert keys_of([first, *stream]) == [(2, 1), (2, 2), (2, 3), (3, 4), (4, 1)]


def test_a_table_that_may_not_be_written_is_followed_without_a_hold(read_only, caplog, monkeypatch):
    table, freeze = read_only
    for number in range(3):
        put(table, number)
    freeze()
    with caplog.at_level(logging.WARNING, logger="tidelake"):
        stream = table.stream(start=1, timeout=0)
        assert next(stream).snapshot_id == 1
    assert [r.getMessage() for r in caplog.records] == [
        f"A read of table 'db.t' goes on without a hold, since the table may not be written: an"
        f" expiry may take what it has not read yet, and then it stops. Could not make"
        f" {table.handle.paths.consumer_dir}: Read-only file system. Check the storage and its"
        f" permissions."
    ]
    with pytest.raises(StorageRefusedError, match="Read-only"):  # progress was asked for
        next(table.stream(start=1, consumer_id="c", timeout=0))
    monkeypatch.undo()
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2)  # nothing is held
    with pytest.raises(NotFoundError, match="expired"):
        next(stream)


@pytest.mark.parametrize("read_only", [errno.EACCES, errno.EPERM], indirect=True)
def test_a_table_that_these_credentials_may_not_write_is_followed_too(read_only):
    table, freeze = read_only
    put(table, 1)
    assert freeze()
    assert next(table.stream(start=1, timeout=0)).snapshot_id == 1


def test_the_discovery_interval_is_the_longest_wait_between_two_looks(table, monkeypatch):
    caps, waiter_of = [], follow.waiter_of
    monkeypatch.setattr(
        follow,
        "waiter_of",
        lambda *a, poll_ms_max: caps.append(poll_ms_max) or waiter_of(*a, poll_ms_max=poll_ms_max),
    )
    assert list(table.stream(timeout=0)) == []
    assert list(table.stream(timeout=0, options={"continuous.discovery-interval": "70 ms"})) == []
    assert caps == [10_000, 70]


def test_a_stream_of_a_table_without_a_snapshot_waits_for_the_first(table):
    assert list(table.stream(timeout=0)) == []
    stream = table.stream(timeout=3600)
    put(table, 1)
    assert keys_of([next(stream)]) == [(1, 1)]


def test_replay_of_a_stream_gives_the_table(table):
    put(table, 1, 2, 3)
    table.delete("k = 2")
    put(table, 1, v=5)
    state = {}
    for batch in table.stream(start=1, timeout=0):
        for row in batch.data.to_pylist():
            kind = row.pop("_row_kind")
            if kind in ("+I", "+U"):
                state[row["k"]] = row
            elif kind == "-D":
                state.pop(row["k"])
    assert sorted(map(repr, state.values())) == rows(table)


def test_columns_and_filter(table):
    put(table, 1, 2, 3)
    (batch,) = table.stream(columns=["k"], where="k > 1", timeout=0)
    assert batch.data.to_pylist() == [
        {"_row_kind": "+I", "k": 2},
        {"_row_kind": "+I", "k": 3},
    ]


def test_an_unknown_column_is_refused_before_anything_is_read(table):
    with pytest.raises(NotFoundError, match=r"no column 'kk'. Did you mean 'k'"):
        table.stream(columns=["kk"])


@pytest.mark.parametrize(
    ("start", "keys"),
    [
        (None, [1, 2, 3]),
        (2, [2, 3]),
        ("latest", []),
        ("latest-full", [1, 2, 3]),
        (dt.datetime(2100, 1, 1, tzinfo=dt.UTC), []),
        (dt.datetime(2000, 1, 1, tzinfo=dt.UTC), [1, 2, 3]),
    ],
)
def test_where_a_stream_starts(table, start, keys):
    for k in (1, 2, 3):
        put(table, k)
    found = keys_of(table.stream(start=start, timeout=0))
    assert sorted(k for _, k in found) == keys


def test_progress_is_recorded_when_the_next_snapshot_is_asked_for(table):
    for k in (1, 2, 3):
        put(table, k)
    stream = table.stream(start=1, consumer_id="c", timeout=0)
    assert keys_of([next(stream)]) == [(1, 1)]
    assert progress(table) == {"c": 1}
    next(stream)
    assert progress(table) == {"c": 2}
    stream.close()
    assert progress(table) == {"c": 2}
    again = table.stream(start=1, consumer_id="c", timeout=0)  # progress beats the start
    assert keys_of(again) == [(2, 2), (3, 3)]
    assert progress(table) == {"c": 4}
    assert list(table.stream(consumer_id="c", timeout=0)) == []
    put(table, 4)
    assert keys_of(table.stream(consumer_id="c", timeout=0)) == [(4, 4)]


def test_a_full_state_that_was_not_read_to_its_end_is_given_again(fileio):
    table = make(fileio, **{**KEYED, "bucket": "3"})
    put(table, *range(20))
    stream = table.stream(consumer_id="c", timeout=0)
    next(stream)
    stream.close()
    assert progress(table) == {}
    assert len(keys_of(table.stream(consumer_id="c", timeout=0))) == 20
    assert progress(table) == {"c": 2}


def test_what_a_stream_has_not_read_does_not_expire(table):
    for k in range(4):
        put(table, k)
    for start in (2, None):
        stream = table.stream(start=start, timeout=0)
        first = keys_of([next(stream)])
        for k in range(10, 14):
            put(table, k)
        table.maintenance.expire_snapshots(**ALL)
        rest = keys_of(stream)
        assert [k for _, k in first + rest][-4:] == [10, 11, 12, 13]
        assert len(first + rest) == (7 if start else 8 + 4)
    table.maintenance.expire_snapshots(**ALL)
    assert progress(table) == {}
    assert len(table.history()) == 1


def test_a_second_live_run_of_a_consumer_is_refused(table):
    put(table, 1)
    for start in (None, 1):
        stream = table.stream(start=start, consumer_id="c", timeout=0)
        next(stream)
        with pytest.raises(ConflictError, match="in use"):
            next(table.stream(start=start, consumer_id="c", timeout=0))
        stream.close()


def test_an_expired_start_is_refused_with_the_range(table):
    for k in range(4):
        put(table, k)
    table.maintenance.expire_snapshots(**ALL)
    ConsumerLog(table.fileio, table.handle.paths).record("c", 2)
    with pytest.raises(NotFoundError, match="snapshot 2, which has expired: snapshots 4 to 4"):
        list(table.stream(consumer_id="c", timeout=0))
    assert ConsumerLog(table.fileio, table.handle.paths).next_ids() == {"c": 2}


def test_a_consumer_named_like_the_full_phase_of_another_is_left_alone(table):
    put(table, 1)
    for start in (1, None):
        other = table.stream(start=1, consumer_id="x-full", timeout=0)
        assert keys_of(other) == [(1, 1)]
        log = ConsumerLog(table.fileio, table.handle.paths)
        assert log.next_id("x-full") == 2
        assert keys_of(table.stream(start=start, consumer_id="x", timeout=0)) == [(1, 1)]
        assert log.next_ids() == {"x": 2, "x-full": 2}
        assert log.lease("x-full").run_id != log.lease("x").run_id
        for name in ("x", "x-full"):
            reset_consumer(table.handle, name, None)


@pytest.mark.parametrize(
    "wrong", [{"start": object()}, {"start": "sideways"}, {"timeout": -1}, {"timeout": True}]
)
def test_wrong_arguments_are_refused_before_anything_is_read(table, wrong):
    with pytest.raises(InvalidInputError):
        table.stream(**wrong)


def test_follow_ends_when_the_callback_says_so(table):
    for k in (1, 2, 3):
        put(table, k)
    seen = []

    def two(batch):
        seen.append(batch.snapshot_id)
        return len(seen) < 2

    assert table.follow(two, start=1, consumer_id="c") == 2
    assert seen == [1, 2]
    assert progress(table) == {"c": 2}
    assert table.follow(seen.append, consumer_id="c", timeout=0) == 2


def test_a_callback_that_raises_gets_its_batch_again(table):
    put(table, 1)
    with pytest.raises(ZeroDivisionError):
        table.follow(lambda _: 1 / 0, start=1, consumer_id="c", timeout=0)
    assert table.follow(lambda _: None, consumer_id="c", timeout=0) == 1


def test_three_hours_pass_on_a_clock_that_is_moved(fileio, monkeypatch):
    table = make(
        fileio, **KEYED, **{"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2}
    )
    clock = table.handle.env.clock
    put(table, 0)
    waits, commits = [], []
    sleep_ms, began_ms = clock.sleep_ms, clock.now_ms()

    def sleep(duration_ms):
        waits.append(duration_ms)
        sleep_ms(duration_ms)
        if len(commits) < 50 and clock.now_ms() - began_ms > (len(commits) + 1) * 180_000:
            commits.append(len(commits) + 1)
            put(table, commits[-1])

    monkeypatch.setattr(clock, "sleep_ms", sleep)
    found = keys_of(table.stream(start=1, consumer_id="c", timeout=10_800))
    assert [k for _, k in found] == list(range(51))
    assert clock.now_ms() - began_ms > 3 * 3_600_000
    assert (min(waits), max(waits)) == (10, 10_000)
    assert len(waits) < 4_000


def test_a_forked_child_does_not_go_on(table, monkeypatch):
    put(table, 1)
    stream = table.stream(timeout=0)
    next(stream)
    monkeypatch.setattr("tidelake.telemetry.fork._Forks.count", 1)
    with pytest.raises(ClosedError, match="forked"):
        next(stream)


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_hundreds_of_snapshots_leave_files_threads_and_consumers_as_they_were(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", {"k": "BIGINT"})
    table.write([{"k": 0}])
    stream = table.stream(start=1, consumer_id="c", timeout=30)
    next(stream)
    files, threads, size = open_files(), threading.active_count(), None
    for k in range(1, SIZE.followed_snapshots + 1):
        table.write([{"k": k}])
        batch = next(stream)
        assert keys_of([batch]) == [(k + 1, k)]
        if k in (100, SIZE.followed_snapshots):
            held = tidelake_memory()
            assert size is None or held < size + 24 * 1024
            size = held
    assert open_files() <= files + 1
    assert threading.active_count() <= threads + 1
    assert len(list((tmp_path / "db.db/t/consumer").iterdir())) == 2
    stream.close()
    assert open_files() < files


def tidelake_memory():
    """Resident memory of this process, KiB."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


FOLLOWER = """
import sys, tidelake
table = tidelake.open(sys.argv[1]).table("db.t")
try:
    for batch in table.stream(consumer_id="c"):
        print(batch.snapshot_id, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_stream_that_waits_and_lets_its_consumer_go(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", {"k": "BIGINT"})
    table.write([{"k": 1}])
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "1\n"
        table.write([{"k": 2}])
        assert child.stdout.readline() == "2\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(20) == 0
    table.write([{"k": 3}])
    found = keys_of(table.stream(consumer_id="c", timeout=0))
    assert found in ([(3, 3)], [(2, 2), (3, 3)])  # whether it had asked for more yet


def test_a_stream_that_is_left_gives_its_consumer_up(table):
    put(table, 1)
    with contextlib.closing(table.stream(start=1, consumer_id="c")) as stream:
        for _ in stream:
            break
    assert ConsumerLog(table.fileio, table.handle.paths).lease("c").is_closed


def test_work_of_every_kind_replays_to_the_table(fileio):
    table = make(fileio, **KEYED)
    work(table, 6)
    changes = [batch.data for batch in table.stream(start=1, timeout=0)]
    state = {}
    for row in (row for batch in changes for row in batch.to_pylist()):
        kind = row.pop("_row_kind")
        if kind in ("+I", "+U"):
            state[row["k"]] = row
        elif kind == "-D":
            state.pop(row["k"], None)
    assert sorted(map(repr, state.values())) == rows(table)


@pytest.mark.parametrize("consumer_id", [None, "c"])
def test_a_tag_s_state_is_given_though_its_snapshot_expired(table, consumer_id):
    put(table, 1)
    table.tags.create("t")
    put(table, 2)
    put(table, 3)
    table.maintenance.expire_snapshots(retain_max=2, retain_min=2)
    options = {"scan.mode": "from-snapshot-full", "scan.tag-name": "t"}
    stream = table.stream(options=options, consumer_id=consumer_id, timeout=0)
    first = next(stream)
    assert (
        table.maintenance.expire_snapshots(**ALL).ids == ()
    )  # the changes behind the tag are held
    assert keys_of([first, *stream]) == [(1, 1), (2, 2), (3, 3)]
    assert progress(table) == ({} if consumer_id is None else {"c": 4})
    table.maintenance.expire_snapshots(**ALL)
    with pytest.raises(NotFoundError, match="no longer has snapshot 2"):
        list(table.stream(options=options, timeout=0))


@pytest.mark.parametrize("given", ["1", True, -1, float("nan"), b"1"])
def test_a_timeout_is_a_number_of_seconds(table, given):
    with pytest.raises(InvalidInputError, match="must be a number of seconds from 0 on"):
        table.stream(timeout=given)


PRODUCERS = ("none", "input", "lookup", "full-compaction")


def leaves_of_a_filter(producer):
    """A table whose rows come to a filter on v, go from it, and are deleted by key."""
    table = make(MemoryFileIO(), **{**KEYED, "changelog-producer": producer})
    for values in ({1: 9, 2: 9, 3: 1}, {1: 1, 3: 9}, {1: 9}, {4: 9, 5: 1}):
        table.write([{"k": k, "v": v, "p": "a"} for k, v in values.items()])
    table.delete([{"k": 2}])
    table.delete([{"k": 3}])
    table.write([{"k": 3, "v": 7, "p": "a"}])
    if producer == "full-compaction":
        table.compact(full=True)
    return table


def folded(batches, state=None):
    state = {} if state is None else state
    for batch in batches:
        for row in batch.data.to_pylist():
            if row.pop("_row_kind") in ("+I", "+U"):
                state[row["k"]] = row["v"]
            else:
                state.pop(row["k"], None)
    return state


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("start", [1, "latest-full"])
def test_issue_36_a_row_that_leaves_a_filter_leaves_the_target(producer, start):
    table = leaves_of_a_filter(producer)
    kept = {r["k"]: r["v"] for r in table.to_arrow(where="v > 5").to_pylist()}
    assert folded(table.stream(start=start, where="v > 5", timeout=0)) == kept == {1: 9, 3: 7, 4: 9}
    both = folded(table.stream(start=start, where="v > 5 AND k > 1", timeout=0))
    assert both == {3: 7, 4: 9}
    assert folded(table.stream(start=start, where="k > 1", timeout=0)) == {3: 7, 4: 9, 5: 1}


@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_filter_on_changes_without_old_rows_needs_the_key(producer):
    table = leaves_of_a_filter(producer)
    with pytest.raises(UnsupportedError, match=r"lack 'k'.*'changelog-producer' to 'lookup'"):
        table.stream(columns=["v"], where="v > 5")
    given = [b.data.num_rows for b in table.stream(columns=["v"], where="k > 4", timeout=0)]
    assert given == [1]


@pytest.mark.parametrize("producer", ["none", "input"])
def test_the_first_state_leaves_out_what_a_filter_drops(producer):
    table = leaves_of_a_filter(producer)
    kinds = [
        row["_row_kind"]
        for batch in table.stream(start="latest-full", where="v > 5", timeout=0)
        for row in batch.data.to_pylist()
    ]
    assert kinds == ["+I"] * 3


@pytest.mark.parametrize(
    ("producer", "mode"),
    [
        ("none", "delta"),
        ("input", "changelog"),
        ("lookup", "changelog"),
        ("lookup", "delta"),
        ("none", "diff"),
    ],
)
def test_issue_36_changes_with_a_filter_fold_to_its_rows(producer, mode):
    table = leaves_of_a_filter(producer)
    state = {}
    for row in table.changes(0, where="v > 5", mode=mode).to_pylist():
        if row.pop("_row_kind") in ("+I", "+U"):
            state[row["k"]] = row["v"]
        else:
            state.pop(row["k"], None)
    assert state == {1: 9, 3: 7, 4: 9}


OPEN_AT_THE_END = """
import sys, tidelake
table = tidelake.open(sys.argv[1]).table("db.t")
anonymous = table.stream(timeout=0)
named = table.stream(consumer_id="c", timeout=0)
waiting = table.stream(start="latest", consumer_id="w")
for stream in (anonymous, named):
    next(stream)
table.history = anonymous  # in a cycle with a global
print("read")
"""


def test_issue_36_streams_that_are_open_at_the_interpreters_end_are_closed(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", {"k": "INT", "v": "INT", "p": "STRING"})
    put(table, 1)
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AT_THE_END, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "read\n", "")
    log = ConsumerLog(table.fileio, table.handle.paths)
    assert log.next_ids() == {}
    assert all(state.lease.is_closed for state in log.states().values())


@pytest.mark.parametrize("begun", [1, 2])
def test_issue_36_a_consumer_in_its_first_full_state_is_in_use(fileio, begun):
    table = make(fileio, bucket="-1")
    for k in (1, 2, 3):
        put(table, k)
    stream = table.stream(consumer_id="c", timeout=0)
    for _ in range(begun):
        next(stream)
    handle = table.handle
    for refused in (
        lambda: reset_consumer(handle, "c", 3),
        lambda: reset_consumer(handle, "c", None),
        lambda: clear_consumers(handle, "c"),
        lambda: next(table.stream(consumer_id="c", timeout=0)),
        lambda: next(table.stream(start="latest", consumer_id="c", timeout=0)),
        lambda: next(table.stream(start=1, consumer_id="c", timeout=0)),
    ):
        with pytest.raises(ConflictError, match=r"'c(-full-.*)?' of table 'db.t' is in use"):
            refused()
    assert len(list(stream)) == 3 - begun
    assert ConsumerLog(fileio, handle.paths).next_ids() == {"c": 4}
    reset_consumer(handle, "c", 3)
    assert [b.snapshot_id for b in table.stream(consumer_id="c", timeout=0)] == [3]


def test_issue_36_a_state_that_was_cut_off_is_given_again_whole(fileio):
    table = make(fileio, bucket="-1")
    for k in (1, 2, 3):
        put(table, k)
    first = table.stream(start="latest-full", consumer_id="c", timeout=0)
    next(first)
    first.close()
    table.maintenance.expire_snapshots(**ALL)
    again = [row["k"] for b in table.stream(start="latest", consumer_id="c", timeout=0)
             for row in b.data.to_pylist()]  # fmt: skip
    assert sorted(again) == [1, 2, 3]
    assert list(table.stream(start="latest-full", consumer_id="c", timeout=0)) == []


def test_issue_36_what_a_killed_first_state_held_goes_with_its_consumer(fileio, monkeypatch):
    table = make(fileio, bucket="-1")
    for k in (1, 2):
        put(table, k)
    log, handle = ConsumerLog(fileio, table.handle.paths), table.handle

    def killed():
        stream = table.stream(start="latest-full", consumer_id="c", timeout=0)
        next(stream)
        with monkeypatch.context() as patch:
            patch.setattr(StreamLease, "close", lambda *_, **__: None)
            stream.close()
        handle.env.clock.sleep_ms(LEASE_TIMEOUT_MS)

    for remove in (
        lambda: clear_consumers(handle, "c"),
        lambda: reset_consumer(handle, "c", None),
        lambda: list(table.stream(consumer_id="c", timeout=0)),
        lambda: list(
            table.stream(
                start=2,
                consumer_id="c",
                options={"consumer.ignore-progress": True},
                timeout=0,
            )
        ),
    ):
        killed()
        assert set(log.next_ids()) == {state_holder("c")}
        remove()
        assert set(log.next_ids()) <= {"c"}
        clear_consumers(handle)


@pytest.mark.parametrize("key", ["scan.snapshot-id", "scan.mode", "scan.timestamp-millis"])
def test_issue_36_a_start_and_an_option_that_both_say_where_it_begins_are_refused(table, key):
    put(table, 1)
    with pytest.raises(InvalidInputError, match=rf"start=2 and the option '{key}'") as raised:
        table.stream(start=2, options={key: 3})
    assert raised.value.kind == "two_moments"
