"""W7: streams of tables on Spark, in and out, beside Spark's own file streams and Java Paimon's.

All engines read the same tables, written here without Spark. A worker for each engine
(`streams_worker.py`) also runs Spark's file stream over the data files of the same table, one file
a batch as the table's stream has one commit a batch: that is the limit. CPU seconds are of the JVM
and its Python workers.

1. `source_lines`: rows of an append table, all columns and two of six.
2. `change_lines`: a changelog; the state of a primary-key table, merged.
3. `trigger_lines`: many commits of 1,000 rows from a table into a table, beside Spark's file source
   into its Parquet sink.
4. `filter_lines`: changes in one read, through a filter and without.
5. `growth_lines`: the last batches of one long query beside its first.
6. `sink_lines`: batches of 100,000 rows into an append and a primary-key table, beside
   `foreachBatch` that appends Parquet.

Without Spark: how long after a commit of another process its rows are in hand (`follow.py`).

Run by `python bench/run.py streams [--size full]`, or a part of it by its own name.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import follow
import numpy as np
import pyarrow as pa
import rows
from kernel import Line, scratch
from measure import Ratio, ratio
from pipeline import Worker, java_paimon

import tidelake

OURS, PAIMON = "tidelake", "Java Paimon 2.1 on Spark 4.1"
COLUMNS = ["k", "i", "s20", "d", "m", "t"]
TWO = ["k", "i"]
FILE_STREAM = "Spark's file stream of the same files"
FILTERS = {"a half": "i > 0", "one in a hundred": "i > 2104533975"}
"""Of the numbers of `i`, which are spread over all 32 bits, by the share that they leave."""
FILTERED = {"write-only": False, "num-sorted-run.compaction-trigger": 100}
"""Lookups go with compactions; no other ones."""
DATA, CHANGELOG = "data-*.parquet", "changelog-*.parquet"


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    commits: int
    commit_rows: int
    ticks: int
    tick_rows: int
    sink_batches: int
    sink_rows: int
    growth_batches: int
    rounds: int


SIZES = {
    "small": Size(3, 2_000, 4, 100, 3, 2_000, 45, 1),
    "full": Size(8, 500_000, 40, 1_000, 10, 100_000, 210, 3),
}


class StreamWorker(Worker):
    """One engine in its own process."""

    script = "streams_worker.py"

    def step(self, name: str, *positional: object, **named: object) -> dict:
        """What a step took, and its answer."""
        return self.do(name, list(positional), named)


@dataclass(frozen=True)
class Step:
    """A piece of work: its name in the tape, and the worker's method with arguments."""

    label: str
    method: str
    positional: tuple[object, ...]
    named: Mapping[str, object]


def step(label: str, method: str, *positional: object, **named: object) -> Step:
    return Step(label, method, positional, named)


def batch(keys: np.ndarray, seed: int) -> pa.Table:
    """Rows with six columns."""
    return rows.with_key(keys, seed).select(COLUMNS)


def append_table(warehouse: Path, name: str, commits: int, count: int) -> list[int]:
    """An append table of commits of so many rows; what its rows come to."""
    schema = batch(np.arange(1), 1).schema
    options = {"write-only": True}
    table = tidelake.open(warehouse).create_table(f"db.{name}", schema, options=options)
    found = np.zeros(3, np.int64)
    for number in range(commits):
        data = batch(np.arange(number * count, (number + 1) * count), 100 + number)
        table.write(data)
        found += rows.digest(data)
    return found.tolist()


def keyed_table(warehouse: Path, name: str, size: Size, **options: object) -> None:
    """A primary-key table of one bucket: a base, then upserts of a tenth."""
    schema = batch(np.arange(1), 1).schema
    given = {"bucket": 1, "write-only": True, **options}
    table = tidelake.open(warehouse).create_table(
        f"db.{name}", schema, primary_keys=["k"], options=given
    )
    count = size.commit_rows * size.commits // 2
    table.write(batch(rows.shuffled_keys(count, 1), 1))
    for number in range(4):
        table.write(batch(rows.upsert_keys(count, count // 10, 10 + number), 20 + number))


def small_commits(warehouse: Path, name: str, size: Size, **options: object) -> None:
    """A primary-key table whose changelog lies in files that Spark's scan does not cut."""
    schema = batch(np.arange(1), 1).schema
    table = tidelake.open(warehouse).create_table(
        f"db.{name}", schema, primary_keys=["k"], options={"bucket": 1, **options}
    )
    count = size.commit_rows // 25
    for number in range(3 * size.commits):
        keys = rows.upsert_keys(size.commit_rows // 5, count, 60 + number, inserts=0.0)
        table.write(batch(keys, 90 + number))


@contextmanager
def workers(place: Path, warehouse: Path, size_name: str) -> Iterator[dict[str, StreamWorker]]:
    """Those of the engines that are here."""
    with ExitStack() as stack:
        found = {OURS: StreamWorker(sys.executable, "tidelake", place, warehouse)}
        stack.callback(found[OURS].close)
        java = java_paimon()
        if java is not None and size_name == "full" and not os.environ.get("TIDELAKE_BENCH_ALONE"):
            found[PAIMON] = StreamWorker(java[0], "paimon", place, warehouse, java[1])
            stack.callback(found[PAIMON].close)
        yield found


@dataclass(frozen=True)
class Tapes:
    """Figures of the steps, by engine and label, round by round."""

    cpu: dict[tuple[str, str], list[float]]
    wall: dict[tuple[str, str], list[float]]

    def ratio(self, ours: tuple[str, str], limit: tuple[str, str]) -> Ratio:
        walls = [a / b for a, b in zip(self.wall[ours], self.wall[limit], strict=True)]
        return ratio(self.cpu[ours], self.cpu[limit], walls)


def taken(
    found: Mapping[str, StreamWorker], steps: Sequence[Step], rounds: int
) -> tuple[Tapes, dict[tuple[str, str], object]]:
    """All steps on all engines, round by round, each round in the other direction."""
    tapes, answers = Tapes({}, {}), {}
    for number in range(rounds + 1):
        for one in steps[:: 1 if number % 2 == 0 else -1]:
            for engine, worker in found.items():
                figures = worker.step(one.method, *one.positional, **one.named)
                key = engine, one.label
                assert answers.setdefault(key, figures["answer"]) == figures["answer"], key
                if number:  # round 0 warms up
                    tapes.cpu.setdefault(key, []).append(figures["cpu"])
                    tapes.wall.setdefault(key, []).append(figures["wall"])
    return tapes, answers


def compared(
    tapes: Tapes, what: str, label: str, limit: str, against: str, target: str
) -> Iterator[Line]:
    """A step of ours beside the limit, and beside Java Paimon's of the same rows."""
    engines = sorted({engine for engine, _ in tapes.cpu}, reverse=True)
    for engine in engines:
        found = tapes.ratio((engine, label), (engine, limit))
        yield Line("W7", f"{what}, {engine}", against, found, target if engine == OURS else "")
    if PAIMON in engines:
        found = tapes.ratio((OURS, label), (PAIMON, label))
        yield Line("W7", f"{what}, {OURS}", f"{PAIMON}, the same stream", found, "<= 1.0")


def source_lines(size_name: str) -> Iterator[Line]:
    """Streams of tables that are read, and thrown away."""
    size = SIZES[size_name]
    with scratch() as place:
        warehouse = place / "lake"
        sums = append_table(warehouse, "big", size.commits, size.commit_rows)
        with workers(place, warehouse, size_name) as found:
            assert found[OURS].step("sums", "big")["answer"] == sums
            steps = [
                step("plain", "plain", "big", DATA, COLUMNS),
                step("table", "read", "big", COLUMNS),
                step("plain two", "plain", "big", DATA, TWO),
                step("table two", "read", "big", TWO),
                step("again", "plain", "big", DATA, COLUMNS),
            ]
            tapes, answers = taken(found, steps, size.rounds)
        count = size.commits * size.commit_rows
        assert {tuple(answer) for answer in answers.values()} == {(count, size.commits)}
        what = f"stream of {count:,} rows"
        yield from compared(tapes, what, "table", "plain", FILE_STREAM, "<= 1.0")
        what += ", 2 of 6 columns"
        yield from compared(tapes, what, "table two", "plain two", FILE_STREAM, "<= 1.0")
        control = tapes.ratio((OURS, "again"), (OURS, "plain"))
        yield Line("control", "Spark's file stream", "itself", control, "1.00")


def change_lines(size_name: str) -> Iterator[Line]:
    """A changelog, and a state that has to be merged."""
    size = SIZES[size_name]
    with scratch() as place:
        warehouse = place / "lake"
        keyed_table(warehouse, "log", size, **{"changelog-producer": "input"})
        keyed_table(warehouse, "runs", size)
        state = {"scan.mode": "latest-full"}
        with workers(place, warehouse, size_name) as found:
            steps = [
                step("plain log", "plain", "log", CHANGELOG, COLUMNS, kinds=True),
                step("log", "read", "log", COLUMNS, kinds=True, **{"read.changelog": True}),
                step("plain runs", "plain", "runs", DATA, COLUMNS, limit=5),  # a state is a batch
                step("runs", "read", "runs", COLUMNS, **state, **{"read.changelog": False}),
            ]
            tapes, answers = taken(found, steps, size.rounds)
        base = size.commits * size.commit_rows // 2
        written = base + 4 * (base // 10)
        assert {answers[e, "log"][0] for e in found} == {written}, answers
        assert len({answers[e, "runs"][0] for e in found}) == 1, answers
        what = f"stream of a changelog of {written:,} rows"
        yield from compared(tapes, what, "log", "plain log", FILE_STREAM, "<= 1.5")
        what = f"stream of the state of {written:,} rows in 5 runs"
        yield from compared(tapes, what, "runs", "plain runs", FILE_STREAM, "<= 1.5")


def filter_lines(size_name: str) -> Iterator[Line]:
    """A changelog in one read: through a filter, beside no filter and a `where` behind the read."""
    size = SIZES[size_name]
    producers = {"lookup": "lookup", "small": "lookup", "input": "input"}
    with scratch() as place:
        warehouse = place / "lake"
        for name, producer in producers.items():
            options = {**FILTERED, "changelog-producer": producer}
            if name == "lookup":
                keyed_table(warehouse, name, size, **options)
            else:
                small_commits(warehouse, name, size, **options)
        steps = []
        for name in producers:
            steps.append(step(f"{name} whole", "changes", name, COLUMNS, place="given"))
            for share, wanted in FILTERS.items():
                for where in ("given", "behind"):
                    label = f"{name} {share} {where}"
                    steps.append(step(label, "changes", name, COLUMNS, wanted, place=where))
        with workers(place, warehouse, "small") as found:  # Java Paimon's has no such filter
            tapes, answers = taken(found, steps, size.rounds)
    for name, producer in producers.items():
        count, *_ = answers[OURS, f"{name} whole"]
        files = "5 files" if name == "lookup" else f"{3 * size.commits} files below 4 MB"
        for share in FILTERS:
            given, behind = (answers[OURS, f"{name} {share} {w}"] for w in ("given", "behind"))
            # rows of 'input' that leave the filter come as -D beside those that satisfy it
            assert given == behind if producer == "lookup" else given[0] > behind[0], (
                given,
                behind,
            )
            what = f"changes of {count:,} rows, '{producer}', {files}, a filter of {share}"
            for against, label, target in (
                ("the same without a filter", f"{name} whole", "<= 1.5"),
                ("`where` behind the read", f"{name} {share} behind", ""),
            ):
                ratios = tapes.ratio((OURS, f"{name} {share} given"), (OURS, label))
                yield Line("W7", what, against, ratios, target)


def trigger_lines(size_name: str) -> Iterator[Line]:
    """Small batches: what a trigger costs, source and sink together."""
    size = SIZES[size_name]
    with scratch() as place:
        warehouse = place / "lake"
        append_table(warehouse, "ticks", size.ticks, size.tick_rows)
        with workers(place, warehouse, size_name) as found:
            steps = [
                step("plain", "plain_to_parquet", "ticks", COLUMNS),
                step("table", "copy", "ticks", COLUMNS),
            ]
            tapes, answers = taken(found, steps, max(1, size.rounds - 1))
        count = size.ticks * size.tick_rows
        assert {tuple(a) for a in answers.values()} == {(count, size.ticks, count)}, answers
    what = f"{size.ticks} batches of {size.tick_rows:,} rows, table to table"
    against = "Spark's file source into its Parquet sink"
    yield from compared(tapes, what, "table", "plain", against, "<= 1.5")


def growth_lines(size_name: str) -> Iterator[Line]:
    """The last batches of one query beside its first."""
    size = SIZES[size_name]
    with scratch() as place:
        warehouse = place / "lake"
        warehouse.mkdir()
        worker = StreamWorker(sys.executable, "tidelake", place, warehouse)
        try:
            worker.step("growth", ["k"], 25, size.tick_rows)  # warms the JVM up
            for what, keys in (("primary key", ["k"]), ("append", [])):
                figures = worker.step("growth", keys, size.growth_batches, size.tick_rows)
                last, early, late = figures["answer"]
                found = Ratio(late / early, late / early, late / early, 1.0, late, early)
                name = f"batches {last - 20} to {last} of {size.tick_rows:,} rows, {what}"
                yield Line("W7", name, "batches 10 to 30 of the same query", found, "<= 1.1")
        finally:
            worker.close()


def sink_lines(size_name: str) -> Iterator[Line]:
    """Batches that are large into tables."""
    size = SIZES[size_name]
    with scratch() as place:
        warehouse = place / "lake"
        append_table(warehouse, "parts", size.sink_batches, size.sink_rows)
        with workers(place, warehouse, size_name) as found:
            steps = [
                step("plain", "plain_each", "parts", COLUMNS),
                step("append", "sink", "parts", COLUMNS, []),
                step("keyed", "sink", "parts", COLUMNS, ["k"]),
            ]
            tapes, answers = taken(found, steps, size.rounds)
        count = size.sink_batches * size.sink_rows
        assert {tuple(a) for a in answers.values()} == {(count, size.sink_batches, count)}, answers
    against = "foreachBatch that appends Parquet"
    what = f"{count:,} rows in batches of {size.sink_rows:,} into"
    yield from compared(tapes, f"{what} an append table", "append", "plain", against, "<= 1.3")
    yield from compared(tapes, f"{what} a primary-key table", "keyed", "plain", against, "<= 1.8")


def follow_lines(size_name: str) -> Iterator[Line]:
    """Without Spark: from a commit to its rows in hand."""
    waits_ms = follow.waits(5 if size_name == "small" else follow.COMMITS)
    median, last = statistics.median(waits_ms), waits_ms[int(0.95 * len(waits_ms))]
    note = f"median {median:.1f} ms, p95 {last:.1f} ms"
    what = "return of another process's commit to rows in hand, without Spark"
    yield Line("W7", what, "", None, "median <= 10 ms", note)
