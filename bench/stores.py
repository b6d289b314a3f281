"""W13: reads, plans and commits where each request waits 20 ms, as on an object store.

The store is the tests' S3 server in a process of its own, over the loopback interface. It waits,
and counts requests. Rounds are the longest chain of requests of which each began when the one
before had ended; a busy machine makes some too many, so the least of a few runs is shown.

Every line checks its answer before it is timed. Run by `python bench/run.py stores [--size full]`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import many_files
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kernel import Line, scratch
from measure import Ratio, in_turn, paired
from measure import ratio as compared
from pyarrow import fs
from s3_process import S3Process

import tidelake

WAREHOUSE = "s3://lake/w"
DELAY_MS = 20
COLUMNS = 20
WANTED = ["c3", "c10", "c17"]
ROUNDS_MAX = 12
SCAN_ROUNDS = 5
"""A scan takes 0.2 s, so a busy moment of the machine spoils a few rounds only."""
SMALL_SECONDS_MAX, PLAN_SECONDS_MAX = 2, 1
BUCKETS = 20


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    small_files: int
    planned_files: int
    rounds: int


SIZES = {"small": Size(60_000, 60, 300, 1), "full": Size(1_250_000, 1_000, 20_000, 5)}


def scan_lines(size: Size, s3: S3Process) -> Iterator[Line]:
    """Three of 20 columns of one file of 200 MB, against pyarrow's own client of S3."""
    rng = np.random.default_rng(1)
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(COLUMNS)])
    values = pa.table({f"c{i}": rng.integers(0, 2**62, size.rows) for i in range(COLUMNS)})
    table = _opened(s3).create_table("db.scan", schema)
    table.write(values)
    [split] = table.plan().splits
    [file] = split.files
    path = f"{table.paths.bucket_dir(split.partition, split.bucket)}/{file.file_name}"
    theirs = _pyarrow_files(s3)
    key = f"lake{path}"
    s3.latency(DELAY_MS)
    scan = _opened(s3).table("db.scan").scan(columns=WANTED)

    def one_by_one() -> pa.Table:
        with theirs.open_input_file(key) as source:
            return pq.ParquetFile(source, pre_buffer=True).read(WANTED)

    def as_dataset() -> pa.Table:
        return pq.read_table(key, columns=WANTED, filesystem=theirs, pre_buffer=True)

    assert scan.to_arrow().equals(one_by_one())
    assert scan.to_arrow().equals(as_dataset())
    s3.forget()
    scan.to_arrow()
    counts = s3.counts()
    what = f"3 of 20 columns of {file.file_size_bytes / 1e6:.0f} MB at {DELAY_MS} ms, wall"
    ratio = _walls(scan.to_arrow, one_by_one, SCAN_ROUNDS * size.rounds)
    yield Line("W13", what, "pyarrow.fs, file with pre-buffering", ratio, "<= 0.6")
    ratio = _walls(scan.to_arrow, as_dataset, SCAN_ROUNDS * size.rounds)
    yield Line("W13", what, "pyarrow.fs, dataset with pre-buffering", ratio, "")
    with scratch() as place:
        near = tidelake.open(place).create_table("db.scan", schema)
        near.write(values)
        ratio = paired(scan.to_arrow, near.scan(columns=WANTED).to_arrow, rounds=size.rounds)
    note = f"{counts['requests']} requests, {ratio.median:.2f} x the CPU"
    yield Line("W13", what.removesuffix(", wall"), "the same file near", None, "", note=note)
    s3.latency(0)


def small_file_lines(size: Size, s3: S3Process) -> Iterator[Line]:
    """Plan and scan of many small files."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    options = {"write-only": "true", "bucket": str(BUCKETS), "bucket-key": "k"}
    table = _opened(s3).create_table("db.small", schema, options=options)
    rows = pa.table({"k": np.arange(20 * BUCKETS), "v": np.arange(20 * BUCKETS)})
    commits = size.small_files // BUCKETS
    for _ in range(commits):
        table.write(rows)
    assert table.plan().files_read == size.small_files

    def read() -> None:
        found = _opened(s3).table("db.small").to_arrow()
        assert found.num_rows == commits * rows.num_rows

    seconds, used, counts = _measured(s3, read, size.rounds)
    yield Line(
        "W13",
        f"open, plan and scan {size.small_files:,} small files at {DELAY_MS} ms",
        "",
        None,
        _target(seconds, SMALL_SECONDS_MAX, "s"),
        note=f"{seconds:.2f} s, {used:.2f} of CPU; {counts['requests']:,} requests,"
        f" {counts['in_flight']} in flight",
    )


def plan_lines(size: Size, s3: S3Process) -> Iterator[Line]:
    """The first plan of a table of many files."""
    table = _opened(s3).create_table(
        "db.many",
        many_files.SCHEMA,
        primary_keys=["k"],
        options={"bucket": "8", "write-only": "true"},
    )
    many_files.commit(table, range(size.planned_files))

    def plan() -> None:
        planned = _opened(s3).table("db.many").plan()
        assert planned.files_read == size.planned_files

    seconds, used, counts = _measured(s3, plan, size.rounds)
    yield Line(
        "W13",
        f"open and first plan of {size.planned_files:,} files at {DELAY_MS} ms",
        "",
        None,
        _target(seconds, PLAN_SECONDS_MAX, "s"),
        note=f"{seconds:.2f} s, {used:.2f} of CPU; {counts['requests']} requests in"
        f" {counts['rounds']} rounds",
    )


def commit_lines(size: Size, s3: S3Process) -> Iterator[Line]:
    """Rounds of an upsert into a table of two buckets, without and with a compaction."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = _opened(s3).create_table(
        "db.upserts", schema, primary_keys=["k"], options={"bucket": "2"}
    )
    s3.latency(DELAY_MS)
    plain: list[tuple[int, int, float]] = []
    compacted: list[tuple[int, int, float]] = []
    for number in range(8 + size.rounds):
        s3.forget()
        began = time.perf_counter()
        done = table.write([{"k": k, "v": number} for k in range(100)])
        seconds = time.perf_counter() - began
        counts = s3.counts()
        if number:  # the first one makes the hints
            kind = plain if len(done.snapshot_ids) == 1 else compacted
            kind.append((counts["rounds"], counts["requests"], seconds))
    s3.latency(0)
    for kind, found, rounds_max in (
        ("an upsert commit", plain, ROUNDS_MAX),
        ("one that compacts its buckets", compacted, None),
    ):
        rounds, requests, _ = min(found)
        seconds = statistics.median(seconds for _, _, seconds in found)
        target = "" if rounds_max is None else _target(rounds, rounds_max)
        note = f"{rounds} rounds, {requests} requests, {seconds:.2f} s"
        yield Line("W13", f"rounds of {kind} at {DELAY_MS} ms", "", None, target, note=note)


def _target(found: float, limit: float, unit: str = "") -> str:
    """A target that is no ratio, and whether it was missed."""
    return f"<= {limit} {unit}".rstrip() + (", **missed**" if found > limit else "")


def _opened(s3: S3Process) -> tidelake.Catalog:
    return tidelake.open(WAREHOUSE, storage=s3.storage)


def _pyarrow_files(s3: S3Process) -> fs.S3FileSystem:
    """The same store by pyarrow's client."""
    return fs.S3FileSystem(
        access_key=s3.storage["s3.access-key"],
        secret_key=s3.storage["s3.secret-key"],
        endpoint_override=s3.storage["s3.endpoint"].partition("://")[2],
        scheme="http",
        region="us-east-1",
    )


def _measured(
    s3: S3Process, work: Callable[[], object], rounds: int
) -> tuple[float, float, dict[str, int]]:
    """Median wall and CPU seconds of some calls, and what the last of them asked."""
    s3.latency(DELAY_MS)
    work()
    taken = []
    for _ in range(rounds):
        s3.forget()
        began, used = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - began, time.process_time() - used))
    s3.latency(0)
    walls, used_each = zip(*taken, strict=True)
    return statistics.median(walls), statistics.median(used_each), s3.counts()


def _walls(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> Ratio:
    """Ratios of wall times, round by round: most of it is waits."""
    taken = in_turn({"ours": ours, "theirs": theirs}, rounds=rounds)
    mine, others = ([one.wall for one in taken[name]] for name in ("ours", "theirs"))
    return compared(mine, others, [a / b for a, b in zip(mine, others, strict=True)])


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with S3Process() as s3:
        yield from scan_lines(size, s3)
        yield from small_file_lines(size, s3)
        yield from plan_lines(size, s3)
        yield from commit_lines(size, s3)
