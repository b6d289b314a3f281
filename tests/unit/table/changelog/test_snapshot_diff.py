"""Differences of two states against the same computed with dicts and counters."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelake.codec.row_codes import rows_differ
from tidelake.table.changelog.snapshot_diff import diff_multiset, diff_sorted
from tidelake.types import parse_type

VALUES = st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5]))
STATE = st.dictionaries(
    st.tuples(st.text("ab\0é", max_size=3), st.integers(-3, 3)), VALUES, max_size=25
)
SCHEMA = pa.schema({"s": pa.string(), "i": pa.int32(), "v": pa.float64()})
KINDS = ["+I", "-U", "+U", "-D"]


def sort_key(key):
    return (key[0].encode(), key[1])


def batches_of(state, sizes):
    rows = [(*k, state[k]) for k in sorted(state, key=sort_key)]
    table = pa.table(
        [pa.array([r[c] for r in rows], SCHEMA.types[c]) for c in range(3)], schema=SCHEMA
    )
    position = 0
    for size in sizes:
        yield from table.slice(position, size).to_batches()
        position += size
    yield from table.slice(position).to_batches()


@settings(deadline=None)
@given(
    STATE, STATE, st.lists(st.integers(1, 6), max_size=4), st.lists(st.integers(1, 6), max_size=4)
)
def test_keyed_states(before, after, cuts_before, cuts_after):
    got = []
    for rows, kinds in diff_sorted(
        batches_of(before, cuts_before),
        batches_of(after, cuts_after),
        key_columns=["s", "i"],
        key_types=[parse_type("STRING"), parse_type("INT")],
    ):
        for row, kind in zip(rows.to_pylist(), kinds.tolist(), strict=True):
            got.append((KINDS[kind], (row["s"], row["i"]), row["v"]))
    want = []
    for key in sorted(before.keys() | after.keys(), key=sort_key):
        if key not in after:
            want.append(("-D", key, before[key]))
        elif key not in before:
            want.append(("+I", key, after[key]))
        elif before[key] != after[key] and not (
            before[key] != before[key] and after[key] != after[key]
        ):
            want += [("-U", key, before[key]), ("+U", key, after[key])]
    assert repr(sorted(got, key=repr)) == repr(sorted(want, key=repr))
    updates = [(kind, key) for kind, key, _ in got if kind in {"-U", "+U"}]
    for (first, key), (second, other) in zip(updates[::2], updates[1::2], strict=True):
        assert (first, second, key) == ("-U", "+U", other)


BAG = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.sampled_from(["a", ""]))
    ),
    max_size=20,
)


@given(BAG, BAG)
def test_bags(before, after):
    schema = pa.schema({"a": pa.int64(), "b": pa.string()})

    def table(rows):
        return pa.table(
            [pa.array([r[i] for r in rows], schema.types[i]) for i in range(2)], schema=schema
        )

    rows, kinds = diff_multiset(table(before), table(after))
    got = Counter(
        (KINDS[k], tuple(r.values())) for r, k in zip(rows.to_pylist(), kinds.tolist(), strict=True)
    )
    old, new = Counter(before), Counter(after)
    want = Counter({("+I", r): n for r, n in (new - old).items()})
    want += Counter({("-D", r): n for r, n in (old - new).items()})
    assert got == want


def test_bags_tell_floats_apart_by_their_bits():
    one = pa.table({"x": [float("nan"), 0.0]})
    other = pa.table({"x": [float("nan"), -0.0]})
    rows, kinds = diff_multiset(one, other)
    assert [str(v) for v in rows["x"].to_pylist()] == ["0.0", "-0.0"]
    assert kinds.tolist() == [3, 0]


def test_rows_of_slices_compare_by_value():
    left = pa.record_batch({"x": pa.array([None, 1, 2]), "y": ["a", "b", "c"]}).slice(1)
    right = pa.record_batch({"x": pa.array([1, None]), "y": ["b", "c"]})
    assert rows_differ(left, right).tolist() == [False, True]
