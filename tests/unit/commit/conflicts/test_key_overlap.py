"""What others wrote since is compared by keys: what is a conflict, what is not, and the bounds."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from proving.fsck import check_table

import tidelake
from tidelake.commit.conflicts import key_overlap
from tidelake.errors import ConflictError
from tidelake.fileio import MemoryFileIO
from tidelake.table.write import transaction
from tidelake.telemetry import Env

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


class Rival(MemoryFileIO):
    """Another writer commits before each put of a snapshot of ours, at most `times` times."""

    def __init__(self, act, times=10**6):
        super().__init__()
        self.act, self.times, self.acts = act, times, 0
        self.is_acting = True
        self.opened = []

    def put_if_absent(self, path, data, **held):
        if "/snapshot-" in path and not self.is_acting and self.acts < self.times:
            self.is_acting = True
            self.acts += 1
            self.act(self.acts)
            self.is_acting = False
        return super().put_if_absent(path, data, **held)

    def open_input(self, path):
        if not self.is_acting and "/bucket-" in path:
            self.opened.append(path)
        return super().open_input(path)


def new_table(fileio, schema=SCHEMA, *, keys=("k",), partition_keys=(), **options):
    catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(1))
    options = {k.replace("_", "-"): v for k, v in options.items()}
    return catalog.create_table(
        "db.t",
        schema,
        primary_keys=list(keys),
        partition_keys=list(partition_keys),
        options={"bucket": "1"} | options,
    )


def rows(*keys, n=0):
    return [{"k": k, "n": n, "s": f"s{k}"} for k in keys]


def counted(calls, more=1):
    def add(batch):
        calls.append(batch["k"].to_pylist())
        return pc.add(batch["n"], more)

    return add


def tries_of(calls, key):
    return sum(key in batch for batch in calls)


def rivalled(act, *, times=10**6, given=range(100), **options):
    fileio = Rival(lambda number: act(table, number), times)
    table = new_table(fileio, **options)
    table.write(rows(*given))
    fileio.is_acting = False
    return fileio, table


def content(table):
    return {row["k"]: row["n"] for row in table.to_arrow().to_pylist()}


def test_disjoint_keys_in_overlapping_ranges_are_no_conflict():
    fileio, table = rivalled(
        lambda table, number: table.write(rows(1, 98, n=number)), times=5, write_only="true"
    )
    calls = []
    table.update({"n": counted(calls, 1000)}, "k in (0, 50, 99)")
    assert calls == [[0, 50, 99]]
    assert fileio.acts == 5
    assert content(table) == dict.fromkeys(range(100), 0) | dict.fromkeys((0, 50, 99), 1000) | {
        1: 5,
        98: 5,
    }
    check_table(fileio, table.paths.location)


@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_common_key_in_any_of_the_commits_since_is_a_conflict(when):
    def act(table, number):
        table.update({"n": counted([], 10)}, "k = 50" if number == when else "k in (2, 97)")

    fileio, table = rivalled(act, times=3)
    calls = []
    table.update({"n": counted(calls, 1000)}, "k in (0, 50, 99)")
    assert tries_of(calls, 0) == 2, "done again, once"
    assert content(table)[50] == 1010
    assert content(table)[2] == 20
    check_table(fileio, table.paths.location)


def test_a_delete_of_a_key_is_a_write_to_it():
    _, table = rivalled(lambda table, _: table.delete("k in (3, 50)"), times=1)
    calls = []
    table.update({"n": counted(calls)}, "k in (0, 50, 99)")
    assert (tries_of(calls, 0), tries_of(calls, 50)) == (2, 1)
    assert 50 not in content(table)


def test_a_compaction_of_others_writes_to_no_key():
    _, table = rivalled(lambda table, _: table.compact(full=True), times=1)
    calls = []
    table.update({"n": counted(calls)}, "k in (0, 99)")
    assert len(calls) == 1


def test_a_partition_that_others_overwrite_has_lost_its_keys():
    fileio = Rival(lambda _: table.write(rows(1, 2), mode="overwrite"), 1)
    table = new_table(fileio)
    table.write(rows(*range(100)))
    fileio.is_acting = False
    calls = []
    assert table.update({"n": counted(calls)}, "k in (0, 1, 99)").rows == 1
    assert calls == [[0, 1, 99], [1]]
    assert content(table) == {1: 1, 2: 0}


def test_texts_and_composite_keys_are_compared_as_the_merge_does():
    schema = pa.schema([("k", pa.string()), ("d", pa.decimal128(30, 2)), ("n", pa.int64())])

    def key(text, number):
        return {"k": text, "d": number, "n": 0}

    for theirs, tries in ((("bb", 1), 1), (("b", 2), 1), (("b\0", 1), 1), (("b", 1), 2)):
        fileio = Rival(lambda _, theirs=theirs: table.write([key(*theirs)]), 1)  # noqa: B023
        table = new_table(fileio, schema, keys=("k", "d"))
        table.write([key("a", 1), key("b", 1), key("cccccccccccccc", 3)])
        fileio.is_acting = False
        calls = []
        table.update({"n": counted(calls)}, "k <> 'x'")
        assert tries_of(calls, "b") == tries, theirs


def test_files_of_a_newer_schema_are_compared():
    def act(table, _):
        table.rename_column("k", "key")
        opened = tidelake.open("/w", fileio=table.fileio, env=Env.seeded(2)).table("db.t")
        opened.write([{"key": 1, "n": 5, "s": ""}, {"key": 98, "n": 5, "s": ""}])

    _, table = rivalled(act, times=1)
    calls = []
    table.update({"n": counted(calls)}, "k in (0, 99)")
    assert len(calls) == 1


def test_keys_that_move_are_compared_in_all_partitions():
    schema = pa.schema([("p", pa.string()), ("k", pa.int64()), ("n", pa.int64())])

    def row(p, k):
        return {"p": p, "k": k, "n": 0}

    for moved, tries in ((1, 1), (50, 2)):
        fileio = Rival(lambda _, moved=moved: table.write([row("b", moved)]), 1)  # noqa: B023
        table = new_table(fileio, schema, partition_keys=("p",), bucket="-1")
        table.write([row("a", k) for k in range(100)])
        fileio.is_acting = False
        calls = []
        table.update({"n": counted(calls)}, "k in (0, 50, 99)")
        assert tries_of(calls, 0) == tries
        partitions = {r["k"]: r["p"] for r in table.to_arrow().to_pylist()}
        assert len(partitions) == 100
        assert partitions[moved] == "b"


@pytest.mark.parametrize(
    ("bound", "most"), [("FILES_READ_MAX", 0), ("KEYS_READ_MAX", 1), ("BYTES_READ_MAX", 100)]
)
def test_above_a_bound_the_ranges_decide_and_nothing_is_read(monkeypatch, bound, most):
    _, table = rivalled(lambda table, _: table.write(rows(1, 98)), times=1)
    monkeypatch.setattr(key_overlap, bound, most)
    monkeypatch.setattr(transaction, "TRIES_MAX", 1)
    with pytest.raises(ConflictError, match="in between those of this commit"):
        table.update({"s": "x"}, "k in (0, 99)")


def test_ranges_that_do_not_meet_are_not_read():
    fileio, table = rivalled(lambda table, _: table.write(rows(60, 98)), times=1)
    scanned = []
    table.update({"n": lambda r: scanned.append(len(fileio.opened)) or r["n"]}, "k in (0, 50)")
    assert len(fileio.opened) == scanned[0]


def test_an_attempt_that_lost_its_race_reads_only_what_is_new():
    fileio, table = rivalled(lambda table, _: table.write(rows(1, 98)), times=3, write_only="true")
    scanned = []
    table.update({"n": lambda r: scanned.append(len(fileio.opened)) or r["n"]}, "k in (0, 99)")
    read = fileio.opened[scanned[0] :]
    assert len(set(read)) == 4, "three files of the other's, and ours"
    assert len(read) == 4, "each once"


def test_own_keys_that_are_not_kept_are_read_again(monkeypatch):
    monkeypatch.setattr(key_overlap, "OWN_KEYS_BYTES_MAX", 0)
    fileio, table = rivalled(lambda table, _: table.write(rows(1, 98)), times=3, write_only="true")
    scanned = []
    table.update({"n": lambda r: scanned.append(len(fileio.opened)) or r["n"]}, "k in (0, 99)")
    read = fileio.opened[scanned[0] :]
    assert (len(set(read)), len(read)) == (4, 6)


def test_a_file_that_is_gone_counts_by_its_range(monkeypatch):
    def names(table):
        bucket = f"{table.paths.location}/bucket-0"
        return {f"{bucket}/{status.name}" for status in table.fileio.list_dir(bucket)}

    def act(table, _):
        before = names(table)
        table.write(rows(1, 98))
        (path,) = names(table) - before
        table.fileio.delete(path)

    _, table = rivalled(act, times=1, write_only="true")
    monkeypatch.setattr(transaction, "TRIES_MAX", 1)
    with pytest.raises(ConflictError, match="have expired"):
        table.update({"s": "x"}, "k in (0, 99)")


@pytest.mark.parametrize("merge_engine", ["deduplicate", "partial-update"])
def test_counters_of_several_threads_are_exact(merge_engine):
    fileio = MemoryFileIO()
    new_table(fileio, bucket="2", merge_engine=merge_engine).write(rows(*range(40)))
    added = dict.fromkeys(range(40), 0)
    lock = threading.Lock()

    def work(number):
        catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(10 + number))
        own = catalog.table("db.t")
        for turn in range(8):
            keys = [(7 * turn + 11 * number + step) % 40 for step in (0, 13, 29)]
            try:
                own.update({"n": counted([])}, f"k in ({keys[0]}, {keys[1]}, {keys[2]})")
            except ConflictError:
                continue
            with lock:
                for k in keys:
                    added[k] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = tidelake.open("/w", fileio=fileio, env=Env.seeded(2)).table("db.t")
    assert content(table) == added
    check_table(fileio, table.paths.location)
