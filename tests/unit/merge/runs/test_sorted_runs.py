from __future__ import annotations

import datetime as dt
import itertools
import weakref
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples
from unit.merge.engines.oracle import (
    Row,
    deduplicate,
    from_batches,
    key_order,
    schema_of,
    spec_of,
    to_batch,
    to_run,
)

from tidelake.errors import UnsupportedError
from tidelake.merge import MergeSpec, merge_runs
from tidelake.merge.runs import run_cursor, run_groups
from tidelake.types import parse_type

VALUES = {
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    "INT": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "STRING": st.text(st.sampled_from("\x00ab\xff\u4e2d\U0001f600"), max_size=12),
    "BYTES": st.binary(max_size=3),
    "DECIMAL(12, 2)": st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)),
    "DECIMAL(30, 2)": st.integers(-(10**25), 10**25).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -2))
    ),
    "DATE": st.dates(dt.date(1960, 1, 1), dt.date(1960, 1, 9)),
    "BOOLEAN": st.booleans(),
    "TIMESTAMP(6)": st.datetimes(dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 2)),
    "DOUBLE": st.floats(allow_nan=False).filter(lambda x: str(x) != "-0.0"),
}
KEY_TYPES = st.lists(
    st.sampled_from(
        ["BIGINT", "INT", "STRING", "BYTES", "DECIMAL(12, 2)", "DECIMAL(30, 2)", "DATE"]
    ),
    min_size=1,
    max_size=3,
)
SEQUENCE_TYPES = st.lists(
    st.sampled_from(["INT", "STRING", "DECIMAL(12, 2)", "TIMESTAMP(6)", "DOUBLE", "BOOLEAN"]),
    max_size=2,
)


@st.composite
def bucket_runs(draw: Any) -> tuple[list[str], list[str], list[list[Row]]]:
    """Column types, and runs of rows, each sorted by key with unique keys."""
    keys, sequence = draw(KEY_TYPES), draw(SEQUENCE_TYPES)
    universe = draw(
        st.lists(st.tuples(*[VALUES[t] for t in keys]), min_size=1, max_size=30, unique=True)
    )
    universe.sort(key=key_order)
    names = itertools.count()
    runs = []
    for _ in range(draw(st.integers(1, 6))):
        chosen = draw(st.lists(st.booleans(), min_size=len(universe), max_size=len(universe)))
        run = []
        for key in itertools.compress(universe, chosen):
            user = tuple(draw(st.none() | VALUES[t]) for t in sequence)
            number = draw(st.integers(0, 4))
            kind = draw(st.sampled_from([0, 0, 1, 2, 3]))
            run.append(Row(key, user, number, kind, f"v{next(names)}"))
        runs.append(run)
    return keys, sequence, runs


@settings(max_examples=examples(300), deadline=None)
@given(
    bucket_runs(),
    st.integers(1, 31),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_merge_equals_the_row_by_row_oracle(bucket, batch_rows, descending, ignore, drop):
    keys, sequence, runs = bucket
    schema = schema_of(keys, sequence)
    spec = spec_of(keys, sequence, sequence_descending=descending, ignore_delete=ignore)
    batches = list(
        merge_runs(
            [iter(to_run(run, schema, batch_rows=batch_rows)) for run in runs],
            spec,
            drop_deletes=drop,
        )
    )
    expected = deduplicate(
        [row for run in runs for row in run],
        descending=descending,
        ignore_delete=ignore,
        drop_deletes=drop,
    )
    assert from_batches(batches) == expected
    assert all(batch.num_rows and batch.schema == schema for batch in batches)


def int_rows(*rows: tuple[int, int, int, str]) -> list[Row]:
    """(key, sequence number, kind, value)."""
    return [Row((k,), (), number, kind, value) for k, number, kind, value in rows]


def merged(runs: list[list[Row]], *, drop_deletes: bool = True, **options: Any) -> list[str]:
    schema = schema_of(["BIGINT"])
    its = [iter(to_run(run, schema, batch_rows=2)) for run in runs]
    spec = spec_of(["BIGINT"], **options)
    return [
        row.value for row in from_batches(list(merge_runs(its, spec, drop_deletes=drop_deletes)))
    ]


def test_newer_sequence_wins_even_in_an_older_run():
    assert merged([int_rows((1, 9, 0, "new")), int_rows((1, 3, 0, "old"))]) == ["new"]


def test_later_run_wins_on_equal_sequence_numbers():
    assert merged([int_rows((1, 5, 0, "a")), int_rows((1, 5, 0, "b"))]) == ["b"]


def test_add_wins_over_retract_on_equal_sequence_numbers():
    assert merged([int_rows((1, 5, 0, "add")), int_rows((1, 5, 3, "delete"))]) == ["add"]


@pytest.mark.parametrize("kind", [1, 3])
def test_lone_update_before_removes_like_a_delete(kind):
    runs = [int_rows((1, 1, 0, "a"), (2, 2, 0, "b")), int_rows((1, 3, kind, "gone"))]
    assert merged(runs) == ["b"]
    assert merged(runs, drop_deletes=False) == ["gone", "b"]


def test_update_after_keeps_its_kind():
    schema = schema_of(["BIGINT"])
    runs = [int_rows((1, 1, 0, "a")), int_rows((1, 2, 2, "b"))]
    its = [iter(to_run(run, schema, batch_rows=8)) for run in runs]
    [row] = from_batches(list(merge_runs(its, spec_of(["BIGINT"]), drop_deletes=True)))
    assert (row.kind, row.number, row.value) == (2, 2, "b")


def test_ignore_delete_keeps_the_last_add():
    runs = [int_rows((1, 1, 0, "a"), (2, 2, 0, "x")), int_rows((1, 3, 3, "gone"))]
    assert merged(runs, ignore_delete=True) == ["a", "x"]


def test_single_run_drops_deletes_without_encoding_keys():
    assert merged([int_rows((1, 1, 0, "a"), (2, 2, 3, "gone"), (3, 3, 2, "c"))]) == ["a", "c"]


def test_no_runs_and_empty_runs_give_nothing():
    schema = schema_of(["BIGINT"])
    empty = to_batch([], schema)
    spec = spec_of(["BIGINT"])
    assert list(merge_runs([], spec, drop_deletes=True)) == []
    assert list(merge_runs([iter([empty]), iter([])], spec, drop_deletes=True)) == []


def test_only_wanted_columns_come_out_in_the_order_asked():
    schema = schema_of(["BIGINT"])
    runs = [int_rows((1, 1, 0, "a"), (7, 2, 0, "z")), int_rows((1, 3, 0, "b"))]
    its = [iter(to_run(run, schema, batch_rows=8)) for run in runs]
    batches = list(merge_runs(its, spec_of(["BIGINT"]), drop_deletes=True, columns=["v", "k0"]))
    assert pa.Table.from_batches(batches).to_pydict() == {"v": ["b", "z"], "k0": [1, 7]}


def test_longer_keys_that_show_up_late_are_compared_right():
    schema = schema_of(["STRING"])
    short = [Row((f"{i:03}",), (), i, 0, f"old{i}") for i in range(50)]
    long = [Row((f"{i:03}" + "x" * 90,), (), 100 + i, 0, f"long{i}") for i in range(40, 50)]
    again = [Row((f"{i:03}",), (), 200 + i, 0, f"new{i}") for i in range(45, 50)]
    runs = [short, sorted(long + again, key=lambda r: r.key)]
    its = [iter(to_run(run, schema, batch_rows=4)) for run in runs]
    got = from_batches(list(merge_runs(its, spec_of(["STRING"]), drop_deletes=True)))
    assert got == deduplicate([row for run in runs for row in run])


def test_very_wide_keys_are_encoded_window_by_window(monkeypatch):
    monkeypatch.setattr(run_cursor, "KEY_BYTES_MAX", 256)
    schema = schema_of(["STRING", "INT"])
    rows = [Row(("y" * (i % 60), i), (), i, 0, f"old{i}") for i in range(200)]
    newer = [
        Row(("y" * (i % 60), i), (), 500 + i, 3 * (i % 2), f"new{i}") for i in range(0, 200, 3)
    ]
    runs = [sorted(rows, key=lambda r: r.key), sorted(newer, key=lambda r: r.key)]
    its = [iter(to_run(run, schema, batch_rows=64)) for run in runs]
    got = from_batches(list(merge_runs(its, spec_of(["STRING", "INT"]), drop_deletes=True)))
    assert got == deduplicate([row for run in runs for row in run], drop_deletes=True)


def test_large_batches_are_cut_by_bytes(monkeypatch):
    monkeypatch.setattr(run_groups, "SLICE_BYTES_MAX", 4_000)
    schema = schema_of(["BIGINT"])
    runs = [
        int_rows(*[(k, 1000 * r + k, 0, f"{r}:{k}" * 20) for k in range(300)]) for r in range(3)
    ]
    its = [iter(to_run(run, schema, batch_rows=300)) for run in runs]
    batches = list(merge_runs(its, spec_of(["BIGINT"]), drop_deletes=True))
    assert max(batch.nbytes for batch in batches) <= 4_000 * 3
    assert from_batches(batches) == runs[2]


def test_at_most_one_batch_per_run_is_held():
    schema = schema_of(["BIGINT"])
    alive = {"now": 0, "peak": 0}

    def let_go() -> None:
        alive["now"] -= 1

    def source(run: int) -> Any:
        for part in range(40):
            keys = range(part * 100, part * 100 + 100)
            # a fresh buffer per batch: it dies when nobody holds the batch any more
            numbers = np.arange(run * 10_000 + part * 100, run * 10_000 + part * 100 + 100)
            weakref.finalize(numbers, let_go)
            alive["now"] += 1
            alive["peak"] = max(alive["peak"], alive["now"])
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(np.fromiter(keys, np.int64)),
                    pa.array(numbers),
                    pa.array(np.zeros(100, np.int8)),
                    pa.array([f"{run}" for _ in keys]),
                ],
                schema=schema,
            )
            del numbers

    runs_count = 7
    its = [source(run) for run in range(runs_count)]
    rows = sum(b.num_rows for b in merge_runs(its, spec_of(["BIGINT"]), drop_deletes=True))
    assert rows == 4_000
    # one batch per run, the one that the source still holds, the one that the consumer looks at
    assert alive["peak"] <= runs_count + 2
    assert alive["now"] <= 1


def test_a_run_out_of_order_is_noticed_by_the_self_checks():
    schema = schema_of(["BIGINT"])
    wrong = int_rows((2, 1, 0, "a"), (1, 2, 0, "b"))
    right = int_rows((1, 3, 0, "c"))
    its = [iter(to_run(run, schema, batch_rows=8)) for run in (wrong, right)]
    with pytest.raises(AssertionError, match="keys must rise"):
        list(merge_runs(its, spec_of(["BIGINT"]), drop_deletes=True))


def test_an_engine_that_is_not_covered_is_refused():
    with pytest.raises(UnsupportedError, match=r"last-row.*merge-engine"):
        MergeSpec(("k",), (parse_type("INT"),), engine="last-row")
