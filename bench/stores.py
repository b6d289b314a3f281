"""W13: reads, plans and commits where each request waits 20 ms, as on an object store.

The storage is :class:`tidelake.fileio.DelayedFileIO` over local files: it waits, and counts the
requests and the rounds that they take. So the figures are waits and work of the engine; a real
client adds its own CPU. Wall times are of this machine; rounds are of the engine.

Every line checks its answer before it is timed. Run by `python bench/run.py stores [--size full]`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import many_files
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kernel import Line, scratch
from measure import paired

import tidelake
from tidelake.fileio import DelayedFileIO, LocalFileIO

DELAY_MS = 20
COLUMNS = 20
WANTED = ["c3", "c10", "c17"]
ROUNDS_MAX = 12
BUCKETS = 20


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    small_files: int
    planned_files: int
    rounds: int


SIZES = {"small": Size(60_000, 60, 300, 1), "full": Size(1_250_000, 1_000, 20_000, 5)}


def scan_lines(size: Size) -> Iterator[Line]:
    """Three of 20 columns of one file of 200 MB, against pyarrow with pre-buffering."""
    with scratch() as place:
        rng = np.random.default_rng(1)
        schema = pa.schema([(f"c{i}", pa.int64()) for i in range(COLUMNS)])
        table = tidelake.open(place).create_table("db.t", schema)
        values = {f"c{i}": rng.integers(0, 2**62, size.rows) for i in range(COLUMNS)}
        table.write(pa.table(values))
        [path] = Path(table.paths.location).glob("bucket-*/*.parquet")
        files = DelayedFileIO(LocalFileIO(), delay_ms=DELAY_MS)
        remote = tidelake.open(place, fileio=files).table("db.t")
        scan = remote.scan(columns=WANTED)

        def ours() -> pa.Table:
            return scan.table()

        def theirs() -> pa.Table:
            with files.open_input(str(path)) as source:
                return pq.ParquetFile(source, pre_buffer=True).read(WANTED)

        assert ours().equals(theirs())
        files.reset()
        ours()
        counts = files.counts
        ratio = paired(ours, theirs, rounds=size.rounds)
        what = f"3 of 20 columns of {path.stat().st_size / 1e6:.0f} MB at {DELAY_MS} ms"
        against = "pyarrow with pre-buffering"
        yield Line("W13", f"{what}, wall", against, _of_wall(ratio), "<= 0.6")
        near = tidelake.open(place).table("db.t").scan(columns=WANTED)
        ratio = paired(ours, near.table, rounds=size.rounds)
        note = f"{counts.requests} requests in {counts.rounds} rounds, {ratio.median:.2f} x the CPU"
        yield Line("W13", what, "the same file near", None, "", note=note)


def small_file_lines(size: Size) -> Iterator[Line]:
    """Plan and scan of many small files."""
    with scratch() as place:
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
        options = {"write-only": "true", "bucket": str(BUCKETS), "bucket-key": "k"}
        table = tidelake.open(place).create_table("db.t", schema, options=options)
        rows = pa.table({"k": np.arange(20 * BUCKETS), "v": np.arange(20 * BUCKETS)})
        commits = size.small_files // BUCKETS
        for _ in range(commits):
            table.write(rows)
        assert table.plan().files_read == size.small_files
        files = DelayedFileIO(LocalFileIO(), delay_ms=DELAY_MS)

        def read() -> None:
            found = tidelake.open(place, fileio=files).table("db.t").to_arrow()
            assert found.num_rows == commits * rows.num_rows

        seconds = _walls(read, size.rounds)
        files.reset()
        read()
        yield Line(
            "W13",
            f"plan and scan of {size.small_files:,} small files at {DELAY_MS} ms",
            "",
            None,
            "<= 2 s",
            note=f"{seconds:.2f} s, {files.counts.rounds} rounds,"
            f" {files.counts.in_flight_max} in flight",
        )


def plan_lines(size: Size) -> Iterator[Line]:
    """The first plan of a table of many files."""
    with scratch() as place:
        many_files.make(place, size.planned_files)
        files = DelayedFileIO(LocalFileIO(), delay_ms=DELAY_MS)

        def plan() -> None:
            planned = tidelake.open(place, fileio=files).table("db.t").plan()
            assert planned.files_read == size.planned_files

        seconds = _walls(plan, size.rounds)
        files.reset()
        plan()
        yield Line(
            "W13",
            f"first plan of {size.planned_files:,} files at {DELAY_MS} ms",
            "",
            None,
            "<= 1 s",
            note=f"{seconds:.2f} s, {files.counts.rounds} rounds",
        )


def commit_lines(size: Size) -> Iterator[Line]:
    """Rounds of an upsert into a table of two buckets, without and with a compaction."""
    with scratch() as place:
        files = DelayedFileIO(LocalFileIO(), delay_ms=DELAY_MS)
        table = tidelake.open(place, fileio=files).create_table(
            "db.t",
            pa.schema([("k", pa.int64()), ("v", pa.int64())]),
            primary_keys=["k"],
            options={"bucket": "2"},
        )
        rounds: list[int] = []
        for number in range(4 + size.rounds):
            files.reset()
            table.write([{"k": k, "v": number} for k in range(100)])
            rounds.append(files.counts.rounds)
        plain = min(rounds[1:])
        yield Line(
            "W13",
            "rounds of an upsert commit",
            "",
            None,
            f"<= {ROUNDS_MAX}",
            note=f"{plain}; {max(rounds)} where buckets are compacted in it",
        )


def _of_wall(ratio: object) -> object:
    """The ratio by wall time: most of it is waits."""
    wall = ratio.wall_median
    return type(ratio)(wall, wall, wall, wall, ratio.a_cpu_seconds, ratio.b_cpu_seconds)


def _walls(work: Callable[[], object], rounds: int) -> float:
    """Median wall time of some calls."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    yield from scan_lines(size)
    yield from small_file_lines(size)
    yield from plan_lines(size)
    yield from commit_lines(size)
