"""W8: the same upserts into tables of 1 M, 10 M and 50 M rows cost the same time and memory.

1. Tables with a fixed number of buckets and with dynamic ones, eight of them at every size, fully
   compacted.
2. Three upserts of the same rows run in a process of its own, which says its CPU seconds and its
   peak memory. The tables take turns: A B C C B A, so that none always finds the warm cache.
3. Compactions are left out (``write-only``): they are due by the number of runs, and what they
   rewrite is another question (write amplification) than what a commit costs.

Run by `python bench/run.py scale [--size full]`; --size huge adds the 50 M rows.
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
    "small": ((10_000, 40_000), 400, 2),
    "full": ((1_000_000, 10_000_000), 40_000, 12),
    "huge": ((1_000_000, 10_000_000, 50_000_000), 40_000, 12),
}
LOAD_ROWS = 2_500_000
BUCKETS = 8
UPSERTS = 3
TARGETS = {"fixed": "<= 1.15", "dynamic": "<= 1.3"}
KINDS = tuple(TARGETS)


def rows_of(keys: np.ndarray, version: int) -> pa.Table:
    """Rows of three numbers."""
    return pa.table({"k": keys, "v": keys * 3 + version, "w": keys % 1_000 + version})


def build(place: Path, kind: str, rows_count: int) -> tidelake.Table:
    """A compacted table of as many rows."""
    options = {"bucket": str(BUCKETS)}
    if kind == "dynamic":
        target = -(-rows_count // BUCKETS)
        options = {"bucket": "-1", "dynamic-bucket.target-row-num": str(target)}
    catalog = tidelake.open(str(place))
    schema = rows_of(np.arange(1), 0).schema
    table = catalog.create_table(
        f"{kind}.t{rows_count}", schema, primary_keys=["k"], options=options
    )
    for start in range(0, rows_count, LOAD_ROWS):
        table.write(rows_of(np.arange(start, min(rows_count, start + LOAD_ROWS)), 0))
    table.compact(full=True)
    return table


def change(rows_count: int, change_rows: int, number: int) -> pa.Table:
    """The same number of rows, spread over all keys of the table; all are updates."""
    step = rows_count // change_rows
    return rows_of(np.arange(change_rows) * step + number % step, number + 1)


def upsert(place: str, kind: str, rows_count: int, change_rows: int, number: int) -> None:
    """Some upserts in this process; prints what they took."""
    table = tidelake.open(place).table(f"{kind}.t{rows_count}")
    table = table.with_options({"write-only": "true"})
    # what every process needs once: threads, imports, the first plan of metadata
    table.plan()
    changes = [change(rows_count, change_rows, UPSERTS * number + i) for i in range(UPSERTS)]
    began_cpu, began = time.process_time(), time.perf_counter()
    for given in changes:
        table.write(given)
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak_kib()}))


def peak_kib() -> int:
    """Most resident memory of this process; getrusage gives a parent's where that had more."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise LookupError("VmHWM")


def measured(
    place: Path, kind: str, rows_count: int, change_rows: int, number: int
) -> dict[str, float]:
    """Run :func:`upsert` in a fresh process."""
    arguments = [str(place), kind, str(rows_count), str(change_rows), str(number)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def lines(size_name: str) -> Iterator[Line]:
    """Time and memory against those of the smallest table."""
    for kind in KINDS:
        with scratch() as place:
            yield from kind_lines(place / "warehouse", kind, *SIZES[size_name])


def kind_lines(
    place: Path, kind: str, sizes: tuple[int, ...], change_rows: int, rounds: int
) -> Iterator[Line]:
    """The lines of one kind of buckets."""
    tables = {count: build(place, kind, count) for count in sizes}
    found: dict[int, list[dict[str, float]]] = {count: [] for count in sizes}
    for number in range(rounds + 1):
        for count in sizes if number % 2 else reversed(sizes):
            found[count].append(measured(place, kind, count, change_rows, number))
    for count, table in tables.items():
        assert table.count() == count, "an upsert of known keys added rows"
        newest = change(count, change_rows, UPSERTS * rounds + UPSERTS - 1)
        key = newest["k"][0].as_py()
        row = table.to_arrow(where=f"k = {key}").to_pylist()
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
            name = f"upserts of {change_rows:,} rows into {count:,}, {kind} buckets, {what}"
            yield Line("W8", name, f"the same into {sizes[0]:,}", ratio, TARGETS[kind])


if __name__ == "__main__":
    upsert(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
