"""Tables on a real HDFS: processes race and are killed, others read, the doctor looks."""

from __future__ import annotations

import itertools
import re
import time

import hdfs_native
import pyarrow as pa
import pytest
from proving import fsck, kill, race
from sizes import SIZE
from stores.cut import commits_while_cut

import tidelake
from tidelake.cli.main import main
from tidelake.fileio.hdfs.held import ABANDONED_MS, HELD_PREFIX

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])


@pytest.fixture
def warehouse(hdfs, root):
    return hdfs.uri(root)


def rows(table):
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def test_what_a_table_does(warehouse):
    catalog = tidelake.open(warehouse)
    options = {"bucket": "2", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
    t = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    for i in range(4):
        t.write([{"k": 1, "v": f"a{i}"}, {"k": i, "v": "b"}])
    t.delete("k = 2")
    t.compact(full=True)
    t.tags.create("one")
    catalog.rename_table("db.t", "db.u")
    t = catalog.table("db.u")
    t.write([{"k": 9, "v": "z"}])
    t.rollback_to("one")
    t.maintenance.expire_snapshots()
    assert (
        rows(t) == rows(tidelake.open(warehouse).table("db.u")) == [(0, "b"), (1, "a3"), (3, "b")]
    )
    listed = catalog.fileio.list_dir(f"{t.handle.paths.location}/snapshot")
    shown = {status.name for status in listed}
    assert not [name for name in shown if name.startswith(".")]
    fsck.check_table(catalog.fileio, t.handle.paths.location)
    catalog.drop_table("db.u")
    assert catalog.list_tables("db") == []


def test_what_dead_processes_left_is_cleared_by_a_commit(hdfs, root, warehouse):
    catalog = tidelake.open(warehouse)
    t = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    t.write([{"k": 1, "v": "a"}])
    directory = f"{t.handle.paths.location}/snapshot"
    client = hdfs_native.Client(hdfs.uri())
    hour_ago_ms = int(time.time() * 1000) - ABANDONED_MS
    for name, changed_ms in (("dead", hour_ago_ms - 60_000), ("alive", hour_ago_ms + 60_000)):
        client.mkdirs(f"{directory}/{HELD_PREFIX}{name}/half", 0o755, True)
        client.set_times(f"{directory}/{HELD_PREFIX}{name}", changed_ms, changed_ms)
    tidelake.open(warehouse).table("db.t").write([{"k": 2, "v": "b"}])  # as another process
    left = {status.path.rpartition("/")[2] for status in client.list_status(directory, False)}
    assert {name for name in left if name.startswith(HELD_PREFIX)} == {f"{HELD_PREFIX}alive"}


@pytest.mark.timeout(5 * 3600)
def test_four_processes_lose_no_commit(warehouse, tmp_path):
    figures = race.race(
        tmp_path,
        processes=4,
        commits=SIZE.race_commits,
        options={"bucket": "2", "num-sorted-run.compaction-trigger": "5"},
        warehouse=warehouse,
    )
    print("hdfs", figures)
    assert (figures["lost"], figures["doubled"]) == (0, 0)


@pytest.mark.timeout(5 * 3600)
def test_a_writer_that_is_killed_loses_no_acknowledged_row(warehouse, tmp_path):
    figures = kill.kills(tmp_path, count=SIZE.kills, seed=11, warehouse=warehouse)
    print("hdfs", figures)
    assert figures["lost"] == 0


@pytest.mark.timeout(3600)
def test_commits_go_on_while_name_nodes_take_turns(two_name_nodes, root):
    nodes = itertools.cycle(("failover 0 1", "failover 1 0"))
    keys = two_name_nodes.service("turns")
    figures = commits_while_cut(
        f"hdfs://turns{root}", keys, lambda _: two_name_nodes.do(next(nodes)), SIZE.kills // 2
    )
    print("hdfs, failovers", figures)


@pytest.mark.timeout(3600)
def test_commits_go_on_after_a_name_node_has_started_again(hdfs, warehouse):
    figures = commits_while_cut(warehouse, {}, lambda _: hdfs.do("restart"), SIZE.kills // 3)
    print("hdfs, restarts", figures)


def test_the_doctor_finds_nothing_wrong_and_leaves_nothing(root, warehouse, capsys):
    words = ["doctor", "storage", "-w", warehouse, "--processes", "3", "--names", "30"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    print(shown)
    assert "FAIL" not in shown
    for line in ("answers", "conditional writes", "directories", "race of processes", "cleaned up"):
        assert re.search(rf"^pass  {line}: ", shown, re.MULTILINE)
    files = tidelake.open(warehouse).fileio
    left = [status.name for status in files.list_dir(root)]
    assert not [name for name in left if "doctor" in name]
