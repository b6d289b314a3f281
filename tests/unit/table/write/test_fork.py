"""A process that has read and written forks: its children read and write, and touch nothing of its.

Servers and loaders do so (gunicorn, Celery, PyTorch). What hangs is killed after some seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from proving.forked import answer_of, answers, fork

import tidelake
from tidelake import ClosedError

ROWS = 2_000
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(first: int, count: int = ROWS, value: str = "a") -> pa.Table:
    return pa.table({"k": range(first, first + count), "v": [value] * count}, schema=SCHEMA)


@pytest.fixture(params=["parquet", "avro", "orc"])
def used(request, tmp_path):
    """A table of eight buckets that this process has written, compacted and read."""
    catalog = tidelake.open(str(tmp_path / "warehouse"))
    options = {"bucket": "8", "file.format": request.param}
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)
    table.write(rows(0))
    table.write(rows(0, value="b"))
    table.compact(full=True)
    assert table.to_arrow().num_rows == ROWS
    return table


def data_files(table):
    return {p.name for p in pathlib.Path(table.paths.location).rglob("data-*")}


def read_write_compact(table, who: int) -> int:
    first = ROWS * (who + 1)
    table.write(rows(first))
    table.delete(f"k = {first}")
    table.compact(full=True)
    return table.count()


def test_a_child_reads_writes_and_compacts_after_the_parent_did(used):
    assert answer_of(fork(lambda: used.to_arrow().num_rows)) == ROWS
    assert answer_of(fork(lambda: read_write_compact(used, 1))) == 2 * ROWS - 1
    assert used.to_arrow().num_rows == 2 * ROWS - 1
    assert used.compact(full=True) is not None


def test_children_side_by_side_lose_nothing(used):
    def write(who: int) -> int:
        for i in range(3):
            used.write(rows(ROWS * (3 * who + i + 1)))
        return used.count()

    answers([lambda who=who: write(who) for who in range(4)], seconds=60)
    got = used.to_arrow(columns=["k"]).column("k").to_pylist()
    assert len(got) == ROWS * 13
    assert set(got) == set(range(ROWS * 13))


def test_a_child_of_a_child_of_a_child_writes(used):
    def deeper(levels: int) -> int:
        if not levels:
            return read_write_compact(used, 0)
        used.to_arrow()
        return answer_of(fork(lambda: deeper(levels - 1)))

    assert answer_of(fork(lambda: deeper(3)), seconds=60) == 2 * ROWS - 1


def test_a_fork_in_the_midst_of_another_threads_reads_and_writes_hangs_nobody(used):
    stop = threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            used.to_arrow()
            used.write(rows(0, 10, value=str(number)))
            number += 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            assert answer_of(fork(lambda: used.to_arrow().num_rows)) == ROWS
            time.sleep(0.01)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _count_in_a_pool(table) -> int:
    return table.to_arrow().num_rows


def test_workers_of_multiprocessing_read(used):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(_count_in_a_pool, [used] * 4)
        assert found.get(timeout=60) == [ROWS] * 4


def test_a_write_session_carried_over_a_fork_is_refused_and_left_to_the_parent(used):
    with used.writer(commit_user="me", commit_identifier=1) as out:
        out.write(rows(ROWS))

        def go_on():
            refused = []
            for step in (lambda: out.write(rows(0)), out.commit):
                try:
                    step()
                except ClosedError as error:
                    refused.append((error.kind, str(os.getpid()) in error.message))
            out.abort()
            return refused

        assert answer_of(fork(go_on)) == [("forked", True)] * 2
        out.write(rows(2 * ROWS))
    assert sorted(used.to_arrow().column("k").to_pylist()) == list(range(3 * ROWS))


UNWINDS = """
import os, sys, pyarrow as pa, tidelake
catalog = tidelake.open(sys.argv[1])
schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
for name, keys in (("keyed", ["k"]), ("rows", [])):
    options = {"bucket": "2", "bucket-key": "k", "write-buffer-size": "256 kb"}
    options |= {"write-buffer-spillable": "true"}
    table = catalog.create_table(f"db.{name}", schema, primary_keys=keys, options=options)
    for n in range(3):
        first = 100_000 * n
        with table.writer() as out:
            out.write(pa.table({"k": range(first, first + 50_000), "v": ["a"] * 50_000}))
            pid = os.fork()
            if pid == 0 and n < 2:
                sys.exit(0)  # through the blocks of the parent, and its finalizers
            if pid:
                assert os.waitpid(pid, 0)[1] >> 8 == (n == 2)
                more = range(first + 50_000, first + 100_000)
                out.write(pa.table({"k": more, "v": ["b"] * 50_000}))
    assert sorted(table.to_arrow().column("k").to_pylist()) == list(range(300_000))
    assert table.latest_snapshot_id <= 6
print("done")
"""


def test_a_child_that_unwinds_the_parents_blocks_takes_nothing_away(tmp_path):
    """Its blocks' ends and finalizers run: open files, spilled rows, what is to be given up."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", UNWINDS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
    assert done.stderr.count("Traceback") == 2, done.stderr
    assert done.stderr.count("open a new one in each process") == 2, done.stderr


def test_a_reader_that_began_before_the_fork_is_refused(used):
    batches = used.scan().batches()
    first = next(batches)

    def go_on():
        try:
            next(batches)
        except ClosedError as error:
            return error.kind
        return "read on"

    assert answer_of(fork(go_on)) == "forked"
    assert first.num_rows + sum(b.num_rows for b in batches) == ROWS


def test_two_children_draw_other_waits_and_names(used):
    env = used.handle.env

    def drawn():
        return env.rng.uniform(0, 1), env.ids.uuid()

    found = [*answers([drawn, drawn]), drawn()]
    assert len(set(found)) == 3
    assert len({wait for wait, _ in found}) == 3
