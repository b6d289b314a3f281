"""Rows that differ between two versions, against the rows that each version reads as."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from unit.table.compare.histories import COLUMNS, HISTORIES_COUNT, KINDS, made, step

from tidelake import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.table.changelog import narrowing
from tidelake.table.compare.diff_rows import DiffCounts


def rows_at(table, number):
    return [] if number == 0 else table.to_arrow(snapshot_id=number).to_pylist()


def expected_keyed(table, before, after):
    keys = table.primary_keys
    old, new = (
        {tuple(row[k] for k in keys): row for row in rows_at(table, number)}
        for number in (before, after)
    )
    for key in old.keys() | new.keys():
        one, other = old.get(key), new.get(key)
        if one != other:
            names = [n for n in COLUMNS if n not in keys]
            rest = [None if r is None else {n: r[n] for n in names} for r in (one, other)]
            both = one is not None and other is not None
            change = "changed" if both else "added" if one is None else "removed"
            differ = [n for n in names if both and one[n] != other[n]]
            yield (change, *key, str(rest[0]), str(rest[1]), str(differ))


def expected_bag(table, before, after):
    old, new = (Counter(map(str, rows_at(table, number))) for number in (before, after))
    for row, count in (new - old).items():
        yield from [("added", str(None), row, "[]")] * count
    for row, count in (old - new).items():
        yield from [("removed", row, str(None), "[]")] * count


def found(diff):
    facts = ("before", "after", "columns")
    return Counter(
        tuple(str(v) if n in facts else v for n, v in row.items()) for row in diff.to_pylist()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_diff_is_what_two_reads_differ_in(catalog, kind, monkeypatch):
    monkeypatch.setattr(narrowing, "SHARED_TIMES_MIN", 0.5)
    for seed in range(HISTORIES_COUNT):
        rng = random.Random(f"{kind} {seed}")
        table = made(catalog, kind, f"db.t{seed}")
        table.write([{"p": k % 2, "k": k, "a": 0, "b": "o" * 40} for k in range(40)])
        table.compact(full=True)
        for _ in range(7):
            step(table, kind, rng)
        ids = [0, *table.history()["snapshot_id"].to_pylist()]
        expected = expected_keyed if table.primary_keys else expected_bag
        for _ in range(6):
            before, after = rng.sample(ids, 2)
            told = found(table.diff(before, after))
            assert told == Counter(expected(table, before, after)), (seed, before, after)


def test_columns_are_those_of_the_later_argument(catalog):
    table = made(catalog, "deduplicate")
    table.write([{"p": 0, "k": k, "a": k, "b": "x"} for k in range(4)])
    table.rename_column("b", "text")
    table.add_column("c", "INT")
    table.write([{"p": 0, "k": 1, "a": 1, "text": "x", "c": None}])
    table.write([{"p": 0, "k": 2, "a": 2, "text": "y", "c": 7}])
    (only,) = table.diff(1, 3).to_pylist()
    assert only["before"] == {"a": 2, "text": "x", "c": None}
    assert only["after"] == {"a": 2, "text": "y", "c": 7}
    assert only["columns"] == ["text", "c"]
    (back,) = table.diff(3, 1).to_pylist()
    assert (back["before"], back["after"]) == ({"a": 2, "b": "y"}, {"a": 2, "b": "x"})
    table.retype_column("a", "BIGINT")
    table.drop_column("c")
    table.write([{"p": 0, "k": 3, "a": 1 << 40, "text": "x"}])
    assert [(r["k"], r["columns"]) for r in table.diff(1, 4).to_pylist()] == [
        (2, ["text"]),
        (3, ["a"]),
    ]


def test_branches_are_compared(catalog):
    table = made(catalog, "deduplicate")
    table.write([{"p": 0, "k": k, "a": k, "b": "x"} for k in range(4)])
    table.tags.create("v1")
    table.branches.create("audit", tag="v1")
    audit = table.branch("audit")
    audit.write([{"p": 0, "k": 1, "a": 9, "b": "x"}])
    diff = table.diff(1, "branch:audit")
    assert [(r["k"], r["columns"]) for r in diff.to_pylist()] == [(1, ["a"])]
    assert table.diff("branch:audit@1", "v1").to_pylist() == []
    audit.add_column("c", "INT")
    audit.write([{"p": 0, "k": 5, "a": 5, "b": "x", "c": 5}])
    assert table.diff("v1", "branch:audit").counts().added == 1
    assert table.diff("branch:audit", "v1").counts().removed == 1
    table.add_column("d", "INT")
    table.write([{"p": 0, "k": 6, "a": 6, "b": "x", "d": 5}])
    with pytest.raises(UnsupportedError, match="both changed their columns"):
        table.diff("branch:audit", 2)
    with pytest.raises(NotFoundError, match="no branch 'audi'"):
        table.diff(1, "branch:audi")


def test_rows_that_a_rescale_moved_do_not_differ(catalog):
    for kind in ("deduplicate", "append buckets"):
        table = made(catalog, kind, f"db.{kind.split()[0]}")
        table.write([{"p": 0, "k": k, "a": k, "b": "x"} for k in range(30)])
        table.rescale_bucket(3)
        last = table.latest_snapshot_id
        assert table.diff(1, last).to_pylist() == [], kind
        table.write([{"p": 0, "k": 99, "a": 1, "b": "x"}])
        assert table.diff(1).counts().added == 1


def test_only_files_that_differ_are_read(catalog, monkeypatch):
    table = made(catalog, "deduplicate", bucket="1", **{"write-only": "true"})
    rows = [{"p": 0, "k": k, "a": k, "b": f"{k * 7919:040}"} for k in range(3_000)]
    for start in range(0, 3_000, 150):
        table.write(rows[start : start + 150])
    first = table.latest_snapshot_id
    table.write([{**rows[5], "a": -1}, {**rows[2_990], "a": -1}])
    read = set()
    split = narrowing.file_sections

    def sections(files, types):
        read.update(f.file_name for f in files)
        return split(files, types)

    monkeypatch.setattr(narrowing, "file_sections", sections)
    diff = table.diff(first)
    assert (diff.files_count, diff.shared_files_count) == (21, 20)
    assert [row["k"] for row in diff.to_pylist()] == [5, 2_990]
    assert len(read) == 3, "the new file, and the two in whose range its keys lie"
    table.write([{**rows[5], "a": -2}])
    assert table.diff(first + 1).files_count == 3, "by the ranges alone"


def test_counts_name_the_columns(catalog):
    table = made(catalog, "deduplicate")
    table.write([{"p": 0, "k": k, "a": k, "b": "x"} for k in range(4)])
    table.write([{"p": 0, "k": 1, "a": 9, "b": "x"}, {"p": 0, "k": 2, "a": 9, "b": "y"}])
    counts = table.diff(1).counts()
    assert str(counts) == "0 added, 0 removed, 2 changed (a 2, b 1)"
    assert "2 rows" in repr(counts)
    assert table.diff(2, 2).counts() == DiffCounts()


def test_a_table_of_keys_alone_has_rows_without_columns(catalog):
    table = catalog.create_table("db.k", pa.schema({"k": pa.int64()}), primary_keys=["k"])
    table.write([{"k": 1}])
    table.write([{"k": 2}])
    assert table.diff(1).to_pylist() == [
        {"change": "added", "k": 2, "before": None, "after": {}, "columns": []}
    ]


def test_what_is_no_version_is_refused(catalog):
    table = made(catalog, "deduplicate")
    table.write([{"p": 0, "k": 1, "a": 1, "b": "x"}])
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        table.diff(1, 7)
    with pytest.raises(InvalidInputError, match="is not a moment"):
        table.diff(1.5)


def test_rows_that_an_update_put_back_do_not_differ(catalog):
    table = made(catalog, "append vectors")
    table.write([{"p": 0, "k": k, "a": 1, "b": "x"} for k in (1, 2)])
    table.update({"a": 9}, where="k = 1")
    table.update({"a": 1}, where="k = 1")
    assert table.diff(1, 3).to_pylist() == []
    assert table.diff(3, 1).to_pylist() == []
    assert table.diff(1, 2).counts().added == table.diff(1, 2).counts().removed == 1
    assert table.changes(1, 3).num_rows == 0
