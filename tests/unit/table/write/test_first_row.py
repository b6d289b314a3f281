"""The engine first-row: the row that was written first stays, at every snapshot."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import SIZE

import tidelake
from tidelake import InvalidInputError
from tidelake.fileio import MemoryFileIO

SCHEMA = pa.schema(
    [pa.field("k", pa.int32(), nullable=False), ("p", pa.string()), ("v", pa.int32())]
)
FIRST_ROW = {
    "bucket": "2",
    "merge-engine": "first-row",
    "num-sorted-run.compaction-trigger": "3",
    "target-file-size": "2 kb",
}


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=FIRST_ROW)


def rows(values):
    return pa.Table.from_pylist([dict(zip("kpv", row, strict=True)) for row in values], SCHEMA)


def content(table, **scan):
    return {r["k"]: (r["p"], r["v"]) for r in table.to_arrow(**scan).to_pylist()}


def levels(table):
    return set(table.system_table("files").to_arrow()["level"].to_pylist())


COMMITS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", None]), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=SIZE.histories, deadline=None)
@given(COMMITS, st.sampled_from(["2", "-1"]), st.data())
def test_the_first_row_stays_at_every_snapshot(commits, bucket, data):
    options = {**FIRST_ROW, "bucket": bucket, "dynamic-bucket.target-row-num": "7"}
    catalog = tidelake.open("/w", fileio=MemoryFileIO())
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options=options)
    state: dict = {}
    seen = {}  # by snapshot
    for commit in commits:
        only_writes = data.draw(st.booleans())
        use = table.with_options({"write-only": "true"}) if only_writes else table
        ids = use.write(rows(commit)).snapshot_ids
        for k, p, v in commit:
            state.setdefault(k, (p, v))
        seen |= {number: dict(state) for number in ids}
        if not only_writes:
            # buckets without new rows are not looked at
            table.compact()
            assert levels(table) <= {1, 2, 3, 4, 5}
        assert content(table) == state
        assert table.count() == len(state)
    for number, then in seen.items():
        assert content(table, snapshot_id=number) == then
    table.compact(full=True)
    assert content(table) == state


def test_a_table_without_overlaps_is_read_raw_and_pruned_by_values(table):
    table.write(rows([(k, "a", k) for k in range(100)]))
    table.write(rows([(k, "b", 1000 + k) for k in range(50, 150)]))
    got = table.to_arrow(where="v >= 1100")
    assert sorted(got["k"].to_pylist()) == list(range(100, 150))
    splits = table.explain(where="v >= 1100").plan.splits
    assert splits
    assert all(split.raw for split in splits)


def test_rows_that_take_back_are_refused_before_anything_is_written(table):
    with pytest.raises(InvalidInputError, match=r"'db.t'.*'first-row'.*'ignore-delete' = 'true'"):
        table.write(rows([(1, "a", 1)]), row_kinds=["-D"])
    with pytest.raises(InvalidInputError, match="which never deletes a row"):
        table.delete("k = 1")
    assert table.history().num_rows == 0


def test_rows_that_take_back_are_left_out_where_the_table_says_so(catalog):
    options = {**FIRST_ROW, "ignore-delete": "true"}
    table = catalog.create_table("db.i", SCHEMA, primary_keys=["k"], options=options)
    table.write(rows([(1, "a", 1), (1, "b", 2), (2, "c", 3)]), row_kinds=["-D", "+I", "+U"])
    table.write(rows([(1, "x", 9), (2, "x", 9)]), row_kinds=["-U", "-D"])
    assert content(table) == {1: ("b", 2), 2: ("c", 3)}


def test_an_overwritten_table_begins_anew(table):
    table.write(rows([(1, "a", 1), (2, "a", 1)]))
    table.write(rows([(2, "b", 2), (2, "c", 3)]), mode="overwrite")
    assert content(table) == {2: ("b", 2)}


def test_rows_that_wait_in_level_0_are_not_lost_by_a_rescale(catalog, table):
    table.write(rows([(1, "a", 1)]))
    table.with_options({"write-only": "true"}).write(rows([(1, "b", 2), (2, "b", 2)]))
    table.rescale_bucket(3)
    assert content(catalog.table("db.t")) == {1: ("a", 1), 2: ("b", 2)}
