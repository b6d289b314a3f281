"""W8: the same upsert into tables of 1 M, 10 M and 50 M rows costs the same time and memory.

Each upsert runs in a process of its own, which says its CPU seconds and its peak memory; the tables
take turns. Run by `python bench/run.py scale [--size full]`; --size huge adds the 50 M rows.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from kernel import Line, scratch
from measure import Ratio

import tidelake

SIZES = {
    "small": ((10_000, 40_000), 400, 1),
    "full": ((1_000_000, 10_000_000), 40_000, 5),
    "huge": ((1_000_000, 10_000_000, 50_000_000), 40_000, 5),
}
LOAD_ROWS = 2_500_000
BUCKETS = 8


def rows_of(keys: np.ndarray, version: int) -> pa.Table:
    """Rows of three numbers."""
    return pa.table({"k": keys, "v": keys * 3 + version, "w": keys % 1_000 + version})


def build(place: Path, rows_count: int) -> tidelake.Table:
    """A compacted table of as many rows."""
    catalog = tidelake.open(str(place))
    schema = rows_of(np.arange(1), 0).schema
    table = catalog.create_table(
        f"db.t{rows_count}", schema, primary_keys=["k"], options={"bucket": str(BUCKETS)}
    )
    for start in range(0, rows_count, LOAD_ROWS):
        table.write(rows_of(np.arange(start, min(rows_count, start + LOAD_ROWS)), 0))
    table.compact(full=True)
    return table


def change(rows_count: int, change_rows: int, number: int) -> pa.Table:
    """The same number of rows, spread over all keys of the table; all are updates."""
    step = rows_count // change_rows
    return rows_of(np.arange(change_rows) * step + number % step, number + 1)


def upsert(place: str, rows_count: int, change_rows: int, number: int) -> None:
    """One upsert in this process; prints what it took."""
    table = tidelake.open(place).table(f"db.t{rows_count}")
    # what every process needs once: threads, imports, the first plan of metadata
    table.plan()
    given = change(rows_count, change_rows, number)
    began_cpu, began = time.process_time(), time.perf_counter()
    table.write(given)
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak_kib()}))


def peak_kib() -> int:
    """Most resident memory of this process; getrusage gives a parent's where that had more."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise LookupError("VmHWM")


def measured(place: Path, rows_count: int, change_rows: int, number: int) -> dict[str, float]:
    """Run :func:`upsert` in a fresh process."""
    arguments = [str(place), str(rows_count), str(change_rows), str(number)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def lines(size_name: str) -> Iterator[Line]:
    """Time and memory against those of the smallest table."""
    sizes, change_rows, rounds = SIZES[size_name]
    with scratch() as place:
        tables = {count: build(place / "warehouse", count) for count in sizes}
        found: dict[int, list[dict[str, float]]] = {count: [] for count in sizes}
        for number in range(rounds + 1):
            for count in sizes if number % 2 else reversed(sizes):
                found[count].append(measured(place / "warehouse", count, change_rows, number))
        for count, table in tables.items():
            assert table.count() == count, "an upsert of known keys added rows"
            newest = change(count, change_rows, rounds)
            key = newest["k"][0].as_py()
            row = table.to_arrow(filter=f"k = {key}").to_pylist()
            assert row == newest.slice(0, 1).to_pylist(), "the last upsert is not what is read"
        base = found[sizes[0]][1:]  # the first round warms the page cache
        for count in sizes[1:]:
            own = found[count][1:]
            for what, field in (("CPU", "cpu"), ("peak memory", "peak")):
                ratios = sorted(a[field] / b[field] for a, b in zip(own, base, strict=True))
                walls = [a["wall"] / b["wall"] for a, b in zip(own, base, strict=True)]
                ratio = Ratio(
                    median=statistics.median(ratios),
                    low=ratios[0],
                    high=ratios[-1],
                    wall_median=statistics.median(walls),
                    a_cpu_seconds=statistics.median(a["cpu"] for a in own),
                    b_cpu_seconds=statistics.median(b["cpu"] for b in base),
                )
                name = f"upsert of {change_rows:,} rows into {count:,}, {what}"
                yield Line("W8", name, f"the same into {sizes[0]:,}", ratio, "<= 1.15")


if __name__ == "__main__":
    upsert(sys.argv[1], *map(int, sys.argv[2:]))
