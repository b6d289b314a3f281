"""Sums of live files, beside those that Python makes of ``$files``."""

import random
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from tidelake.ui.model.file_layout import file_layout, size_bins


def summed(table):
    """By Python, of the system table: files, rows, bytes and files by level, for each bucket."""
    found = defaultdict(lambda: [0, 0, 0, Counter()])
    for row in table.system_table("files").to_arrow().to_pylist():
        one = found[row["partition"], row["bucket"]]
        one[0] += 1
        one[1] += row["record_count"]
        one[2] += row["file_size_in_bytes"]
        one[3][row["level"]] += 1
    return found


def runs(levels):
    return levels[0] + sum(1 for level, files in levels.items() if level and files)


@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_the_files_one_by_one(lake, seed):
    draw = random.Random(seed)
    table = lake.create_table(
        "db.t",
        pa.schema({"p": pa.int32(), "k": pa.int64(), "v": pa.string()}),
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": 3, "write-only": True},
    )
    for n in range(7):
        rows = [
            {"p": draw.randrange(3), "k": draw.randrange(60), "v": "x" * draw.randrange(200)}
            for _ in range(draw.randrange(1, 40))
        ]
        table.write(rows)
        if n == 3:
            table.compact(full=True)
    layout = file_layout(table.handle, table.handle.snapshots.latest())
    expected = summed(table)
    assert layout.buckets_count == len(expected)
    assert layout.files == sum(one[0] for one in expected.values())
    assert layout.rows == sum(one[1] for one in expected.values())
    assert layout.bytes == sum(one[2] for one in expected.values())
    assert sum(one.files for one in layout.sizes) == layout.files
    assert sum(one.bytes for one in layout.sizes) == layout.bytes
    buckets = layout.buckets(0, 100)
    for one in buckets:
        name = one.partition.removeprefix("p=")
        files, rows, size, levels = expected[f"{{{name}}}", one.bucket]
        assert (one.files, one.rows, one.bytes) == (files, rows, size)
        assert {x.level: x.files for x in one.levels if x.files} == dict(levels)
        assert one.runs == runs(levels)
    assert layout.runs_max == max(one.runs for one in buckets) == buckets[0].runs
    assert [(b.runs, b.bytes) for b in buckets] == sorted(
        ((b.runs, b.bytes) for b in buckets), reverse=True
    )
    whole = layout.levels
    assert sum(level.bytes for level in whole) == layout.bytes
    partitions = layout.partitions(0, 100)
    shown = table.system_table("partitions").to_arrow().to_pylist()
    assert {(p.name, p.rows, p.files, p.bytes) for p in partitions} == {
        (r["partition"], r["record_count"], r["file_count"], r["file_size_in_bytes"]) for r in shown
    }


def test_rows_that_are_deleted_are_counted(lake):
    table = lake.create_table(
        "db.t", pa.schema({"n": pa.int64()}), options={"deletion-vectors.enabled": True}
    )
    table.write([{"n": n} for n in range(10)])
    table.delete("n < 4")
    layout = file_layout(table.handle, table.handle.snapshots.latest())
    assert (layout.rows, layout.deleted_rows) == (10, 4)


def test_a_part_of_the_buckets_is_a_part_of_the_list(orders):
    layout = file_layout(orders.handle, orders.handle.snapshots.latest())
    every = layout.buckets(0, 10)
    assert len(every) == 4
    assert layout.buckets(1, 2) == every[1:3]
    assert layout.buckets(10, 2) == []


def test_no_files_have_no_sizes():
    assert size_bins(np.zeros(0, np.int64)) == ()
    huge = size_bins(np.array([1 << 40]))
    assert [(b.from_bytes, b.below_bytes, b.files) for b in huge] == [(1 << 34, None, 1)]


def test_half_of_the_files_are_above_the_median(orders):
    layout = file_layout(orders.handle, orders.handle.snapshots.latest())
    sizes = sorted(orders.system_table("files").to_arrow()["file_size_in_bytes"].to_pylist())
    assert layout.median_bytes <= sizes[len(sizes) // 2]
