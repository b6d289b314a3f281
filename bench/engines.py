"""W4: what merge engines cost on top of decoding, and changelogs beside Java Paimon.

Scans: one big run under four of 10 %, as W3; of the overlapping rows a fifth of each column is
null. The answer is computed from the generated rows with numpy, by other means than the engines.
Three tables have these rows, one with each engine and one that keeps the newest row; they and
`read_table` and `iter_batches` of the last one's files are run one after the other, every second
round backwards. Both verify the pages' checksums, as every scan does. A further line tells what the
engine adds to the scan that keeps the newest row, in parts of `read_table`. It counts the seconds
of the program itself: those of the kernel vary by more than what an engine adds.

Changelogs: commits of 2 % into a table that was compacted, ours and Java Paimon 1.3.1 in turn. Both
have the rows in memory, write one bucket, and compact as they do by default. Java is timed in two
ways: with a writer for each commit, as a batch job has it (ours has no other), and with one that
stays open and keeps what it looked up. A full compaction that comes with every commit is the work
of Java's Flink sink, not of its core: it is asked for as the sink does.

Run by `python bench/run.py engines [--size full]`.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import rows
from kernel import SIZES, Line, Size, scratch
from measure import Ratio, Seconds, in_turn, ratio

import tidelake

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from interop.peer import JavaPeer
from interop.readers import AbsentError, JavaCore

RUNS = 4
NULLS = 0.2
WARM_COMMITS, COMMITS = 3, 6
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
"""The kernel may tell user seconds apart by ticks only: of a small scan it may say 0."""
PARTIAL_OPTIONS = {"merge-engine": "partial-update", "fields.t.sequence-group": "d,i,m"}
AGGREGATED_OPTIONS = {
    "merge-engine": "aggregation",
    "fields.i.aggregate-function": "sum",
    "fields.m.aggregate-function": "sum",
    "fields.t.aggregate-function": "max",
    "fields.d.aggregate-function": "min",
    "fields.b.aggregate-function": "bool_or",
}


def run_of(keys: np.ndarray, seed: int, *, nulls: float) -> pa.Table:
    """The rows of W1, some of each column null, and integers that add up without overflow."""
    table = rows.with_key(keys, seed)
    rng = np.random.default_rng(1000 + seed)
    for at, field in enumerate(table.schema):
        if field.name == "k":
            continue
        column = table.column(at)
        if field.name == "i":
            column = pc.divide(column, pa.scalar(1000, pa.int32()))
        gone = pa.array(rng.random(len(keys)) < nulls)
        table = table.set_column(at, field, pc.if_else(gone, None, column))
    return table


def runs_of(size: Size) -> list[pa.Table]:
    """The big run, without nulls, and those above it."""
    runs = [run_of(rows.shuffled_keys(size.merge_rows, 1), 2, nulls=0)]
    for number in range(RUNS):
        keys = rows.upsert_keys(size.merge_rows, size.merge_rows // 10, 10 + number, inserts=0.04)
        runs.append(run_of(keys, 20 + number, nulls=NULLS))
    return runs


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A column as numbers that add up, nulls as 0: of texts the first ten of their hex digits."""
    if pa.types.is_string(column.type):
        digits = pc.fill_null(pc.utf8_slice_codeunits(column, 0, 10), "0").to_pylist()
        return np.array([int(d, 16) for d in digits], np.float64)
    if pa.types.is_timestamp(column.type) or pa.types.is_boolean(column.type):
        column = column.cast(pa.int64())
    return pc.fill_null(column.cast(pa.float64()), 0).to_numpy()


def _last(keys: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The position of the last row of each key in an order."""
    backwards = order[::-1]
    _, first = np.unique(keys[backwards], return_index=True)
    return backwards[first]


def partial_sums(runs: list[pa.Table]) -> dict[str, float]:
    """The sum of each column of the merged table, from the rows."""
    table = pa.concat_tables(runs)
    keys, sums = table["k"].to_numpy(), {}
    for name in ("s20", "s40", "b"):
        known = np.flatnonzero(table[name].is_valid().to_numpy())
        sums[name] = _numbers(table[name].take(_last(keys, known))).sum()
    known = np.flatnonzero(table["t"].is_valid().to_numpy())
    stamps = table["t"].cast(pa.int64()).fill_null(0).to_numpy()[known]
    newest = _last(keys, known[np.argsort(stamps, kind="stable")])
    # a row that is alone with its key is shown as it was written, with a stamp or without one
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    newest = np.union1d(newest, first[count == 1])
    return sums | {name: _numbers(table[name].take(newest)).sum() for name in ("t", "d", "i", "m")}


def aggregated_sums(runs: list[pa.Table]) -> dict[str, float]:
    """The sum of each column of the merged table, from the rows."""
    table = pa.concat_tables(runs)
    keys, at = np.unique(table["k"].to_numpy(), return_inverse=True)
    newest = np.full(len(keys), -1, np.int64)
    np.maximum.at(newest, at, table["t"].cast(pa.int64()).fill_null(-1).to_numpy())
    least = np.full(len(keys), np.inf)
    np.minimum.at(least, at, table["d"].fill_null(np.inf).to_numpy())
    some = np.zeros(len(keys), bool)
    np.logical_or.at(some, at, pc.fill_null(table["b"], False).to_numpy())
    texts = {}
    for name in ("s20", "s40"):
        known = np.flatnonzero(table[name].is_valid().to_numpy())
        texts[name] = _numbers(table[name].take(_last(table["k"].to_numpy(), known))).sum()
    return texts | {
        "i": _numbers(table["i"]).sum(),
        "m": _numbers(table["m"]).sum(),
        "t": newest[newest >= 0].astype(np.float64).sum(),
        "d": least[np.isfinite(least)].sum(),
        "b": float(some.sum()),
    }


def _check_sums(found: pa.Table, expected: dict[str, float]) -> None:
    for name, total in expected.items():
        ours = _numbers(found[name]).sum()
        if not np.isclose(ours, total, rtol=1e-12, atol=0):
            message = f"column {name}: the engine's sum is {ours}, the rows' {total}"
            raise AssertionError(message)


@dataclass(frozen=True)
class Engine:
    """A merge engine, and what it must find."""

    what: str
    options: dict[str, str]
    sums: Callable[[list[pa.Table]], dict[str, float]]
    added: float
    """What its work may take, in parts of decoding."""


ENGINES = {
    "partial": Engine(
        "partial-update of 6 columns, 1 sequence group", PARTIAL_OPTIONS, partial_sums, 0.7
    ),
    "aggregated": Engine(
        "aggregation: 5 functions, 2 texts the last that is not null",
        AGGREGATED_OPTIONS,
        aggregated_sums,
        0.6,
    ),
}


def scan_lines(size: Size) -> Iterator[Line]:
    """Scans with a merge engine against decoding the same rows, and what the engine adds."""
    runs = runs_of(size)
    with scratch() as place:
        taken = _scans_in_turn(size, runs, place)
    shape = f"1 + {RUNS} runs"
    decoded, streamed = taken["decode"], taken["stream"]
    for name, engine in ENGINES.items():
        own = taken[name]
        yield Line(
            "W4",
            f"scan, {engine.what}, {shape}",
            "read_table of the same rows, checksums verified",
            _whole(own, decoded),
            f"<= {1 + engine.added:.1f}",
        )
        yield Line(
            "W4",
            f"scan, {engine.what}, {shape}",
            "iter_batches of the same rows, checksums verified, none kept",
            _whole(own, streamed),
            f"<= {1 + engine.added:.1f}",
        )
        yield Line(
            "W4",
            f"what the engine adds to a scan, {engine.what}, user seconds",
            "read_table of the same rows; the scan that keeps the newest row is taken off",
            _added(own, taken["newest"], decoded),
            f"<= {engine.added:.1f}",
        )
    for name, what in (("decode", "read_table"), ("stream", "iter_batches")):
        itself = _whole(taken[f"{name} again"], taken[name])
        yield Line("control", "the reference itself, engines", what, itself, "1.00")


def _whole(own: list[Seconds], reference: list[Seconds]) -> Ratio:
    return ratio(
        [s.cpu for s in own],
        [s.cpu for s in reference],
        [a.wall / b.wall for a, b in zip(own, reference, strict=True)],
    )


def _added(own: list[Seconds], plain: list[Seconds], decoded: list[Seconds]) -> Ratio:
    rounds = list(zip(own, plain, decoded, strict=True))
    return ratio(
        [a.user - b.user for a, b, _ in rounds],
        [max(limit.user, TICK_SECONDS) for _, _, limit in rounds],
        [(a.wall - b.wall) / limit.wall for a, b, limit in rounds],
    )


def _scans_in_turn(size: Size, runs: list[pa.Table], place: Path) -> dict[str, list[Seconds]]:
    """What reading took: each table of an engine, the one that keeps newest rows, the files."""
    catalog = tidelake.open(str(place / "warehouse"))
    keys = np.unique(np.concatenate([run["k"].to_numpy() for run in runs]))
    works: dict[str, Callable[[], object]] = {}
    for name in ("newest", *ENGINES):
        options = ENGINES[name].options if name in ENGINES else {}
        shape = {"bucket": "1", "write-only": "true", "target-file-size": "1 gb"}
        table = catalog.create_table(
            f"db.{name}", runs[0].schema, primary_keys=["k"], options={**shape, **options}
        )
        for run in runs:
            table.write(run)
        found = table.to_arrow()
        assert np.array_equal(np.sort(found["k"].to_numpy()), keys), "other keys than were written"
        if name in ENGINES:
            _check_sums(found, ENGINES[name].sums(runs))
        works[name] = partial(_stream, table)
    files = sorted((place / "warehouse" / "db.db" / "newest").rglob("data-*.parquet"))
    values = [name for name in runs[0].column_names if name != "k"]
    wanted = ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", *values]
    for again in ("", " again"):
        works[f"decode{again}"] = lambda: [
            pq.read_table(file, columns=wanted, page_checksum_verification=True) for file in files
        ]
        works[f"stream{again}"] = lambda: [
            batch.num_rows
            for file in files
            for batch in pq.ParquetFile(file, page_checksum_verification=True).iter_batches(
                columns=wanted
            )
        ]
    # read_table's page faults take 0.1 to 1.5 s of the kernel's time, as they fall: many rounds
    return in_turn(works, rounds=4 * size.rounds + 1)


def _stream(table: tidelake.Table) -> int:
    return sum(batch.num_rows for batch in table.to_batches())


class JavaAtSpeed(JavaCore):
    """Java Paimon with the settings of a long job."""

    settings = ("-Xmx3g",)


def started_java() -> JavaPeer | None:
    """A process of Java Paimon, where it can be had."""
    java = JavaAtSpeed()
    try:
        java.prepare()
    except AbsentError:
        return None
    return JavaPeer(java)


def changelog_table(catalog: tidelake.Catalog, name: str, schema: pa.Schema, producer: str):
    """A table of one bucket whose every commit has its changelog."""
    options = {"bucket": "1", "changelog-producer": producer}
    if producer == "full-compaction":
        options["full-compaction.delta-commits"] = "1"
    return catalog.create_table(name, schema, primary_keys=["k"], options=options)


def changelog_lines(size: Size, java: JavaPeer | None) -> Iterator[Line]:
    """Commits with their changelog, ours and Java's in turn."""
    for producer in ("lookup", "full-compaction"):
        with scratch() as place:
            yield from _changelog_lines(size, java, producer, place)


def _changelog_lines(
    size: Size, java: JavaPeer | None, producer: str, place: Path
) -> Iterator[Line]:
    warehouse = place / "warehouse"
    catalog = tidelake.open(str(warehouse))
    base = rows.with_key(rows.shuffled_keys(size.load_rows, 1), 2)
    names = ["ours", *(["once", "running"] if java else [])]
    tables = {name: changelog_table(catalog, f"db.{name}", base.schema, producer) for name in names}
    for table in tables.values():
        table.write(base)
        table.compact(full=True)
    starts = {name: table.latest_snapshot_id for name, table in tables.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    state, keys = {"rows": base.num_rows}, set(base["k"].to_numpy().tolist())
    changes = 0
    for number in range(WARM_COMMITS + COMMITS):
        chosen = rows.upsert_keys(size.load_rows, size.upsert_rows, 50 + number)
        known = keys.intersection(chosen.tolist())
        changes += 2 * len(known) + len(chosen) - len(known)
        keys.update(chosen.tolist())
        data = rows.with_key(chosen, 80 + number)
        source = catalog.create_table(f"db.source{number}", data.schema)
        source.write(data)
        for name in names if number % 2 else names[::-1]:
            if name == "ours":
                cpu, wall = time.process_time(), time.perf_counter()
                tables[name].write(data)
                used = (time.process_time() - cpu, time.perf_counter() - wall)
            else:
                assert java is not None
                target = warehouse / "db.db" / name
                answer = java.copy(
                    warehouse / "db.db" / f"source{number}",
                    target,
                    keep=name == "running",
                    full=producer == "full-compaction",
                )
                used = (answer["cpu"], answer["wall"])
            if number >= WARM_COMMITS:
                taken[name].append(used)
    state = {
        name: (table.count(), table.changes(starts[name], mode="changelog").num_rows)
        for name, table in tables.items()
    }
    if set(state.values()) != {(len(keys), changes)}:
        message = f"rows and changes {state}, not {(len(keys), changes)}"
        raise AssertionError(message)
    wall = statistics.median(wall for _, wall in taken["ours"])
    what = f"commit of {size.upsert_rows:,} rows into {size.load_rows:,}, changelog by {producer}"
    speed = f"{wall:.2f} s, {size.upsert_rows / wall:,.0f} rows/s"
    if java is None:
        yield Line("W4", what, "Java Paimon not asked", None, "", speed)
        return
    ours_cpu = [cpu for cpu, _ in taken["ours"]]
    for name, words in (("once", "a writer a commit"), ("running", "one writer for all")):
        walls = [a / b for (_, a), (_, b) in zip(taken["ours"], taken[name], strict=True)]
        theirs = statistics.median(wall for _, wall in taken[name])
        beside = f"{theirs:.2f} s, {size.upsert_rows / theirs:,.0f} rows/s"
        yield Line(
            "W4",
            f"{what}: {speed}",
            f"Java Paimon 1.3.1, {words}: {beside}",
            ratio(ours_cpu, [cpu for cpu, _ in taken[name]], walls),
            "<= 1.0",
        )


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file; Java takes part at full size."""
    size = SIZES[size_name]
    yield from scan_lines(size)
    java = started_java() if size_name == "full" else None
    if java is None:
        yield from changelog_lines(size, None)
        return
    with java:
        yield from changelog_lines(size, java)
