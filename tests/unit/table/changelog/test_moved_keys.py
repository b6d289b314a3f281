"""Keys that move between buckets: the last change of each is the last that a reader gets."""

from __future__ import annotations

import itertools

import pytest

import tidelake
from tidelake import SetOption, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.table.changelog import moved_keys
from tidelake.table.changelog.changelog_plan import planned_changes
from tidelake.telemetry import Env

ROWS = {"+I", "+U"}
KEYS = {
    "bucket": "bucket",
    "producer": "changelog-producer",
    "is_sorted": "scan.plan-sort-partition",
    "bucket_rows": "dynamic-bucket.target-row-num",
}


@pytest.fixture
def make():
    """Makes a table ``db.t`` with the key k, partitioned by p."""

    def table(*, moving=True, **options):
        catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(3))
        return catalog.create_table(
            "db.t",
            {"k": "INT NOT NULL", "p": "STRING NOT NULL", "v": "INT"},
            primary_keys=["k"] if moving else ["p", "k"],
            partition_keys=["p"],
            options={KEYS[key]: str(value) for key, value in options.items()},
        )

    return table


def make_again(table, options):
    """The table, with other options."""
    catalog = tidelake.open("/w", fileio=table.fileio)
    catalog.alter_table("db.t", [SetOption(key, text) for key, text in options.items()])
    return catalog.table("db.t")


def folded(changes, key=("k",)):
    """What a target of the key holds behind these changes, in their order."""
    state = {}
    for row in changes:
        kind = row.pop("_row_kind")
        place = tuple(row[name] for name in key)
        if kind in ROWS:
            state[place] = tuple(row.values())
        else:
            state.pop(place, None)
    return set(state.values())


def rows_of(table, snapshot_id=None):
    return {tuple(row.values()) for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist()}


def streamed(table):
    stream = table.stream(start=1, timeout=0)
    return [row for batch in stream for row in batch.data.to_pylist()]


def moved(table, places, number):
    table.write([{"k": k, "p": p, "v": number} for k, p in enumerate(places)])


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_stream_of_keys_that_move_folds_to_the_table(make, producer, is_sorted):
    table = make(producer=producer, is_sorted=str(is_sorted).lower())
    for number, places in enumerate(["abcab", "bcaba", "aacbb", "abcab"]):
        moved(table, places, number)
    assert folded(streamed(table)) == rows_of(table)


def test_a_stream_of_full_compactions_is_refused_where_the_old_row_may_go_later(make):
    table = make(producer="full-compaction")
    moved(table, "ab", 1)
    with pytest.raises(UnsupportedError, match=r"'full-compaction\.delta-commits' to 1") as caught:
        next(table.stream(timeout=0))
    assert caught.value.kind == "stream_moved_keys"
    table = make_again(table, {"full-compaction.delta-commits": "1"})
    for number, places in enumerate(["bca", "cab", "abc"], start=2):
        moved(table, places, number)
    assert folded(streamed(table)) == rows_of(table)


@pytest.mark.parametrize("mode", ["changelog", "diff"])
def test_changes_between_snapshots_fold_to_the_newer_one(make, mode):
    table = make(producer="input")
    for number, places in enumerate(["abcab", "bcaba", "aacbb"]):
        moved(table, places, number)
    ids = [s["snapshot_id"] for s in table.history().to_pylist()]
    for start, end in itertools.combinations(sorted(ids), 2):
        before = [{"_row_kind": "+I", **r} for r in table.to_arrow(snapshot_id=start).to_pylist()]
        changes = table.changes(start, end, mode=mode).to_pylist()
        assert folded([*before, *changes]) == rows_of(table, end), (start, end)


def in_passes(table, rows):
    """What changes (p, k, kind) of one commit give in passes; a value is the number of its row."""
    table.write(
        [{"k": k, "p": p, "v": number} for number, (p, k, _) in enumerate(rows)],
        row_kinds=[kind for *_, kind in rows],
    )
    newest = table.latest_snapshot_id
    changes = planned_changes(
        table.handle, newest - 1, newest, columns=None, where=None, mode="changelog"
    )
    parts = moved_keys.parts_in_passes(list(changes.parts()))
    given = [
        row for part in parts for batch in changes.rows.read(part) for row in batch.to_pylist()
    ]
    assert sorted(row["v"] for row in given) == list(range(len(rows))), "each change once"
    return [(row["p"], row["k"], row["_row_kind"]) for row in given]


def test_changes_of_a_key_in_one_bucket_keep_their_order(make):
    table = make(moving=False, bucket=1, producer="input")
    table.write([{"k": 1, "p": "b", "v": 0}])
    of_1 = [("a", 1, "+I"), ("a", 1, "-D"), ("a", 1, "+I"), ("a", 1, "-U"), ("a", 1, "+U")]
    given = in_passes(table, [*of_1, ("a", 2, "+I"), ("a", 2, "-D"), ("b", 1, "-D")])
    assert given[:3] == [("a", 2, "+I"), ("a", 2, "-D"), ("b", 1, "-D")]
    assert given[3:] == of_1


def test_a_key_that_leaves_and_comes_back_stays(make):
    table = make(moving=False, bucket=1, producer="input")
    table.write([{"k": 1, "p": "b", "v": 0}])
    passing = [("c", 1, "+I"), ("c", 1, "-D")]
    given = in_passes(table, [("b", 1, "-D"), ("b", 1, "+I"), *passing])
    assert given == [*passing, ("b", 1, "-D"), ("b", 1, "+I")]


def test_a_filter_and_columns_apply_to_changes_in_passes(make):
    table = make(producer="input")
    moved(table, "abcab", 1)
    table.write([{"k": k, "p": p, "v": k} for k, p in enumerate("bcabb")])
    stream = table.stream(start=2, columns=["k"], where="p <> 'c' AND v >= 2", timeout=0)
    rows = [tuple(row.values()) for batch in stream for row in batch.data.to_pylist()]
    assert [row for row in rows if row[0] in ROWS] == [("+I", 2), ("+I", 3), ("+I", 4)]


@pytest.mark.parametrize("buckets", [(1, 3), (3, 1)])
def test_the_net_change_of_a_rescale_folds_to_the_table(make, buckets):
    before, after = buckets
    table = make(moving=False, bucket=before)
    moved(table, "aabbbaabb", 1)
    start = table.latest_snapshot_id
    table.rescale_bucket(after)
    table = tidelake.open("/w", fileio=table.fileio).table("db.t")
    table.write([{"k": 1, "p": "a", "v": 7}, {"k": 90, "p": "b", "v": 7}])
    old = [{"_row_kind": "+I", **r} for r in table.to_arrow(snapshot_id=start).to_pylist()]
    changes = table.changes(start).to_pylist()
    assert folded([*old, *changes], ("p", "k")) == rows_of(table)


def test_the_net_change_of_an_overwrite_of_dynamic_buckets_folds_to_the_table(make):
    table = make(moving=False, bucket_rows=3)
    moved(table, "a" * 9, 1)
    start = table.latest_snapshot_id
    rows = [{"k": k, "p": "a", "v": 2} for k in reversed(range(9))]
    table.write(rows, mode="overwrite")
    old = [{"_row_kind": "+I", **r} for r in table.to_arrow(snapshot_id=start).to_pylist()]
    changes = table.changes(start).to_pylist()
    assert folded([*old, *changes], ("p", "k")) == rows_of(table)


def test_a_table_whose_keys_stay_is_read_once(make, monkeypatch):
    table = make(moving=False, bucket=2, producer="input")
    monkeypatch.setattr(moved_keys, "_are_wanted", None)  # a call of it would fail
    moved(table, "abcab", 1)
    moved(table, "bcaba", 2)
    assert folded(streamed(table), ("p", "k")) == rows_of(table)


def test_inserts_of_a_table_whose_keys_move_are_read_once(make, monkeypatch):
    table = make(producer="input")
    monkeypatch.setattr(moved_keys, "_are_wanted", None)
    moved(table, "abcab", 1)
    assert len(streamed(table)) == 5
