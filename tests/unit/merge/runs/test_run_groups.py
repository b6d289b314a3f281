"""Groups of whole keys: how many there are, and what of a run is read meanwhile."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge import MergeSpec
from tidelake.merge.runs.run_cursor import RunCursor
from tidelake.merge.runs.run_groups import RunGroups
from tidelake.telemetry import UNLIMITED
from tidelake.types import parse_type

SPEC = MergeSpec(("k",), (parse_type("BIGINT NOT NULL"),))
ROWS = 1000


def batch_of(keys, *, sequence=0):
    keys = np.asarray(keys, np.int64)
    names = ["k", SEQUENCE_FIELD.name, KIND_FIELD.name]
    zeros = np.zeros(len(keys), np.int8)
    return pa.record_batch([keys, np.full(len(keys), sequence), zeros], names=names)


def run_of(rng, count, *, sequence=0):
    keys = np.sort(rng.choice(20 * count * ROWS, count * ROWS, replace=False))
    return [batch_of(keys[i : i + ROWS], sequence=sequence) for i in range(0, len(keys), ROWS)]


@pytest.mark.parametrize("runs_count", [2, 5])
def test_runs_of_one_size_make_few_small_groups(runs_count):
    rng = np.random.default_rng(runs_count)
    runs = [run_of(rng, 20, sequence=number) for number in range(runs_count)]
    levels = list(range(runs_count))
    groups = RunGroups([iter(run) for run in runs], SPEC, memory=UNLIMITED, levels=levels)
    found = {level: [] for level in levels}
    sizes = []
    bound = -1
    while (slices := groups.next_group()) is not None:
        sizes.append(sum(s.rows.num_rows for s in slices))
        largest = max(int(s.keys[-1]) for s in slices)
        assert min(int(s.keys[0]) for s in slices) > bound
        bound = largest
        for s in slices:
            assert s.keys.tolist() == s.rows.column("k").to_pylist()
            assert len(s.kinds) == len(s.keys)
            assert s.sequence_bounds == (s.level, s.level)
            found[s.level] += s.keys.tolist()
    for rows, cursor in groups.rest():
        found[cursor.level] += rows.column("k").to_pylist()
    for level, run in enumerate(runs):
        assert found[level] == [k for batch in run for k in batch.column("k").to_pylist()]
    # a group for each end of a batch would be 20 of each run
    assert len(sizes) <= 20 + 5 * runs_count
    assert np.median(sizes) > 0.6 * runs_count * ROWS


def counted(batches, taken):
    for batch in batches:
        taken.append(batch)
        yield batch


@pytest.mark.parametrize(("share", "ahead"), [(1.0, False), (1.1, False), (1.2, True)])
def test_the_next_batch_is_read_behind_few_rows_where_both_fit(share, ahead):
    batches = [batch_of(range(ROWS)), batch_of(range(ROWS, 2 * ROWS))]
    taken = []
    cursor = RunCursor(
        counted(batches, taken), SPEC, slice_bytes_max=int(batches[0].nbytes * share)
    )
    for cut, wanted in ((ROWS // 2, 1), (ROWS - 100, 1), (ROWS - 50, 1 + ahead)):
        assert cursor.fill()
        cursor.encode(cursor.widths)
        assert len(taken) == wanted
        rows = cursor.advance(cut)
        assert rows is not None
        assert rows.keys[-1] == cut


def test_a_cut_may_lie_within_what_was_left():
    batches = [batch_of(range(ROWS)), batch_of(range(ROWS, 2 * ROWS))]
    cursor = RunCursor(iter(batches), SPEC, slice_bytes_max=1 << 30)
    found = []
    cuts = [ROWS - 90, ROWS - 50, ROWS - 50, ROWS - 10, ROWS + 3, ROWS + 3, 2 * ROWS - 20, 2 * ROWS]
    for cut in cuts:
        assert cursor.fill()
        cursor.encode(cursor.widths)
        rows = cursor.advance(cut)
        found.append([] if rows is None else rows.keys.tolist())
    starts = [0, *[cut + 1 for cut in cuts[:-1]]]
    wanted = [list(range(a, min(b + 1, 2 * ROWS))) for a, b in zip(starts, cuts, strict=True)]
    assert found == wanted
    assert not cursor.fill()


def test_a_run_that_ends_is_not_asked_again():
    ends = []

    def run():
        yield batch_of(range(ROWS))
        ends.append("asked")

    cursor = RunCursor(run(), SPEC, slice_bytes_max=1 << 30)
    for cut in (ROWS - 60, ROWS - 40, ROWS - 20):
        assert cursor.fill()
        cursor.encode(cursor.widths)
        assert cursor.advance(cut) is not None
    assert ends == ["asked"]
    assert [rows.column("k").to_pylist() for rows in cursor.rest()] == [
        list(range(ROWS - 19, ROWS))
    ]


ROWS_OF_TYPES = {
    "text": pa.array(["a", None, "b" * 40] * 400),
    "bytes": pa.array([b"", None, b"xy"] * 400),
    "decimal": pa.array([1, None, 3] * 400).cast(pa.decimal128(20, 0)),
    "truth": pa.array([True, None, False] * 400),
    "nothing": pa.nulls(1200),
    "list": pa.array([[1], None, [2, 3]] * 400),
    "map": pa.array([[("a", 1)], None, []] * 400, pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"x": 1, "y": [None]}, None, {"x": None, "y": []}] * 400),
    "lists of structs": pa.array([[{"x": "a"}], None, [None, {"x": None}]] * 400),
    "fixed lists": pa.array([[1, 2], None, [3, None]] * 400, pa.list_(pa.int32(), 2)),
}


def test_rows_of_any_type_wait_for_the_next_batch():
    keys = batch_of(range(1200))
    names = [*keys.schema.names, *ROWS_OF_TYPES]
    rows = pa.record_batch([*keys.columns, *ROWS_OF_TYPES.values()], names=names)
    cursor = RunCursor(iter([rows.slice(0, 700), rows.slice(700)]), SPEC, slice_bytes_max=1 << 30)
    found = []
    for cut in (649, 699 + 20, 1199):
        assert cursor.fill()
        cursor.encode(cursor.widths)
        found.append(cursor.advance(cut).rows)
    assert [part.num_rows for part in found] == [650, 70, 480]
    assert pa.Table.from_batches(found).to_pylist() == rows.to_pylist()
