"""Splits that are read beside each other give the rows of splits that are read in turn."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.forked import answer_of, fork
from waiting import SECONDS_MAX, until

import tidelake
from tidelake import col
from tidelake.errors import ClosedError, CorruptError
from tidelake.fileio import MemoryFileIO
from tidelake.table.read import table_scan
from tidelake.telemetry import Env, Memory, SerialExecutor

BUCKETS = 9
SCHEMA = pa.schema({"k": pa.int64(), "a": pa.string()})


@pytest.fixture
def rows_table(monkeypatch) -> tidelake.Table:
    """Two overlapping runs in each of nine buckets, which count as a large read."""
    monkeypatch.setattr(table_scan, "AHEAD_BYTES_MIN", 1)
    catalog = tidelake.open("/lake", fileio=MemoryFileIO(), env=Env.system())
    options = {"bucket": str(BUCKETS), "write-only": "true"}
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["k"], options=options)
    for first in (0, 500):
        keys = np.arange(first, first + 1000)
        table.write(pa.table({"k": keys, "a": [f"{k} of {first}" for k in keys]}))
    return table


def in_turn(table: tidelake.Table) -> pa.Table:
    scan = table.scan()
    env = replace(scan.context.env, executor=SerialExecutor())
    return replace(scan, context=replace(scan.context, env=env)).reader().read_all()


def watched(monkeypatch) -> list[str]:
    """For each split, in the order in which they begin, the name of the thread that begins it."""
    names: list[str] = []
    read = table_scan.TableRows.read

    def noted(self, split):
        names.append(threading.current_thread().name)
        return read(self, split)

    monkeypatch.setattr(table_scan.TableRows, "read", noted)
    return names


def test_the_rows_come_in_the_order_of_the_splits(rows_table, monkeypatch):
    alone = in_turn(rows_table)
    assert len(rows_table.scan().plan.splits) == BUCKETS
    threads = watched(monkeypatch)
    assert rows_table.to_batches().read_all().equals(alone)
    own = threading.current_thread().name
    assert (threads.count(own), len(threads)) == (1, BUCKETS)  # the first split waits for none
    assert alone.num_rows == 1500
    assert rows_table.to_arrow().equals(alone)


def test_large_beginnings_leave_the_rest_for_its_turn(rows_table, monkeypatch):
    memory = replace(rows_table.handle.env.memory, read_ahead_bytes=1)
    scan = rows_table.scan()
    env = replace(scan.context.env, memory=memory)
    scan = replace(scan, context=replace(scan.context, env=env))
    assert scan.reader().read_all().equals(in_turn(rows_table))


def test_a_limit_or_a_small_read_takes_no_thread(rows_table, monkeypatch):
    threads = watched(monkeypatch)
    assert rows_table.to_batches(limit=1200).read_all().num_rows == 1200
    monkeypatch.setattr(table_scan, "AHEAD_BYTES_MIN", 1 << 30)
    assert rows_table.to_batches().read_all().num_rows == 1500
    assert set(threads) == {threading.current_thread().name}


def test_a_read_that_is_left_has_no_thread_at_work_and_no_open_file(rows_table, monkeypatch):
    fileio = rows_table.handle.fileio
    opened: list[pa.NativeFile] = []
    plain = fileio.open_input

    def slow(path: str) -> pa.NativeFile:
        time.sleep(0.01)
        opened.append(plain(path))
        return opened[-1]

    monkeypatch.setattr(fileio, "open_input", slow)
    batches = rows_table.scan().batches()
    next(batches)
    batches.close()
    count = len(opened)
    assert all(file.closed for file in opened)
    time.sleep(0.1)
    assert len(opened) == count < 2 * BUCKETS


def test_an_error_comes_in_its_turn(rows_table):
    scan = rows_table.scan()
    splits = scan.plan.splits
    file = splits[5].files[0]
    path = scan.context.paths.data_file(splits[5].partition, splits[5].bucket, file)
    before = sum(replace_splits(scan, splits[:5]))
    rows_table.handle.fileio.delete(path)
    rows_table.handle.fileio.write_once(path, b"PAR1 damaged PAR1")
    found = []
    with pytest.raises(CorruptError):
        found += (batch.num_rows for batch in scan.batches())
    assert sum(found) == before


def replace_splits(scan, splits) -> list[int]:
    return [b.num_rows for b in replace(scan, plan=replace(scan.plan, splits=splits)).batches()]


class Batches:
    """Splits of made batches, each after a while; `goes_on` holds back all but the first ones."""

    context = SimpleNamespace(uri="/lake/d.t", env=Env.system())
    fields = ()

    def __init__(self, *, count: int = 20, seconds: float = 0.0) -> None:
        self.splits = [SimpleNamespace(size_bytes=1 << 30, number=n) for n in range(6)]
        self.came = [0] * 6
        self.goes_on = threading.Event()
        self.goes_on.set()
        self._count, self._seconds = count, seconds
        self.memory: Memory | None = None

    def within(self, memory):
        self.memory = memory
        return self

    def read(self, split):
        for number in range(self._count):
            assert number == 0 or self.goes_on.wait(SECONDS_MAX)
            time.sleep(self._seconds)
            self.came[split.number] += 1
            yield pa.record_batch({"a": [split.number]})


def test_the_first_rows_wait_for_nothing_of_their_split_or_others():
    rows = Batches()
    rows.goes_on.clear()
    batches = table_scan.stream(rows, rows.splits, None)
    next(batches)
    assert rows.came[0] == 1
    assert not any(rows.came[4:])
    rows.goes_on.set()
    assert sum(1 for _ in batches) == 6 * 20 - 1


def test_one_thread_reads_batch_after_batch():
    rows = Batches()
    rows.context = SimpleNamespace(
        uri="/lake/d.t", env=replace(Env.system(), executor=SerialExecutor())
    )
    for number, _ in enumerate(table_scan.stream(rows, rows.splits, None), 1):
        assert sum(rows.came) == number


def test_a_read_that_is_left_waits_for_no_rows_that_match(monkeypatch):
    monkeypatch.setattr(table_scan, "AHEAD_BYTES_MIN", 1)
    catalog = tidelake.open("/lake", fileio=MemoryFileIO(), env=Env.system())
    schema = pa.schema({"p": pa.int32(), "a": pa.string()})
    table = catalog.create_table("d.t", schema, partition_keys=["p"])
    for p in range(4):
        texts = ["a", "z"] * 2000 if p else ["a", "m"] * 2000
        table.write(pa.table({"p": [p] * 4000, "a": texts}).cast(schema))
    came, plain = [0], pq.ParquetFile.iter_batches

    def small(file, _rows, *args, **kwargs):
        for batch in plain(file, 4, *args, **kwargs):
            time.sleep(0.02)
            came[0] += 1
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", small)
    batches = table.scan(where=col("a") == "m").batches()
    assert next(batches).num_rows
    until(lambda: came[0] >= 10)
    batches.close()
    assert came[0] < 600  # of 4,000


def test_a_child_refuses_a_read_whose_threads_are_in_the_midst_of_a_batch():
    rows = Batches(count=2, seconds=0.05)
    batches = table_scan.stream(rows, rows.splits, None)
    next(batches)

    def go_on() -> str:
        try:
            next(batches)
        except ClosedError as error:
            return error.kind
        return "read"

    assert answer_of(fork(go_on)) == "forked"
    assert sum(1 for _ in batches) == 11


def test_all_splits_are_closed_if_one_fails_to(monkeypatch):
    memory = replace(Env.system().memory, read_ahead_bytes=1)
    rows, closed, kept = Batches(), [], []
    rows.context = SimpleNamespace(uri="/lake/d.t", env=replace(Env.system(), memory=memory))

    def failing(rows, split):
        try:
            yield from rows.read(split)
        finally:
            closed.append(split.number)
            if split.number:
                raise OSError(str(split.number))

    def stubborn(rows, split):
        kept.append(failing(rows, split))  # so that nothing but a call closes it
        return kept[-1]

    monkeypatch.setattr(table_scan, "_wanted", stubborn)
    batches = table_scan.stream(rows, rows.splits, None)
    next(batches)
    until(lambda: sum(rows.came[1:4]) >= 3)
    with pytest.raises(OSError, match="1"):
        batches.close()
    assert sorted(closed) == [0, 1, 2, 3]


@pytest.mark.parametrize("tasks", [1, 2, 3])
def test_as_many_splits_are_open_as_tasks_fit_the_memory(tasks):
    memory = Memory.of(tasks * 512 << 20)
    rows = Batches()
    rows.goes_on.clear()
    rows.context = SimpleNamespace(uri="/lake/d.t", env=replace(Env.system(), memory=memory))
    batches = table_scan.stream(rows, rows.splits, None)
    next(batches)
    until(lambda: all(rows.came[:tasks]))
    time.sleep(0.1)
    assert [count > 0 for count in rows.came] == [True] * tasks + [False] * (6 - tasks)
    rows.goes_on.set()
    assert sum(1 for _ in batches) == 6 * 20 - 1
    if tasks > 1:
        assert rows.memory is not None
        assert tasks * rows.memory.batch_bytes <= memory.batch_bytes


def test_splits_beside_each_other_are_read_within_their_shares(rows_table, monkeypatch):
    found: list[int] = []
    read = table_scan.TableRows.read

    def noted(self, split):
        found.append(self.context.env.memory.batch_bytes)
        return read(self, split)

    monkeypatch.setattr(table_scan.TableRows, "read", noted)
    assert rows_table.to_batches().read_all().num_rows == 1500
    assert set(found) == {rows_table.handle.env.memory.batch_bytes // 4}
