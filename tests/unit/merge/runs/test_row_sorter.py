"""Rows sorted in memory and by way of local disk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelake.errors import StorageError
from tidelake.merge import RowSorter, SpillStack
from tidelake.options import Options
from tidelake.telemetry import Memory
from tidelake.types import parse_type

SMALL = Memory.of(64 << 20)


def sorter_of(directory, names, types, *, buffer_bytes, memory=SMALL):
    return RowSorter(
        names,
        [parse_type(t) for t in types],
        buffer_bytes=buffer_bytes,
        stack=lambda join: SpillStack(
            str(directory), name="s", options=Options.parse({}), join=join, memory=memory
        ),
    )


def drawn(count, seed):
    rng = np.random.default_rng(seed)
    texts = ["", "a", "ab", "a" * 40, "é", "zz"]
    return pa.table(
        {
            "t": pa.array(rng.choice(texts, count), mask=rng.random(count) < 0.1),
            "n": pa.array(rng.integers(-5, 5, count), mask=rng.random(count) < 0.1),
            "row": np.arange(count),
        }
    )


def nulls_first(row):
    text, number = row
    return text is not None, (text or "").encode(), number is not None, number or 0


@pytest.mark.parametrize("buffer_bytes", [1 << 30, 20_000, 2_000])
@pytest.mark.parametrize("seed", range(3))
def test_rows_come_out_sorted_with_nulls_first(tmp_path, buffer_bytes, seed):
    rows = drawn(5_000, seed)
    sorter = sorter_of(tmp_path, ["t", "n"], ["STRING", "BIGINT"], buffer_bytes=buffer_bytes)
    for batch in rows.to_batches(max_chunksize=331):
        sorter.add(batch)
    found = pa.Table.from_batches(sorter.batches())
    expected = sorted(
        zip(rows["t"].to_pylist(), rows["n"].to_pylist(), strict=True), key=nulls_first
    )
    assert list(zip(found["t"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected
    assert sorted(found["row"].to_pylist()) == list(range(5_000))
    assert bool(list(tmp_path.iterdir())) == (buffer_bytes < 1 << 30)
    sorter.close()
    assert list(tmp_path.iterdir()) == []


def test_runs_of_equal_keys_end(tmp_path):
    sorter = sorter_of(tmp_path, ["k"], ["INT NOT NULL"], buffer_bytes=1_000)
    for _ in range(50):
        sorter.add(pa.record_batch({"k": pa.array([3] * 500, pa.int32())}))
    assert sum(rows.num_rows for rows in sorter.batches()) == 25_000


def test_nothing_gives_nothing(tmp_path):
    sorter = sorter_of(tmp_path, ["k"], ["INT"], buffer_bytes=1_000)
    sorter.add(pa.record_batch({"k": pa.array([], pa.int32())}))
    assert list(sorter.batches()) == []


def test_a_full_disk_is_said(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    sorter = sorter_of(blocked, ["k"], ["INT"], buffer_bytes=10)
    with pytest.raises(StorageError, match="could not be spilled"):
        sorter.add(pa.record_batch({"k": pa.array([1, 2, 3], pa.int32())}))
