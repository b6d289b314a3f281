"""Rows put in a noted order are those of the merge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge import MergeSpec, OrderRecorder, merge_runs
from tidelake.merge.runs import merged_order
from tidelake.merge.runs.merged_order import rows_in_order
from tidelake.types import parse_type

LARGE = 1 << 30


def drawn_runs(rng: np.random.Generator, *, keys: int, runs: int) -> list[pa.RecordBatch]:
    """Sorted runs, oldest first, of different sizes, with deletes."""
    found, number = [], 0
    for run in range(runs):
        count = int(rng.integers(1, keys)) if run else keys * 3 // 4
        own = np.sort(rng.choice(keys, count, replace=False))
        found.append(
            pa.record_batch(
                {
                    "k": own,
                    "s": rng.integers(0, 5, count),
                    "a": [f"{run}/{key}" if key % 3 else None for key in own],
                    SEQUENCE_FIELD.name: np.arange(number, number + count),
                    KIND_FIELD.name: rng.choice(np.array([0, 3], np.int8), count, p=[0.8, 0.2]),
                }
            )
        )
        number += count
    return found


def cut(rows: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    return [rows.slice(at, size) for at in range(0, rows.num_rows, size)]


SPECS = [
    MergeSpec(("k",), (parse_type("BIGINT"),)),
    MergeSpec(("k",), (parse_type("BIGINT"),), ignore_delete=True),
    MergeSpec(("k",), (parse_type("BIGINT"),), ("s",), (parse_type("BIGINT"),)),
]


def merged(
    runs: Sequence[pa.RecordBatch], spec: MergeSpec, recorder: OrderRecorder, *, drop: bool = True
) -> pa.Table:
    batches = merge_runs(
        [iter(cut(run, 37)) for run in runs],
        spec,
        drop_deletes=drop,
        columns=["a", "k"],
        recorder=recorder,
    )
    return pa.Table.from_batches(batches, schema=pa.schema([("a", pa.string()), ("k", pa.int64())]))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", range(12))
def test_any_columns_come_in_the_order_of_the_merge(spec, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(merged_order, "GROUP_ROWS", int(rng.integers(1, 400)))
    runs = drawn_runs(rng, keys=int(rng.integers(2, 900)), runs=int(rng.integers(2, 7)))
    recorder = OrderRecorder(len(runs), bytes_max=LARGE)
    expected = merged(runs, spec, recorder, drop=bool(seed % 4))
    order = recorder.order()
    assert order is not None
    monkeypatch.setattr(merged_order, "COMPARED_RUNS_MAX", 8 * (seed % 2))
    assert order.rows_counts == tuple(run.num_rows for run in runs)
    for columns in (["a"], ["k"], ["k", "a"]):
        again = [iter(cut(run.select(columns), int(rng.integers(1, 99)))) for run in runs]
        batches = list(rows_in_order(order, again))
        assert all(batch.num_rows for batch in batches)
        schema = runs[0].select(columns).schema
        assert pa.Table.from_batches(batches, schema=schema).equals(expected.select(columns))


def test_rows_of_one_run_alone_pass_without_a_gather(monkeypatch):
    monkeypatch.setattr(merged_order, "GROUP_ROWS", 50)
    first = pa.record_batch({"a": list(range(100))})
    second = pa.record_batch({"a": list(range(100, 200))})
    order = merged_order.MergedOrder(
        np.repeat(np.array([0, 1], np.uint8), 100), (np.full(13, 255, np.uint8),) * 2, (100, 100)
    )
    [one, *rest] = rows_in_order(order, [iter(cut(first, 50)), iter(cut(second, 50))])
    addresses = [c.column(0).buffers()[1].address for c in (one, first)]
    assert addresses[0] == addresses[1]
    assert sum(b.num_rows for b in rest) == 200 - one.num_rows


def test_an_order_beyond_its_bound_is_not_noted():
    runs = drawn_runs(np.random.default_rng(1), keys=500, runs=3)
    recorder = OrderRecorder(3, bytes_max=200)
    merged(runs, SPECS[0], recorder)
    assert recorder.order() is None
    assert OrderRecorder(256, bytes_max=LARGE).order() is None


def test_a_run_that_has_other_rows_is_noticed():
    runs = drawn_runs(np.random.default_rng(2), keys=500, runs=2)
    recorder = OrderRecorder(2, bytes_max=LARGE)
    merged(runs, SPECS[0], recorder)
    order = recorder.order()
    assert order is not None
    short = [iter([runs[0].slice(1)]), iter([runs[1]])]
    with pytest.raises(AssertionError, match="the rows that it had"):
        list(rows_in_order(order, short))


def all_of(count: int) -> np.ndarray:
    return np.packbits(np.ones(count, np.bool_), bitorder="little")


@pytest.mark.parametrize("interleaved", [False, True])
def test_wide_rows_of_one_run_do_not_pile_up_for_narrow_ones_of_another(interleaved):
    count, wide_rows, came = 4_096, 16, [0]
    narrow = pa.record_batch({"v": pa.nulls(count, pa.string())})
    wide = pa.record_batch({"v": ["x" * 1_000] * wide_rows})

    def wide_batches():
        for _ in range(count // wide_rows):
            came[0] += 1
            yield wide

    run_of = (
        np.tile(np.array([1, 0], np.uint8), count)
        if interleaved
        else np.repeat(np.array([1, 0], np.uint8), count)
    )
    order = merged_order.MergedOrder(run_of, (all_of(count),) * 2, (count, count))
    given = 0
    for batch in rows_in_order(order, [iter([narrow]), wide_batches()]):
        given += batch.num_rows
        assert batch.nbytes < 3 * wide.nbytes or came[0] == count // wide_rows
        assert came[0] <= given // wide_rows + 1
    assert given == 2 * count


def test_of_batches_with_few_rows_that_count_one_is_held():
    batches_count, rows_count = 50, 800
    kept = np.zeros(batches_count * rows_count, np.bool_)
    kept[::400] = True
    came = [0]

    def sparse():
        for number in range(batches_count):
            came[0] += 1
            yield pa.record_batch({"v": np.arange(rows_count) + number * rows_count})

    order = merged_order.MergedOrder(
        np.zeros(2 * batches_count, np.uint8),
        (np.packbits(kept, bitorder="little"), all_of(0)),
        (len(kept), 0),
    )
    found: list[int] = []
    for batch in rows_in_order(order, [sparse(), iter([])]):
        found += batch.column(0).to_pylist()
        assert came[0] <= len(found) // 2
    assert found == list(range(0, len(kept), 400))
