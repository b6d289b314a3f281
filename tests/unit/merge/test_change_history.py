"""The versions of keys, against states asked for moment by moment."""

import random

import change_feeds
import pyarrow as pa
import pytest

from tidelake.merge.change_history import (
    DELETE,
    ROLE_COLUMN,
    TARGET,
    UPSERT,
    HistoryRule,
    versions_of,
)

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("a", pa.string()),
        ("b", pa.int64()),
        ("at", pa.int64()),
        ("until", pa.int64()),
        (ROLE_COLUMN, pa.int8()),
    ]
)


def rule(kind, **given):
    ends = {"ends": ("until",), "output_ends": ("__END_AT",)} if kind == 2 else {}
    return HistoryRule(("k",), ("a", "b"), ("at",), ("__START_AT",), **ends, **given)


def made(rows, of, *, batch_rows=3):
    rows = sorted(rows, key=lambda row: row["k"])
    parts = [rows[i : i + batch_rows] for i in range(0, len(rows), batch_rows)]
    batches = [pa.RecordBatch.from_pylist(part, schema=SCHEMA) for part in parts]
    return [row for table in versions_of(batches, of) for row in table.to_pylist()]


def as_change(change):
    role = DELETE if change["op"] == "D" else UPSERT
    return {**change, "until": None, ROLE_COLUMN: role}


class Target:
    """A table of type 2 in memory, with the changes that are kept beside it."""

    def __init__(self, of):
        self.of, self.rows, self.kept = of, {}, {}

    def apply(self, batch):
        for change in batch:
            if change["op"] == "D" or not self.of.rows_are_changes:
                self.kept[change["k"], change["at"], change["op"]] = change
        touched = {change["k"] for change in batch}
        given = [as_change(c) for c in self.kept.values() if c["k"] in touched]
        if self.of.rows_are_changes:
            given += [as_change(c) for c in batch if c["op"] == "U"]
        given += [row for (k, _), row in self.rows.items() if k in touched]
        for row in made(given, self.of):
            at = row["k"], row["__START_AT"]
            if row["_row_kind"] == 3:
                del self.rows[at]
                continue
            assert (row["_row_kind"] == 2) == (at in self.rows)
            values = {"k": row["k"], "a": row["a"], "b": row["b"], ROLE_COLUMN: TARGET}
            self.rows[at] = {**values, "at": at[1], "until": row["__END_AT"]}

    @property
    def shown(self):
        names = ("k", "a", "b", "at", "until")
        return {tuple(row[name] for name in names) for row in self.rows.values()}


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(
    "given",
    [
        {"rows_are_changes": True},
        {"tracked": ("a",)},
        {"tracked": ("a", "b")},
        {"ignores_nulls": True},
        {"ignores_nulls": True, "tracked": ("b",)},
    ],
    ids=str,
)
def test_a_history_is_that_of_the_changes_in_whatever_order_they_come(seed, given):
    feed = change_feeds.drawn_feed(seed, nulls="ignores_nulls" in given)
    target = Target(rule(2, **given))
    seen = []
    for batch in change_feeds.drawn_batches(feed, seed):
        target.apply(batch)
        seen += batch
        wanted = {name: given[name] for name in ("tracked", "ignores_nulls") if name in given}
        distinct = [dict(t) for t in {tuple(sorted(c.items(), key=str)) for c in seen}]
        assert target.shown == change_feeds.history_rows(distinct, **wanted)
        before = dict(target.rows)
        target.apply(random.Random(seed).sample(seen, len(seen) // 2))
        assert target.rows == before


@pytest.mark.parametrize("seed", range(60))
def test_the_last_rows_are_those_of_the_changes(seed):
    feed = change_feeds.drawn_feed(seed, nulls=True)
    rows = made([as_change(c) for c in feed], rule(1, ignores_nulls=True))
    live = {(row["k"], row["a"], row["b"]) for row in rows if row["_row_kind"] == 2}
    assert live == change_feeds.last_rows(feed, ignores_nulls=True)
    newest = {k: max(c["at"] for c in own) for k, own in change_feeds.by_key(feed).items()}
    assert {row["k"]: row["__START_AT"] for row in rows} == newest


def test_at_one_sequence_a_delete_counts_whichever_came_first():
    upsert = {"k": 1, "at": 5, "op": "U", "a": "x", "b": 1}
    delete = {"k": 1, "at": 5, "op": "D", "a": None, "b": None}
    for batches in ([[upsert], [delete]], [[delete], [upsert]], [[upsert, delete]]):
        target = Target(rule(2, rows_are_changes=True))
        for batch in batches:
            target.apply(batch)
        assert not target.rows


def test_a_version_stays_ended_though_its_delete_is_forgotten():
    target = Target(rule(2, rows_are_changes=True))
    first = [{"k": 1, "at": at, "op": op, "a": "x", "b": at} for at, op in ((1, "U"), (5, "D"))]
    target.apply(first)
    target.kept.clear()
    target.apply([{"k": 1, "at": 3, "op": "U", "a": "y", "b": 3}])
    target.apply([{"k": 1, "at": 8, "op": "U", "a": "z", "b": 8}])
    assert target.shown == {(1, "x", 1, 1, 3), (1, "y", 3, 3, 5), (1, "z", 8, 8, None)}


def test_a_key_longer_than_a_batch_is_one_key():
    changes = [{"k": 1, "at": at, "op": "U", "a": "x", "b": at} for at in range(20)]
    rows = made([as_change(c) for c in changes], rule(2), batch_rows=4)
    assert [row["__END_AT"] for row in rows] == [*range(1, 20), None]


def test_values_are_taken_and_not_converted():
    nan = float("nan")
    schema = pa.schema(
        [
            ("k", pa.int64()),
            ("v", pa.map_(pa.string(), pa.float64())),
            ("at", pa.int64()),
            (ROLE_COLUMN, pa.int8()),
        ]
    )
    row = {"k": 1, "v": [("m", nan)], "at": 1, ROLE_COLUMN: UPSERT}
    of = HistoryRule(("k",), ("v",), ("at",), ("at",))
    (table,) = versions_of([pa.RecordBatch.from_pylist([row], schema=schema)], of)
    assert table.schema.field("v").type == schema.field("v").type
    assert table.column("at").to_pylist() == [1]
