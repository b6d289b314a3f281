"""A query that is kept open: what it refuses, follows, shares, and leaves on the disk."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import ClosedError, InvalidInputError, NotFoundError, StorageError
from tidelake.metadata.bucket_id import BucketId
from tidelake.table.query import changes_between, local_query
from tidelake.table.query.bucket_files import states_of
from tidelake.table.query.view_builder import ViewBuilder
from tidelake.telemetry import Env, ManualClock, SerialExecutor

COLUMNS = {"a": "STRING", "b": "INT", "v": "STRING", "n": "BIGINT"}


def rows(start, stop, v="v"):
    return [{"a": f"k{n}", "b": n, "v": f"{v}{n}", "n": n} for n in range(start, stop)]


@pytest.fixture
def table(catalog):
    made = catalog.create_table(
        "db.t", COLUMNS, primary_keys=["a", "b"], options={"bucket": 2, "write-only": "true"}
    )
    made.write(rows(0, 40))
    return made


@pytest.fixture
def numbers(catalog):
    made = catalog.create_table(
        "db.n", {"k": "BIGINT", "v": "STRING"}, primary_keys=["k"], options={"bucket": 1}
    )
    made.write([{"k": n, "v": f"v{n}"} for n in range(50)])
    return made


# ---- keys


def test_a_key_is_a_value_a_tuple_or_a_dict(table, numbers, lookup_dir):
    query, single = table.local_query(directory=lookup_dir), numbers.local_query()
    row = {"a": "k3", "b": 3, "v": "v3", "n": 3}
    assert query.get(("k3", 3)) == query.get(["k3", 3]) == query.get({"b": 3, "a": "k3"}) == row
    assert single.get(3) == single.get((3,)) == single.get({"k": 3}) == {"k": 3, "v": "v3"}
    assert query.get(("k3", 3), columns=["n"]) == {"n": 3}
    assert query.get_many([("k3", 3), {"a": "x", "b": 3}], columns=["n"]) == [{"n": 3}, None]
    assert query.get_many([]) == []


def test_arrow_keys_are_answered_with_a_table(table, numbers, lookup_dir):
    query, single = table.local_query(directory=lookup_dir), numbers.local_query()
    keys = pa.table({"b": [7, 70, 8], "a": ["k7", "k70", "k8"]})
    found = query.get_many(keys, columns=["v", "n"])
    assert found.to_pydict() == {"v": ["v7", None, "v8"], "n": [7, None, 8]}
    assert query.get_many(keys.to_batches()[0]).num_rows == 3
    assert single.get_many(pa.array([1, 99], pa.int32())).to_pydict() == {
        "k": [1, None],
        "v": ["v1", None],
    }
    assert single.get_many(pa.chunked_array([[1], [2, 1]])).column("k").to_pylist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        (("k3",), "key_arity", r"\(a, b\): a key has 2 values, not 1"),
        (("k3", 3, 4), "key_arity", "not 3"),
        ("k3", "key_arity", "not 1"),
        (("k3", None), "key_null", "null in column 'b'"),
        (("k3", "x"), "key_type", "does not fit column 'b'"),
        ((3, 3), "key_type", "does not fit column 'a'"),
        (("k3", 1 << 40), "key_type", "out of range"),
        ({"a": "k3"}, "key_columns", "Name exactly the key's columns"),
        ({"a": "k3", "c": 3}, "key_columns", r"\(a, c\)"),
    ],
)
def test_a_wrong_key_is_refused_before_anything_is_read(table, lookup_dir, key, kind, words):
    query = table.local_query(directory=lookup_dir)
    for ask in (query.get, table.get):
        with pytest.raises(InvalidInputError, match=words) as error:
            ask(key)
        assert error.value.kind == kind
    for ask in (query.get_many, table.get_many):
        with pytest.raises(InvalidInputError):
            ask([("k1", 1), key])


def test_a_key_longer_than_its_column_is_refused_by_every_call(catalog, lookup_dir):
    columns = {"k": "VARCHAR(3)", "b": "VARBINARY(2)", "v": "INT"}
    pair = catalog.create_table("db.pair", columns, primary_keys=["k", "b"])
    single = catalog.create_table("db.single", {"k": "CHAR(3)"}, primary_keys=["k"])
    single.write([{"k": "äöü"}])
    pair.write([{"k": "äöü", "b": b"12", "v": 1}])
    asked = [
        (single, "toolong", "'toolong' is longer than 3 characters"),
        (single, "äöüß", "longer than 3 characters"),
        (pair, ("toolong", b""), "column 'k': 'toolong' is longer than 3 characters"),
        (pair, ("k", b"123"), "column 'b': b'123' is longer than 2 bytes"),
    ]
    for table, key, words in asked:
        query = table.local_query(directory=lookup_dir)
        as_lists = [[part] for part in (key if type(key) is tuple else (key,))]
        arrow = pa.table(dict(zip(table.primary_keys, as_lists, strict=True)))
        for ask, given in (
            (query.get, key),
            (table.get, key),
            (query.get_many, [key]),
            (table.get_many, [key]),
            (query.get_many, arrow),
        ):
            with pytest.raises(InvalidInputError, match=words) as error:
                ask(given)
            assert error.value.kind == "key_type"
    assert single.local_query(directory=lookup_dir).get("äöü") == {"k": "äöü"}
    assert pair.local_query(directory=lookup_dir).get(("äöü", b"12"))["v"] == 1


def test_a_key_with_half_a_character_is_refused(catalog, lookup_dir):
    table = catalog.create_table("db.single", {"k": "STRING"}, primary_keys=["k"])
    for ask in (table.get, table.local_query(directory=lookup_dir).get):
        with pytest.raises(InvalidInputError, match="half a character"):
            ask("a\ud800")


def test_wrong_arrow_keys_columns_and_tables_are_refused(catalog, table, numbers, lookup_dir):
    query, single = table.local_query(directory=lookup_dir), numbers.local_query()
    for keys in (
        pa.array([1]),
        pa.table({"a": ["k"]}),
        pa.table({"a": ["k"], "b": [None]}),
        pa.table({"a": ["k"], "b": ["x"]}),
        pa.table({"a": ["k"], "b": [1], "c": [1]}),
    ):
        with pytest.raises(InvalidInputError):
            query.get_many(keys)
    for keys in ("abc", {"k": 1}, 5):
        with pytest.raises(InvalidInputError, match="One key is for get"):
            single.get_many(keys)
    with pytest.raises(InvalidInputError, match="slices are of 3 keys"):
        single.lookup(pa.record_batch({"k": [1]}), slices=[(None, 3)])
    with pytest.raises(NotFoundError, match="no column 'w'"):
        query.get(("k3", 3), columns=["w"])
    with pytest.raises(NotFoundError, match="no column 'w'"):
        table.local_query(columns=["w"])
    with pytest.raises(InvalidInputError, match="no column of table"):
        table.local_query(columns=[])
    appended = catalog.create_table("db.appended", COLUMNS)
    for ask in (appended.local_query, lambda: appended.get(1), lambda: appended.get_many([1])):
        with pytest.raises(InvalidInputError, match="no primary key") as error:
            ask()
        assert error.value.kind == "no_primary_key"


# ---- snapshots


def test_a_table_without_a_snapshot_has_no_rows(catalog, lookup_dir):
    table = catalog.create_table("db.empty", COLUMNS, primary_keys=["a", "b"])
    query = table.local_query(directory=lookup_dir)
    assert query.get(("k", 1)) is None
    assert query.snapshot_id is None
    assert table.get(("k", 1)) is None
    assert query.get_many(pa.table({"a": ["k"], "b": [1]})).to_pylist() == [
        dict.fromkeys(COLUMNS, None)
    ]
    table.write(rows(0, 2))
    assert query.get(("k1", 1)) is None
    assert query.refresh() == 1
    assert query.get(("k1", 1))["v"] == "v1"


def test_only_changed_files_are_copied(table, lookup_dir):
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    before = query.stats
    assert (before.files_count, before.builds) == (2, 2)
    table.write(rows(0, 1, "w"))
    query.refresh()
    assert (query.stats.files_count, query.stats.builds) == (3, 3)
    query.refresh(1)
    query.refresh(2)
    assert query.stats.builds == 3
    assert query.get(("k0", 0))["v"] == "w0"
    assert (query.stats.hits, query.stats.misses) == (1, 0)


def test_a_rollback_raises_the_generation(table, lookup_dir):
    query = table.local_query(directory=lookup_dir)
    table.write(rows(0, 40, "w"))
    assert (query.refresh(), query.generation) == (2, 0)
    assert (query.refresh(1), query.refresh(2), query.generation) == (1, 2, 0)
    table.rollback_to(1)
    assert (query.refresh(), query.generation) == (1, 1)
    table.write(rows(0, 40, "x"))
    assert (query.refresh(), query.generation) == (2, 1)
    table.rollback_to(1)
    table.write(rows(0, 40, "y"))  # snapshot 2 again, another one
    assert (query.refresh(), query.generation) == (2, 2)
    assert query.get(("k1", 1))["v"] == "y1"


def test_a_dropped_or_remade_table_is_an_error_and_old_answers_stay(catalog, table, lookup_dir):
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    catalog.drop_table("db.t")
    catalog.create_table("db.t", COLUMNS, primary_keys=["a", "b"]).write(rows(0, 9, "new"))
    with pytest.raises(NotFoundError):
        query.refresh()
    assert query.get(("k1", 1))["v"] == "v1"


def test_columns_are_found_by_id_after_a_change_of_the_schema(table, lookup_dir):
    first = table.local_query(directory=lookup_dir)
    first.refresh()
    table.rename_column("v", "w")
    table.add_column("extra", "INT")
    table.retype_column("n", "DOUBLE")
    table.drop_column("w")
    table.add_column("w", "STRING")
    table.write([{"a": "k1", "b": 1, "n": 0.5, "extra": 7, "w": "new"}])
    query = table.local_query(directory=lookup_dir)
    wanted = {(row["a"], row["b"]): row for row in table.to_arrow().to_pylist()}
    keys = list(wanted)
    assert query.get_many(keys) == [wanted[key] for key in keys] == [query.get(k) for k in keys]
    assert query.get(("k2", 2)) == {"a": "k2", "b": 2, "n": 2.0, "extra": None, "w": None}


def test_files_stay_when_other_columns_change(table, lookup_dir):
    query = table.local_query(columns=["n"], directory=lookup_dir)
    query.refresh()
    table.add_column("extra", "INT")
    table.rename_column("n", "m")
    again = table.local_query(columns=["m", "extra"], directory=lookup_dir)
    again.refresh()
    assert again.stats.builds == query.stats.builds == 2
    assert again.get(("k1", 1)) == {"m": 1, "extra": None}


def test_partitions_with_other_numbers_of_buckets_are_asked_as_they_are(catalog, lookup_dir):
    columns = {"p": "INT", "k": "INT", "v": "INT"}
    table = catalog.create_table(
        "db.p", columns, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": 2}
    )
    table.write([{"p": p, "k": k, "v": k} for p in range(2) for k in range(30)])
    table.alter_options({"bucket": 5}) if hasattr(table, "alter_options") else table.set_options(
        {"bucket": 5}
    )
    table.write(
        [{"p": 1, "k": k, "v": -k} for k in range(30)], mode="overwrite", partition={"p": 1}
    )
    query = table.local_query(directory=lookup_dir)
    keys = [(p, k) for p in range(3) for k in range(31)]
    found = {(row["p"], row["k"]): row for row in table.to_arrow().to_pylist()}
    wanted = [found.get(key) for key in keys]
    assert len(found) == 60
    assert (
        query.get_many(keys) == [query.get(key) for key in keys] == table.get_many(keys) == wanted
    )


def test_level_0_is_left_out_where_reads_leave_it_out(catalog, lookup_dir):
    table = catalog.create_table(
        "db.dv",
        {"k": "INT", "v": "INT"},
        primary_keys=["k"],
        options={
            "bucket": 1,
            "deletion-vectors.enabled": "true",
            "deletion-vectors.merge-on-read": "false",
            "write-only": "true",
        },
    )
    table.write([{"k": 1, "v": 1}])
    query = table.local_query(directory=lookup_dir)
    assert query.get(1) is None
    table.with_options({"write-only": "false"}).compact()
    table.write([{"k": 1, "v": 2}])
    query.refresh()
    assert query.get(1) == {"k": 1, "v": 1} == table.to_arrow().to_pylist()[0]


def test_changes_of_a_scanner_lead_to_the_same_answers(table, lookup_dir):
    query, other = (table.local_query(directory=lookup_dir) for _ in range(2))

    def states(snapshot):
        return states_of(table.handle.read_context(), snapshot, manifests=table.handle.manifests)

    first = table.handle.snapshots.find(1)
    table.write(rows(5, 9, "w"))
    second = table.handle.snapshots.find(2)
    changes = changes_between(None, {}, first, states(first))
    assert query.apply(pickle.loads(pickle.dumps(changes))) == 1
    step = changes_between(first, states(first), second, states(second))
    with pytest.raises(InvalidInputError, match="call refresh"):
        other.apply(step)
    assert query.apply(step) == 2
    assert query.get(("k6", 6))["v"] == "w6"
    table.truncate()
    third = table.handle.snapshots.find(3)
    assert query.apply(changes_between(second, states(second), third, states(third))) == 3
    assert query.get(("k6", 6)) is None


def test_only_owned_buckets_answer_and_slices_name_them(table, lookup_dir):
    partition = table.handle.snapshots.find(1) and bytes(12)
    mine = table.local_query(owns=lambda bucket: bucket.bucket == 1, directory=lookup_dir)
    keys = pa.record_batch(
        {"a": [f"k{n}" for n in range(40)], "b": pa.array(range(40), pa.int32())}
    )
    owned = mine.lookup(keys).found
    assert 0 < owned.sum() < 40
    whole = table.local_query(directory=lookup_dir)
    everything = whole.lookup(keys)
    assert everything.found.all()
    order = pa.array(sorted(range(40), key=lambda n: bool(owned[n])))
    count = int((~owned).sum())
    slices = [(BucketId(partition, 0), count), (BucketId(partition, 1), 40 - count)]
    routed = whole.lookup(keys.take(order), slices=slices)
    assert routed.found.all()
    assert routed.rows.equals(everything.rows.take(order))
    anywhere = [(BucketId(partition, -1), 10), (None, 20), (BucketId(b"none", -1), 10)]
    assert whole.lookup(keys, slices=anywhere).found.tolist() == [True] * 30 + [False] * 10


# ---- the disk


def files_in(directory, ending=".lookup"):
    return sorted(path for path in directory.rglob("*") if path.name.endswith(ending))


def test_files_are_found_again_and_damaged_ones_made_again(table, lookup_dir):
    table.local_query(directory=lookup_dir).refresh()
    made = {path: path.read_bytes() for path in files_in(lookup_dir)}
    assert len(made) == 2
    for number, (path, data) in enumerate(made.items()):
        path.write_bytes(data[:-70] if number else data[:-70] + bytes([data[-70] ^ 8]) + data[-69:])
    query = table.with_options({"lookup.cache-max-memory-size": "257 mb"}).local_query(
        directory=lookup_dir
    )
    assert query.get(("k1", 1))["v"] == "v1"
    assert query.stats.builds == 2
    assert {path: path.read_bytes() for path in files_in(lookup_dir)} == made
    again = table.with_options({"lookup.cache-max-memory-size": "258 mb"}).local_query(
        directory=lookup_dir
    )
    assert again.get(("k1", 1))["v"] == "v1"
    assert again.stats.builds == 0


def test_what_does_not_fit_the_memory_is_read_in_pieces(table, lookup_dir):
    table.write(rows(20, 60, "w"))
    keys = [(f"k{n}", n) for n in range(70)]
    wanted = table.get_many(keys)
    small = table.with_options({"lookup.cache-max-memory-size": "5000 b"})
    query = small.local_query(directory=lookup_dir)
    assert query.get_many(keys) == [query.get(key) for key in keys] == wanted
    stats = query.stats
    assert 0 < stats.mapped_bytes <= 5000 < stats.disk_bytes
    none = table.with_options({"lookup.cache-max-memory-size": "0 b"}).local_query(
        directory=lookup_dir
    )
    assert none.get_many(keys) == [none.get(key) for key in keys] == wanted
    assert none.stats.mapped_bytes == 0


def test_a_file_is_mapped_when_another_made_room(numbers, lookup_dir):
    size = 12_000
    small = numbers.with_options({"lookup.cache-max-memory-size": f"{size} b"})
    query = small.local_query(directory=lookup_dir)
    query.refresh()
    assert query.stats.mapped_bytes == query.stats.disk_bytes
    numbers.compact(full=True)
    numbers.write([{"k": n, "v": f"w{n}"} for n in range(300)])
    numbers.compact(full=True)
    query.refresh()
    assert query.stats.files_count == 1
    assert 0 < query.stats.disk_bytes <= size
    assert query.stats.mapped_bytes == query.stats.disk_bytes
    assert query.get(7) == {"k": 7, "v": "w7"}


class HoldingExecutor(SerialExecutor):
    """As threads may for a moment, it holds the work that it has done."""

    def __init__(self):
        self.held = []

    def map(self, work, items):
        self.held.append(work)
        return super().map(work, items)


def test_work_that_a_thread_still_holds_keeps_no_file_mapped(catalog, numbers, lookup_dir):
    env = replace(Env.system(), executor=HoldingExecutor())
    table = tidelake.open(catalog.warehouse, env=env).table("db.n")
    small = table.with_options({"lookup.cache-max-memory-size": "12000 b"})
    query = small.local_query(directory=lookup_dir)
    numbers.write([{"k": n, "v": f"w{n}"} for n in range(300)])
    query.refresh()
    numbers.write([{"k": n, "v": f"x{n}"} for n in range(300)])
    numbers.compact(full=True)
    query.refresh()
    assert query.stats.mapped_bytes == query.stats.disk_bytes > 0


def test_the_limit_of_the_disk_is_kept_or_an_error(table, lookup_dir):
    query = table.with_options({"lookup.cache-max-disk-size": "9000 b"}).local_query(
        directory=lookup_dir
    )
    assert query.refresh() == 1
    used = sum(path.stat().st_size for path in files_in(lookup_dir))
    assert used <= 9000
    table.write(rows(0, 200, "w"))
    with pytest.raises(StorageError, match=r"lookup\.cache-max-disk-size"):
        query.refresh()
    assert query.snapshot_id == 1
    assert query.get(("k1", 1))["v"] == "v1"
    table.write(rows(0, 1), mode="overwrite")
    assert query.refresh() == 3
    assert sum(path.stat().st_size for path in files_in(lookup_dir)) <= 9000


def test_unused_files_and_those_of_dead_writers_go(table, lookup_dir):
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    (directory,) = {path.parent for path in files_in(lookup_dir)}
    old = time.time() - 7200
    unused, dead, young = (
        directory / name for name in ("a.lookup", "b.lookup.x.tmp", "c.lookup.y.tmp")
    )
    for path in (unused, dead, young):
        path.write_bytes(b"x")
    for path in (unused, dead, *files_in(lookup_dir)):
        os.utime(path, (old, old))
    used = files_in(lookup_dir)
    other = table.with_options({"lookup.cache-file-retention": "59 min"})
    other.local_query(directory=lookup_dir).refresh()
    left = set(directory.iterdir())
    assert unused not in left
    assert dead not in left
    assert young in left
    assert query.get(("k1", 1))["v"] == "v1"  # open files stay readable, whoever removed them
    del used


def test_files_of_a_table_that_does_not_change_are_found_by_the_next_process(
    catalog, table, lookup_dir
):
    clock = ManualClock(int(time.time() * 1000))
    clocked = tidelake.open(catalog.warehouse, env=replace(Env.system(), clock=clock))
    table = clocked.table("db.t").with_options({"lookup.cache-file-retention": "1 h"})
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    for _ in range(8):
        clock.sleep_ms(900_000)
        query.refresh()
    local_query._CACHES.value.clear()  # as a process does that has just started
    again = table.local_query(directory=lookup_dir)
    again.refresh()
    assert (again.stats.files_count, again.stats.builds) == (query.stats.files_count, 0)


def test_a_close_does_not_wait_for_a_refresh(table, lookup_dir, monkeypatch):
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    table.write(rows(0, 3, "w"))
    begun, closed = threading.Event(), threading.Event()
    whole = ViewBuilder.next_view

    def slow(*arguments):
        begun.set()
        assert closed.wait(10)
        return whole(*arguments)

    monkeypatch.setattr(ViewBuilder, "next_view", slow)
    with ThreadPoolExecutor(1) as pool:
        refresh = pool.submit(query.refresh)
        assert begun.wait(10)
        query.close()
        closed.set()
        with pytest.raises(ClosedError):
            refresh.result()
    assert query._view is None
    with pytest.raises(ClosedError):
        query.get(("k1", 1))


# ---- processes and threads


def test_a_pickled_query_opens_the_same_files(table, lookup_dir):
    query = table.local_query(columns=["v"], directory=lookup_dir)
    query.refresh()
    copy = pickle.loads(pickle.dumps(query))
    assert copy.snapshot_id is None
    assert copy.get(("k1", 1)) == {"v": "v1"}
    assert copy.schema == query.schema
    assert copy.key_schema.names == ["a", "b"]


def test_a_forked_child_goes_on_with_the_query(table, lookup_dir):
    query = table.local_query(directory=lookup_dir)
    query.refresh()
    table.write(rows(0, 3, "w"))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            was = query.get(("k1", 1))["v"]
            query.refresh()
            os.write(write, f"{was} {query.get(('k1', 1))['v']}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        assert answer.read() == "v1 w1"
    os.waitpid(child, 0)
    assert query.get(("k1", 1))["v"] == "v1"


ELSEWHERE = """
import sys, tidelake
query = tidelake.open(sys.argv[1]).table("db.t").local_query(directory=sys.argv[2])
print(query.refresh(), query.get(("k1", 1))["v"], query.stats.builds)
"""


def test_processes_share_a_directory(table, lookup_dir, tmp_path):
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "warehouse"), str(lookup_dir)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = [process.communicate()[0].split() for process in running]
    assert [answer[:2] for answer in found] == [["1", "v1"]] * 3
    assert sum(int(builds) for *_, builds in found) == 2
    assert len(files_in(lookup_dir)) == 2


def test_threads_read_whole_snapshots_while_the_query_follows(numbers, lookup_dir):
    query = numbers.local_query(directory=lookup_dir)
    query.refresh()
    stop = threading.Event()
    keys = pa.record_batch({"k": list(range(50))})

    def read():
        torn = 0
        while not stop.is_set():
            values = query.lookup(keys, columns=("v",)).rows.column(0).to_pylist()
            torn += len({value[0] for value in values}) != 1
            assert query.get(7)["k"] == 7
        return torn

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for letter in "abcdefgh":
            numbers.write([{"k": n, "v": f"{letter}{n}"} for n in range(50)])
            query.refresh()
        stop.set()
        assert [reader.result() for reader in readers] == [0, 0, 0]


def test_threads_that_ask_first_make_each_file_once(table, lookup_dir):
    query = table.local_query(directory=lookup_dir)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: query.get(("k1", 1))["v"], range(8)))
    assert found == ["v1"] * 8
    assert query.stats.builds == 2


def test_a_closed_query_says_so(table, lookup_dir):
    with table.local_query(directory=lookup_dir) as query:
        query.warm()
        assert query.get(("k1", 1))["v"] == "v1"
    query.close()
    for use in (lambda: query.get(("k1", 1)), query.refresh, query.warm):
        with pytest.raises(ClosedError, match="closed"):
            use()
