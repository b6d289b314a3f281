from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

from tidelake.merge import ChangeRule, MergeSpec, merge_with_changes
from tidelake.options import Options
from tidelake.types import parse_type
from tidelake.types.schema import DataField, TableSchema

INT = parse_type("INT NOT NULL")
SCHEMA = pa.schema(
    [
        pa.field("_SEQUENCE_NUMBER", pa.int64(), nullable=False),
        pa.field("_VALUE_KIND", pa.int8(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("v", pa.int32()),
        pa.field("w", pa.string()),
    ]
)
FIELDS = (
    DataField(0, "k", INT),
    DataField(1, "v", parse_type("INT")),
    DataField(2, "w", parse_type("STRING")),
)
KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
LAST = 5


def spec_of(**options: str) -> MergeSpec:
    schema = TableSchema(
        id=0, fields=FIELDS, highest_field_id=2, partition_keys=(), primary_keys=("k",)
    )
    named = {k.replace("_", "-"): v for k, v in options.items()}
    return MergeSpec.of(schema, Options.parse(named))


ENGINES = {
    "deduplicate": spec_of(),
    "first-row": spec_of(merge_engine="first-row"),
    "aggregation": spec_of(
        **{"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        changelog_producer="lookup",
    ),
}


def combined(engine: str, rows: list[tuple[int, str, Any]]) -> tuple[int, str, Any] | None:
    """Rows of one key, oldest first, as (sequence number, kind, (v, w))."""
    if len(rows) == 1:
        return rows[0]
    if engine == "deduplicate":
        return rows[-1]
    if engine == "first-row":
        return rows[0]
    total, text = None, None
    for _, kind, (v, w) in rows:
        assert kind in ("+I", "+U")
        total = v if total is None else total if v is None else total + v
        text = text if w is None else w
    return rows[-1][0], "+I", (total, text)


def model(engine: str, runs: list[tuple[int, dict]], rule: ChangeRule, *, drop: bool) -> Any:
    """What comes out, key by key: written from the table in docs/format/merge.md."""
    rows, changes = [], []
    for key in sorted({k for _, run in runs for k in run}):
        held = sorted(
            [(*run[key][:1], level, run[key]) for level, run in runs if key in run],
            key=lambda row: row[0],
        )
        high = [level for _, level, _ in held if level >= 1]
        if engine == "aggregation":
            held = [h for h in held if h[1] == 0 or h[1] == min(high)]
        now = combined(engine, [row for _, _, row in held])
        old_levels = [level for _, level, _ in held if level >= rule.old_level]
        was = next((r for _, level, r in held if old_levels and level == min(old_levels)), None)
        if was is not None and was[1] in ("-U", "-D"):
            was = None
        adds = now is not None and now[1] in ("+I", "+U")
        if any(level < rule.old_level for _, level, _ in held):
            if was is None and adds:
                changes.append((key, now[0], "+I", now[2]))
            elif was is not None and not adds:
                changes.append((key, was[0], "-D", was[2]))
            elif was is not None and engine != "first-row":
                same = rule.compared is not None and all(
                    was[2]["vw".index(c)] == now[2]["vw".index(c)] for c in rule.compared
                )
                if not same:
                    changes += [(key, was[0], "-U", was[2]), (key, now[0], "+U", now[2])]
        beneath = any(level >= rule.looked_up_level for _, level, _ in held)
        if now is None or (drop and not adds) or (engine == "first-row" and beneath):
            continue
        rows.append((key, *now))
    return rows, changes


def batches_of(run: dict, batch_rows: int) -> list[pa.RecordBatch]:
    ordered = sorted(run.items())
    columns = [
        [row[0] for _, row in ordered],
        [KINDS[row[1]] for _, row in ordered],
        [key for key, _ in ordered],
        [row[2][0] for _, row in ordered],
        [row[2][1] for _, row in ordered],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    whole = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return [whole.slice(i, batch_rows) for i in range(0, whole.num_rows, batch_rows)]


def listed(batch: pa.RecordBatch) -> list[Any]:
    names = {v: k for k, v in KINDS.items()}
    assert batch.schema == SCHEMA
    return [
        (r["k"], r["_SEQUENCE_NUMBER"], names[r["_VALUE_KIND"]], (r["v"], r["w"]))
        for r in batch.to_pylist()
    ]


@st.composite
def compactions(draw: Any, engine: str) -> tuple[list[tuple[int, dict]], ChangeRule]:
    """Runs, oldest first, and what of them is new."""
    numbers = itertools.count()
    universe = range(draw(st.integers(1, 12)))
    kinds = ["+I", "+U"] if engine != "deduplicate" else ["+I", "+U", "-D", "-U"]

    def run(keys: Any) -> dict:
        chosen = [k for k in keys if draw(st.booleans())]
        return {
            k: (
                next(numbers),
                draw(st.sampled_from(kinds)),
                (draw(st.none() | st.integers(0, 2)), draw(st.none() | st.sampled_from("ab"))),
            )
            for k in chosen
        }

    by_lookup = engine != "deduplicate" or draw(st.booleans())
    levels = sorted(draw(st.sets(st.integers(1, LAST), max_size=3)), reverse=True)
    high = [(level, run(universe)) for level in levels]
    if engine == "first-row":  # keys above level 0 are unique
        seen: set[int] = set()
        for _, rows in high:
            for key in list(rows):
                if key in seen:
                    del rows[key]
                seen.add(key)
    new = [(0, run(universe)) for _ in range(draw(st.integers(1, 3)))]
    compared = draw(st.sampled_from([None, ("v",), ("v", "w")]))
    if not by_lookup:
        return [*high, *new], ChangeRule(LAST, LAST + 1, compared)
    output = draw(st.integers(1, LAST))
    touched = {k for _, rows in new for k in rows}
    high = [
        (level, rows if level <= output else {k: r for k, r in rows.items() if k in touched})
        for level, rows in high
    ]
    return [*high, *new], ChangeRule(1, output + 1, compared)


@pytest.mark.parametrize("engine", sorted(ENGINES))
@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_rows_and_changes_equal_the_model(engine, data):
    runs, rule = data.draw(compactions(engine))
    drop = data.draw(st.booleans())
    batch_rows = data.draw(st.integers(1, 13))
    parts = list(
        merge_with_changes(
            [iter(batches_of(run, batch_rows)) for _, run in runs],
            ENGINES[engine],
            rule,
            levels=[level for level, _ in runs],
            drop_deletes=drop,
        )
    )
    rows, changes = model(engine, runs, rule, drop=drop)
    assert [r for part in parts for r in listed(part.rows)] == rows
    assert [r for part in parts for r in listed(part.changes)] == changes


def test_a_key_that_comes_back_is_inserted_and_one_that_goes_twice_changes_nothing():
    runs = [
        (5, {1: (0, "+I", (1, "a")), 2: (1, "+I", (2, "b")), 3: (2, "-D", (3, "c"))}),
        (0, {1: (3, "-D", (1, "a")), 2: (4, "+U", (2, "b")), 3: (5, "-D", (3, "c"))}),
        (0, {3: (6, "+I", (4, "d")), 4: (7, "-D", (None, None))}),
    ]
    parts = list(
        merge_with_changes(
            [iter(batches_of(run, 9)) for _, run in runs],
            ENGINES["deduplicate"],
            ChangeRule(1, 6, ("v", "w")),
            levels=[level for level, _ in runs],
            drop_deletes=True,
        )
    )
    rows = [row for part in parts for row in listed(part.rows)]
    assert rows == [(2, 4, "+U", (2, "b")), (3, 6, "+I", (4, "d"))]
    changes = [row for part in parts for row in listed(part.changes)]
    assert changes == [(1, 0, "-D", (1, "a")), (3, 6, "+I", (4, "d"))]
