"""What changed between two moments: net changes of keyed and append tables."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelake
from tidelake import InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO


def changed(table, *args, **kwargs):
    got = table.changes(*args, **kwargs).to_pylist()
    return sorted(tuple(r.values()) for r in got)


def test_net_changes_of_a_keyed_table(keyed):
    keyed.write([{"k": k, "v": "a", "n": k} for k in range(5)])
    keyed.write([{"k": 1, "v": "b", "n": 1}, {"k": 9, "v": "new", "n": 9}])
    keyed.write([{"k": 1, "v": "c", "n": 1}, {"k": 2, "v": "a", "n": 2}])
    keyed.delete([{"k": 3}])
    assert changed(keyed, 1, 4) == sorted(
        [
            ("+I", 9, "new", 9),
            ("+U", 1, "c", 1),
            ("-U", 1, "a", 1),
            ("-D", 3, "a", 3),
        ]
    )
    assert changed(keyed, 0, 1) == [("+I", k, "a", k) for k in range(5)]
    assert changed(keyed, 4) == []
    assert changed(keyed, 3) == [("-D", 3, "a", 3)]


def test_an_update_before_stands_right_before_its_update_after(keyed):
    keyed.write([{"k": k, "v": "a", "n": k} for k in range(50)])
    keyed.write([{"k": k, "v": "b", "n": k} for k in range(0, 50, 2)])
    got = keyed.changes(1).to_pylist()
    assert [r["_row_kind"] for r in got] == ["-U", "+U"] * 25
    assert all(a["k"] == b["k"] for a, b in zip(got[::2], got[1::2], strict=True))


def test_compaction_and_upgrade_change_nothing(keyed):
    for i in range(4):
        keyed.write([{"k": k, "v": str(i), "n": i} for k in range(10)])
    before = keyed.history().num_rows
    keyed.compact(full=True)
    assert changed(keyed, before) == []


def test_changes_over_an_overwrite(keyed):
    keyed.write([{"k": k, "v": "a", "n": k} for k in range(3)])
    keyed.write([{"k": 0, "v": "a", "n": 0}, {"k": 7, "v": "z", "n": 7}], mode="overwrite")
    assert changed(keyed, 1, 2) == [("+I", 7, "z", 7), ("-D", 1, "a", 1), ("-D", 2, "a", 2)]


def test_changes_of_an_append_table(appended):
    appended.write([{"k": 1, "v": "a", "n": 1}])
    appended.write([{"k": 1, "v": "a", "n": 1}, {"k": 2, "v": None, "n": None}])
    assert changed(appended, 1) == [("+I", 1, "a", 1), ("+I", 2, None, None)]
    appended.write([{"k": 1, "v": "a", "n": 1}, {"k": 3, "v": "c", "n": 3}], mode="overwrite")
    assert changed(appended, 2) == [
        ("+I", 3, "c", 3),
        ("-D", 1, "a", 1),
        ("-D", 2, None, None),
    ]


def test_changes_by_tag_and_time_with_columns_and_filter(keyed):
    keyed.write([{"k": k, "v": "a", "n": k} for k in range(4)])
    keyed.tags.create("t1")
    keyed.write([{"k": k, "v": "b", "n": k * 10} for k in range(3)])
    assert keyed.changes("t1", 2, columns=["n"], where="k > 1").to_pylist() == [
        {"_row_kind": "-U", "n": 2},
        {"_row_kind": "+U", "n": 20},
    ]
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert len(changed(keyed, "t1", later)) == 6
    assert [r[0] for r in changed(keyed, 1, "t1")] == []


@pytest.mark.parametrize("mode", ["diff", "delta"])
def test_a_time_before_the_first_snapshot_begins_with_the_empty_table(keyed, mode):
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    keyed.write([{"k": 2, "v": "b", "n": 2}])
    long_ago = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    assert changed(keyed, long_ago, 1, mode=mode) == [("+I", 1, "a", 1)]
    assert len(changed(keyed, long_ago, mode=mode)) == 2
    with pytest.raises(NotFoundError, match="lies before snapshot 1"):
        keyed.changes(0, long_ago, mode=mode)


def test_wrong_moments_are_refused(keyed):
    keyed.write([{"k": 1, "v": "a", "n": 1}])
    keyed.write([{"k": 1, "v": "b", "n": 1}])
    with pytest.raises(InvalidInputError, match="swap them"):
        keyed.changes(2, 1)
    with pytest.raises(NotFoundError, match="no snapshot 7"):
        keyed.changes(1, 7)
    with pytest.raises(NotFoundError, match="no tag 'x'"):
        keyed.changes("x")
    with pytest.raises(InvalidInputError, match="is not a moment"):
        keyed.changes(1.5)
    with pytest.raises(NotFoundError, match="'vv' does not exist"):
        keyed.changes(1, 2, columns=["vv"])


operation = st.tuples(
    st.sampled_from(["upsert", "delete", "overwrite", "compact"]),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=5),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(operation, min_size=2, max_size=7), st.integers(1, 2), st.data())
def test_changes_applied_to_the_old_state_give_the_new(tmp_path_factory, steps, buckets, data):
    catalog = tidelake.open(tmp_path_factory.mktemp("w"))
    schema = pa.schema({"k": pa.int64(), "v": pa.int64()})
    table = catalog.create_table("d.t", schema, primary_keys=["k"], options={"bucket": buckets})
    for what, pairs in steps:
        given_rows = [{"k": k, "v": v} for k, v in dict(pairs).items()]
        if what == "upsert":
            table.write(given_rows)
        elif what == "delete":
            table.delete([{"k": r["k"]} for r in given_rows])
        elif what == "overwrite":
            table.write(given_rows, mode="overwrite")
        else:
            table.compact(full=True)
    ids = [0, *table.history().column("snapshot_id").to_pylist()]
    start = data.draw(st.sampled_from(ids))
    end = data.draw(st.sampled_from([i for i in ids if i >= start]))

    def state(snapshot_id):
        if snapshot_id == 0:
            return {}
        return {r["k"]: r["v"] for r in table.to_arrow(snapshot_id=snapshot_id).to_pylist()}

    now = state(start)
    for row in table.changes(start, end).to_pylist():
        kind, key, value = row["_row_kind"], row["k"], row["v"]
        if kind in {"-U", "-D"}:
            assert now.pop(key) == value
        else:
            assert key not in now
            now[key] = value
    assert now == state(end)


def test_issue_36_an_update_that_leaves_a_filter_is_a_delete_of_its_old_row():
    catalog = tidelake.open("/w", fileio=MemoryFileIO())
    table = catalog.create_table(
        "db.t", {"k": "INT", "v": "INT"}, primary_keys=["k"], options={"bucket": 1}
    )
    table.write([{"k": 1, "v": 9}, {"k": 2, "v": 9}])
    table.write([{"k": 1, "v": 1}, {"k": 2, "v": 8}])
    found = table.changes(1, where="v > 5").to_pylist()
    assert [(row["_row_kind"], row["k"], row["v"]) for row in found] == [
        ("-D", 1, 9), ("-U", 2, 9), ("+U", 2, 8),
    ]  # fmt: skip
