"""A batch read holds its snapshot: expiry keeps it, and says for whom; nothing stays behind."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from proving.expiring import ALL, make, rows, work

import tidelake
from tidelake import NotFoundError, StorageError
from tidelake.errors import StorageRefusedError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata.log.consumer import LEASE_TIMEOUT_MS, READ_RETAINED_MS, ConsumerLog
from tidelake.options import Options
from tidelake.table.handle.read_hold import WAIT_MS, HoldPolicy
from tidelake.telemetry import Env, ManualClock, ManualKeeper

HELD = {"read.hold": "auto"}
KEEPS_THREE = {"snapshot.num-retained.max": "3", "snapshot.num-retained.min": "1"}
HOUR_MS = 3_600_000
KEYED = {"primary_keys": ["k"], "bucket": "2", **HELD}


@pytest.fixture
def fileio():
    return MemoryFileIO()


@pytest.fixture
def env():
    keeper = ManualKeeper(is_running=True)
    return replace(Env.seeded(9), clock=ManualClock(), keeper=keeper)


@pytest.fixture
def table(fileio, env):
    work(make(fileio, **KEYED), 4)
    return tidelake.open("/w", fileio=fileio, env=env).table("db.t")


def held(table):
    return ConsumerLog(table.fileio, table.handle.paths).next_ids()


def more_comes_and_all_expires(table):
    table.write([{"k": 100, "v": 1, "p": "a"}])
    table.compact(full=True)
    return table.maintenance.expire_snapshots(**ALL)


def test_a_planned_read_is_kept_until_it_closes_and_expiry_says_for_whom(table, env):
    before, newest = rows(table), table.latest_snapshot_id
    with table.scan() as scan:
        (name,) = held(table)
        assert name.startswith("read-")
        assert scan.hold.consumer_id == name
        env.clock.sleep_ms(1_000)
        expired = more_comes_and_all_expires(table)
        assert expired.ids == tuple(range(1, newest))
        assert more_comes_and_all_expires(table).ids == ()
        assert sorted(map(repr, scan.to_arrow().to_pylist())) == before
        (holder,) = table.maintenance.expire_snapshots(**ALL, dry_run=True).held_by
        assert (holder.consumer_id, holder.snapshot_id, holder.is_live) == (name, newest, True)
        assert holder.began_ms == env.clock.now_ms() - 1_000
        assert str(holder).startswith(f"{name} from snapshot {newest} on, since 2023-")
    assert held(table) == {}
    after = table.maintenance.expire_snapshots(**ALL)
    assert (after.ids[0], after.held_by) == (newest, ())


def test_expiry_logs_for_whom_it_keeps_snapshots(table, caplog):
    with table.scan() as scan, caplog.at_level(logging.INFO, "tidelake"):
        more_comes_and_all_expires(table)
        assert f"keeps snapshots for {scan.hold.consumer_id} from" in caplog.text


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.to_arrow(),
        lambda t: t.count(where="v > 3"),
        lambda t: t.to_batches().read_all(),
        lambda t: t.get(3),
        lambda t: t.to_pandas(),
        lambda t: t.plan(),
        lambda t: t.explain(),
        lambda t: t.to_arrow(snapshot_id=2),
    ],
)
def test_a_read_that_is_over_holds_nothing(table, read, env):
    read(table)
    env.keeper.tend()
    assert ConsumerLog(table.fileio, table.handle.paths).states() == {}
    assert env.keeper.kept_count == 0


@pytest.mark.parametrize("view", ["audit_log", "ro"])
def test_a_view_of_rows_is_held_too(table, view):
    found = table.system_table(view)
    scan = found.scan()
    assert len(held(table)) == 1
    scan.hold.release()
    found.to_arrow()
    found.count()
    assert held(table) == {}


def test_what_reads_lazily_is_held_until_it_is_dropped(table, env):
    newest = table.latest_snapshot_id
    whole = table.to_arrow().num_rows
    for open_reader in (table.to_batches, lambda: table.scan().batches()):
        reader = open_reader()
        first = next(iter(reader))
        assert held(table) == {next(iter(held(table))): newest}
        more_comes_and_all_expires(table)
        assert first.num_rows + sum(batch.num_rows for batch in reader) == whole
        newest, whole = table.latest_snapshot_id, table.to_arrow().num_rows
        del reader, first
        gc.collect()
        env.keeper.tend()
        assert held(table) == {}


@pytest.mark.parametrize(
    ("plan", "read"),
    [
        (lambda t: t.changes_batches(2), lambda changes: changes.read_all().num_rows),
        (lambda t: t.changes_batches(2, mode="delta"), lambda c: c.read_all().num_rows),
        (lambda t: t.diff(2), lambda diff: diff.to_arrow().num_rows),
        (lambda t: t.diff(2).to_batches(), lambda rows: rows.read_all().num_rows),
    ],
)
def test_changes_are_held_from_the_older_state_on_until_they_are_dropped(table, env, plan, read):
    whole = read(plan(table))
    gc.collect()
    env.keeper.tend()
    assert held(table) == {}
    planned = plan(table)
    assert list(held(table).values()) in ([2], [3])
    assert more_comes_and_all_expires(table).ids[-1] < 3
    assert read(planned) == whole
    del planned
    gc.collect()
    env.keeper.tend()
    assert held(table) == {}


def test_a_diff_with_a_tag_holds_the_snapshot_that_no_tag_keeps(table):
    table.tags.create("old", snapshot_id=1)
    more_comes_and_all_expires(table)
    newest = table.latest_snapshot_id
    diff = table.diff("old")
    assert list(held(table).values()) == [newest]
    assert diff.counts()


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.delete("v > 0"),
        lambda t: t.update({"v": 5}, "k = 3"),
        lambda t: t.upsert([{"k": 2, "p": "a", "v": 7}], columns=["v"]),
        lambda t: t.bisect("v not in (13, 33)"),
        lambda t: t.blame(3),
    ],
    ids=["delete", "update", "upsert of columns", "bisect", "blame"],
)
def test_a_change_of_rows_and_a_search_hold_what_they_read(
    table, env, fileio, keyed, change, request, monkeypatch
):
    if not keyed:
        if request.node.callspec.id.startswith(("upsert", "blame")):
            return
        work(make(fileio, name="db.a", **HELD, **{"deletion-vectors.enabled": "true"}), 2)
        table = tidelake.open("/w", fileio=fileio, env=env).table("db.a")
    log, seen = ConsumerLog(table.fileio, table.handle.paths), []
    real = type(fileio).open_input

    def opened(self, path, *args, **how):
        if "/data-" in path:
            seen.append(len(log.next_ids()))
        return real(self, path, *args, **how)

    monkeypatch.setattr(type(fileio), "open_input", opened)
    change(table)
    assert seen
    assert set(seen) == {1}
    env.keeper.tend()
    assert held(table) == {}


def test_a_kept_scan_is_held_and_renewed_until_the_garbage_collector_has_it(table, env):
    before, scan = rows(table), table.scan()
    for _ in range(3 * READ_RETAINED_MS // LEASE_TIMEOUT_MS):
        env.clock.sleep_ms(LEASE_TIMEOUT_MS)
        env.keeper.tend()
    more_comes_and_all_expires(table)
    assert sorted(map(repr, scan.to_arrow().to_pylist())) == before
    del scan
    gc.collect()
    assert len(held(table)) == 1  # a finalizer calls no storage
    env.keeper.tend()
    assert held(table) == {}


def test_without_a_sign_a_hold_lapses(table, env):
    scan, newest = table.scan(), table.latest_snapshot_id
    env.clock.sleep_ms(READ_RETAINED_MS)
    assert newest not in more_comes_and_all_expires(table).ids
    env.clock.sleep_ms(2 * LEASE_TIMEOUT_MS)
    assert newest in more_comes_and_all_expires(table).ids
    with pytest.raises(NotFoundError, match="expired") as lost:
        scan.to_arrow()
    assert lost.value.kind == "snapshot_expired"
    env.keeper.tend()  # a stopped process goes on: nothing is held for what is lost
    assert held(table) == {}


def test_a_hold_that_was_forgotten_while_the_process_stood_still_comes_back(table, env):
    scan, newest = table.scan(), table.latest_snapshot_id
    ConsumerLog(table.fileio, table.handle.paths).delete(scan.hold.consumer_id)
    env.clock.sleep_ms(LEASE_TIMEOUT_MS)
    env.keeper.tend()
    assert held(table) == {scan.hold.consumer_id: newest}


def test_metadata_answers_hold_nothing(table, fileio):
    table.compact(full=True)
    calls = []
    fileio.replace = lambda path, *_, **__: calls.append(path)
    table.count()
    table.explain()
    table.system_table("snapshots").to_arrow()
    table.system_table("files").to_arrow()
    assert calls == []


def test_a_tag_keeps_its_rows_without_a_hold(table):
    table.tags.create("kept", snapshot_id=2)
    for how in ({"tag": "kept"}, {"options": {"scan.tag-name": "kept"}}):
        scan = table.scan(**how)
        assert held(table) == {}
        more_comes_and_all_expires(table)
        assert scan.to_arrow().num_rows > 0


def test_a_table_that_may_not_be_written_is_read_and_tried_once(table, fileio, caplog):
    tried, before = [], rows(table)

    def refused(path, *_, **__):
        tried.append(path)
        raise StorageRefusedError("Read-only file system", kind="not_writable")

    fileio.replace = refused
    with caplog.at_level(logging.INFO, "tidelake"):
        for _ in range(3):
            assert rows(table) == before
    assert len(tried) == 1
    assert [record.levelname for record in caplog.records] == ["INFO"]
    with pytest.raises(StorageError, match="Read-only"):
        table.to_arrow(options={"read.hold": "always"})


def test_a_storage_that_fails_fails_no_read(table, fileio):
    before, tried, real = rows(table), [], fileio.replace

    def fails(path, data, **how):
        tried.append(path)
        if "consumer-" in path:
            raise StorageError("no answer")
        real(path, data, **how)

    fileio.replace = fails
    assert rows(table) == before
    assert rows(table) == before
    assert len(tried) == 4
    assert ConsumerLog(fileio, table.handle.paths).states() == {}


def test_never_writes_nothing_and_a_bad_value_is_refused(table, fileio):
    fileio.replace = fileio.open_dir = None
    assert table.to_arrow(options={"read.hold": "never"}).num_rows > 0
    with pytest.raises(tidelake.InvalidInputError, match=r"read\.hold"):
        table.to_arrow(options={"read.hold": "sometimes"})


def test_without_a_running_keeper_only_always_holds(fileio, table):
    still = tidelake.open("/w", fileio=fileio, env=Env.seeded(3)).table("db.t")
    scan = still.scan()
    assert held(table) == {}
    scan = still.scan(options={"read.hold": "always"})
    assert len(held(table)) == 1
    scan.close()
    assert held(table) == {}


@pytest.mark.parametrize(
    ("options", "is_remote", "is_old", "wait_ms"),
    [
        ({}, False, False, 0),
        ({}, True, False, WAIT_MS),
        ({}, True, True, 0),
        ({"read.hold": "always"}, True, False, 0),
        (KEEPS_THREE, True, False, 0),
        ({"snapshot.num-retained.max": "30"}, True, False, WAIT_MS),
        ({"snapshot.time-retained": "1 min"}, True, False, 0),
        ({"read.hold": "late"}, False, False, HOUR_MS // 4),
        ({"read.hold": "late"}, True, True, HOUR_MS // 4),
        ({"read.hold": "late", "snapshot.time-retained": "4 d"}, False, False, 24 * HOUR_MS),
        ({"read.hold": "late", "snapshot.time-retained": "1 min"}, False, False, 0),
        ({"read.hold": "late", "snapshot.time-retained": "1 min"}, True, False, WAIT_MS),
        ({"read.hold": "late", **KEEPS_THREE}, False, False, 0),
        ({"read.hold": "late", "snapshot.num-retained.max": "30"}, False, False, WAIT_MS),
        ({"read.hold": "late", "snapshot.num-retained.max": "30"}, True, False, WAIT_MS),
    ],
)
def test_a_read_waits_with_its_hold_where_it_costs_and_nothing_threatens(
    options, is_remote, is_old, wait_ms
):
    policy = HoldPolicy(Options.parse({**HELD, **options}, table="db.t"), is_remote, is_old)
    assert policy.wait_ms == wait_ms


def test_a_late_hold_comes_sooner_for_a_snapshot_that_is_near_its_end(fileio, env):
    work(make(fileio, primary_keys=["k"], bucket="2"), 3)
    made = tidelake.open("/w", fileio=fileio, env=env)
    env.clock.sleep_ms(10 * HOUR_MS)  # no commit: it goes when the next ten come
    table = made.table("db.t")
    scan = table.scan()
    env.clock.sleep_ms(WAIT_MS - 1)
    env.keeper.tend()
    assert held(table) == {}
    env.clock.sleep_ms(1)
    env.keeper.tend()
    assert len(held(table)) == 1
    scan.close()
    table.write([{"k": 1, "v": 1, "p": "a"}])
    before, scan = rows(table), table.scan()
    env.clock.sleep_ms(HOUR_MS // 4 - 1)
    env.keeper.tend()
    assert held(table) == {}
    env.clock.sleep_ms(1)
    env.keeper.tend()
    more_comes_and_all_expires(table)
    assert sorted(map(repr, scan.to_arrow().to_pylist())) == before
    scan.close()
    assert held(table) == {}


def test_a_snapshot_of_a_clock_that_is_ahead_counts_as_new(fileio, env):
    work(make(fileio, primary_keys=["k"], bucket="2"), 3)
    env.clock.sleep_ms(-10 * HOUR_MS)
    table = tidelake.open("/w", fileio=fileio, env=env).table("db.t")
    scan = table.scan()
    assert scan.hold.waits_ms == HOUR_MS // 4
    scan.close()


def test_what_outlives_its_process_lapses_after_an_hour(table, env):
    before = rows(table)
    scan = table.scan()
    scan.hold.outlive()
    (name,) = held(table)
    assert ConsumerLog(table.fileio, table.handle.paths).lease(name).process == ""
    env.keeper.tend()
    assert env.keeper.kept_count == 0
    assert table.latest_snapshot_id not in more_comes_and_all_expires(table).ids
    assert sorted(map(repr, scan.to_arrow().to_pylist())) == before
    scan.close()
    env.clock.sleep_ms(READ_RETAINED_MS + LEASE_TIMEOUT_MS)
    more_comes_and_all_expires(table)
    assert held(table) == {}


class Remote(MemoryFileIO):
    is_remote = True


def test_on_a_remote_storage_a_short_read_writes_nothing_and_a_long_one_is_held(env):
    fileio = Remote()
    work(make(fileio, **KEYED), 4)
    table = tidelake.open("/w", fileio=fileio, env=env).table("db.t")
    real, fileio.replace = fileio.replace, None
    before = rows(table)
    scan = table.scan()
    fileio.replace = real
    env.keeper.tend()
    assert held(table) == {}
    env.clock.sleep_ms(WAIT_MS)
    env.keeper.tend()
    assert len(held(table)) == 1
    more_comes_and_all_expires(table)
    assert sorted(map(repr, scan.to_arrow().to_pylist())) == before
    scan.close()
    assert held(table) == {}
    scan = table.scan()
    del scan
    gc.collect()
    env.clock.sleep_ms(WAIT_MS)
    env.keeper.tend()
    assert held(table) == {}


def test_copies_by_pickle_hold_nothing(table):
    scan = table.scan()
    copy = pickle.loads(pickle.dumps(scan.hold))
    assert copy.consumer_id is None
    copy.release()
    assert len(held(table)) == 1
    scan.close()


def local(tmp_path, **options):
    table = tidelake.open(str(tmp_path)).create_table(
        "db.t", {"k": "INT"}, options={**HELD, **options}
    )
    for k in range(3):
        table.append([{"k": k}])
    return table


def test_a_forked_child_does_not_end_what_its_parent_holds(tmp_path):
    table = local(tmp_path)
    scan = table.scan()
    pid = os.fork()
    if pid == 0:
        try:
            scan.close()
            del scan
            gc.collect()
            os._exit(0 if table.to_arrow().num_rows == 3 else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(held(table)) >= 1
    assert scan.hold.consumer_id in held(table)
    scan.close()


def test_threads_that_read_beside_commits_and_expiry_read_to_the_end(tmp_path):
    table = local(tmp_path, **{"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"})
    counts, errors = [], []

    def read():
        try:
            for _ in range(8):
                counts.append(sum(batch.num_rows for batch in table.to_batches()))
        except Exception as error:  # noqa: BLE001 - the test shows it
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(8):
        table.append([{"k": k}])
        table.compact(full=True)
        table.maintenance.expire_snapshots(**ALL)
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(counts) == 24


ENDS = """
import os, sys, tidelake
table = tidelake.open(sys.argv[1]).table("db.t")
scan = table.scan()
print(scan.hold.consumer_id)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["in-order", "killed"])
def test_what_a_process_held_ends_with_it(tmp_path, how):
    table = local(tmp_path)
    asked = [sys.executable, "-c", ENDS, str(tmp_path), how]
    ended = subprocess.run(asked, stdout=subprocess.PIPE, check=False)
    assert ended.stdout.startswith(b"read-")
    assert len(held(table)) == (how == "killed")
    assert table.maintenance.expire_snapshots(**ALL).ids == (1, 2)
    table.append([{"k": 9}])
    assert table.maintenance.expire_snapshots(**ALL).ids == (3,)
    assert held(table) == {}
