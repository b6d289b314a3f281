"""What a task makes of keys, over a source of rows that the test holds."""

import datetime as dt

import pyarrow as pa
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.spark.lookupjoin.request import Retry
from tidelake.spark.lookupjoin.task import LocalLookup, LookupTask, lookup_lists, present_keys
from tidelake.telemetry import Env, ManualClock
from tidelake.types import DataField, parse_type

KEY = DataField(0, "id", parse_type("INT NOT NULL"))
NAME = DataField(1, "name", parse_type("STRING"))


class Rows:
    """Snapshots of a table, by key."""

    def __init__(self, *snapshots):
        self.snapshots = snapshots
        self.shown = []

    def show(self, snapshot):
        self.shown.append(snapshot)

    def at(self, keys, snapshot):
        assert self.shown == [snapshot]
        return self.found(keys, self.snapshots[snapshot - 1])

    def newest(self, keys):
        self.snapshots = self.snapshots[-len(self.snapshots) + 1 or -1 :]
        return self.found(keys, self.snapshots[0])

    def found(self, keys, rows):
        asked = keys.column(0).to_pylist()
        hits = [rows[k] for k in asked if k in rows]
        batch = pa.RecordBatch.from_pydict({"name": pa.array(hits, pa.string())})
        return pa.array([k in rows for k in asked]).to_numpy(zero_copy_only=False), batch


def looked_up(rows, batches, *, calls_max=1, retry=None, clock=None):
    task = LookupTask(rows, (KEY,), (NAME,), retry, clock or ManualClock())
    given = [(pa.array(k, pa.int32()), pa.array([s] * len(k), pa.int64())) for k, s in batches]
    found = lookup_lists(task, calls_max=calls_max)(iter(given))
    return [[[r["name"] for r in row] for row in batch.to_pylist()] for batch in found]


@pytest.mark.parametrize("calls_max", [1, 3])
def test_rows_stay_in_order_and_a_null_finds_nothing(calls_max):
    rows = Rows({1: "a", 3: "c"})
    batches = [([3, None, 2, 1], 1), ([], 1), ([None], 1), ([1, 1], 1), ([2], 1)]
    found = looked_up(rows, batches, calls_max=calls_max)
    assert found == [[["c"], [], [], ["a"]], [], [[]], [["a"], ["a"]], [[]]]
    assert rows.shown == [1]


def test_a_table_without_a_snapshot_has_no_rows():
    rows = Rows({1: "a"})
    assert looked_up(rows, [([1], 0)]) == [[[]]]
    assert rows.shown == []


def test_a_missing_key_is_asked_for_again():
    clock = ManualClock()
    rows = Rows({2: "b"}, {3: "c", 2: "newer"}, {1: "a"}, {9: "late"})
    before = clock.now_ms()
    found = looked_up(rows, [([1, 2, 3, 9], 1)], retry=Retry(2, 500), clock=clock)
    assert found == [[["a"], ["b"], ["c"], []]]
    assert 1_000 <= clock.now_ms() - before < 1_500


def test_a_time_between_two_keys_is_no_key():
    field = DataField(0, "at", parse_type("TIMESTAMP(3) NOT NULL"))
    times = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000 + n) for n in (0, 1)]
    keys, valid = present_keys([pa.array(times, pa.timestamp("us"))], [field])
    assert valid.to_pylist() == [True, False]
    assert keys.column(0).to_pylist() == [times[0]]


@pytest.mark.parametrize(
    ("kind", "given", "fits"),
    [
        ("VARCHAR(2)", ["ab", "abc", None, "ü€", ""], ["ab", "ü€", ""]),
        ("CHAR(3)", ["abcd", "ü€x"], ["ü€x"]),
        ("VARBINARY(2)", [b"ab", b"abc", None], [b"ab"]),
        ("STRING", ["ab" * 999, None], ["ab" * 999]),
        ("BYTES", [b"ab" * 999], [b"ab" * 999]),
    ],
)
def test_what_is_longer_than_a_key_can_be_has_no_match_and_ends_no_job(kind, given, fits):
    field = DataField(0, "k", parse_type(f"{kind} NOT NULL"))
    column = pa.array(given, pa.binary() if isinstance(given[0], bytes) else pa.string())
    keys, valid = present_keys([column], [field])
    assert keys.column("k").to_pylist() == fits
    assert valid is None or [g for g, v in zip(given, valid.to_pylist(), strict=True) if v] == fits


def test_tables_of_one_uri_in_two_stores_are_two_tables():
    """A worker of Spark lives longer than the table, or the store, that it looked keys up in."""
    found = []
    for seed, text in enumerate(["first", "other"]):
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(seed))
        catalog.env.clock.sleep_ms(seed * 7)
        schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
        table = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": 1})
        table.write([{"id": 1, "name": text}])
        source = LocalLookup(table, ("name",))
        source.show(1)
        _, rows = source.at(pa.record_batch({"id": pa.array([1], pa.int32())}), 1)
        found += rows.column("name").to_pylist()
    assert found == ["first", "other"]


def test_a_table_and_its_branch_are_two_tables():
    """A branch begins with the table's directory, schema and time of the schema."""
    catalog = tidelake.open("/branched", fileio=MemoryFileIO(), env=Env.seeded(1))
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    table = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": 1})
    table.write([{"id": 1, "name": "first"}])
    table.branches.create("b", snapshot_id=1)
    table.write([{"id": 1, "name": "main"}])
    branch = table.branch("b")
    branch.write([{"id": 1, "name": "branch"}])
    found = []
    for one in (table, branch, table):
        source = LocalLookup(one, ("name",))
        source.show(2)
        keys = pa.record_batch({"id": pa.array([1], pa.int32())})
        for _, rows in (source.at(keys, 2), source.newest(keys)):
            found += rows.column("name").to_pylist()
    assert found == ["main", "main", "branch", "branch", "main", "main"]
