from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.merge.engines.oracle import Row, deduplicate, from_batches, schema_of, spec_of, to_run
from unit.merge.runs.test_sorted_runs import KEY_TYPES, SEQUENCE_TYPES, VALUES

from tidelake.merge import merge_buffer
from tidelake.merge.runs import sort_buffer
from tidelake.telemetry import UNLIMITED


@st.composite
def arrivals(draw: Any) -> tuple[list[str], list[str], list[Row]]:
    """Column types, and rows of few keys in arrival order."""
    keys, sequence = draw(KEY_TYPES), draw(SEQUENCE_TYPES)
    universe = draw(st.lists(st.tuples(*[VALUES[t] for t in keys]), min_size=1, max_size=10))
    numbers = itertools.count(1)
    rows = []
    for key in draw(st.lists(st.sampled_from(universe), max_size=40)):
        user = tuple(draw(st.none() | VALUES[t]) for t in sequence)
        number = next(numbers)
        kind = draw(st.sampled_from([0, 0, 1, 2, 3]))
        rows.append(Row(key, user, number, kind, f"v{number}"))
    return keys, sequence, rows


@settings(max_examples=examples(200), deadline=None)
@given(arrivals(), st.integers(1, 41), st.booleans(), st.booleans())
def test_buffer_equals_the_row_by_row_oracle(arrived, batch_rows, descending, ignore):
    keys, sequence, rows = arrived
    schema = schema_of(keys, sequence)
    spec = spec_of(keys, sequence, sequence_descending=descending, ignore_delete=ignore)
    batches = to_run(rows, schema, batch_rows=batch_rows) or [schema.empty_table().to_batches()]
    if not rows:
        return
    table = merge_buffer(batches, spec)
    assert table.schema == schema
    assert from_batches(table.to_batches()) == deduplicate(
        rows, descending=descending, ignore_delete=ignore
    )


def test_deletes_stay_in_the_buffer():
    schema = schema_of(["BIGINT"])
    rows = [Row((1,), (), 1, 0, "a"), Row((1,), (), 2, 3, "gone"), Row((2,), (), 3, 3, "lone")]
    table = merge_buffer(to_run(rows, schema, batch_rows=2), spec_of(["BIGINT"]))
    assert table["v"].to_pylist() == ["gone", "lone"]


@pytest.mark.parametrize(
    ("rows_bytes_max", "memory"),
    [(2_000, UNLIMITED), (1 << 30, replace(UNLIMITED, sort_keys_bytes=2_000))],
)
def test_a_buffer_too_large_for_one_sort_is_merged_in_parts(monkeypatch, rows_bytes_max, memory):
    monkeypatch.setattr(sort_buffer, "GROUP_BYTES_MAX", rows_bytes_max)
    schema = schema_of(["STRING"])
    rows = [
        Row((f"key{i * 7919 % 101:03}",), (), i, 3 if i % 11 == 0 else 0, f"v{i}")
        for i in range(1_000)
    ]
    table = merge_buffer(to_run(rows, schema, batch_rows=256), spec_of(["STRING"]), memory=memory)
    assert from_batches(table.to_batches()) == deduplicate(rows)
