"""Streams on Spark are killed at random moments; at the end every change is there once.

One run is a chain: ``feed`` (append) -> a stream -> ``first`` -> a stream -> ``second``. A program
of its own runs the streams of several chains. The parent meanwhile appends to each feed, compacts
and expires ``first``, adds columns, and kills the driver, its JVM or a Python worker. The program
is started again; in the end it reads what is left, and ends. ``first`` must be what a dict says of
the feed, ``second`` must be equal to ``first``, and no batch was committed twice.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import quick_spark
from pyspark.sql.streaming import StreamingQuery

import tidelake
import tidelake.spark
from proving.fsck import check_table
from tidelake.errors import ConflictError
from tidelake.spark import Lake

FEED = pa.schema(
    [
        ("n", pa.int64()),
        ("k", pa.int32()),
        ("v", pa.int64()),
        ("w", pa.string()),
        ("op", pa.string()),
    ]
)
KEYS = 12
ROWS_MAX = 30
READY = "ready"
DONE = "done"
STARTS_MAX = 10
KILLED = ("driver", "jvm", "worker")
STOPPED_BY_SCHEMA = "because columns were added"
"""What a stream says that has to be started again for new columns."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table in the middle of a chain."""

    name: str
    options: dict[str, object]
    primary_keys: tuple[str, ...] = ("k",)
    takes_deletes: bool = True
    second_options: dict[str, object] = field(default_factory=dict)
    fold: Callable[[list[Row]], list[Row]] = lambda rows: rows


def _newest(rows: list[Row]) -> list[Row]:
    """The last row of each key, without those that are deleted."""
    state: dict[object, Row] = {}
    for row in sorted(rows, key=lambda r: r["n"]):
        if row["op"] == "-D":
            state.pop(row["k"], None)
        else:
            state[row["k"]] = row
    return list(state.values())


def _sums(rows: list[Row]) -> list[Row]:
    state: dict[object, Row] = {}
    for row in sorted(rows, key=lambda r: r["n"]):
        old = state.get(row["k"], {"n": 0, "v": 0, "w": ""})
        state[row["k"]] = {
            **row,
            "n": max(old["n"], row["n"]),
            "v": old["v"] + row["v"],
            "w": max(old["w"], row["w"]),
        }
    return list(state.values())


def _all(rows: list[Row]) -> list[Row]:
    return rows


_BY_N = {"sequence.field": "n"}
_SUMS = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "max",
    "fields.v.aggregate-function": "sum",
    "fields.w.aggregate-function": "max",
}
KINDS = (
    Kind("lookup", {"bucket": 2, "changelog-producer": "lookup", **_BY_N}, fold=_newest),
    Kind(
        "input",
        {"bucket": 1, "changelog-producer": "input", **_BY_N},
        second_options=_BY_N,
        fold=_newest,
    ),
    # its changes carry no number: the second table has them in the order in which they come
    Kind(
        "sums", {"bucket": 2, "changelog-producer": "lookup", **_SUMS}, (("k",)), False, fold=_sums
    ),
    Kind("append", {"bucket": -1}, (), False, fold=_all),
    Kind("queue", {"bucket": 2, "bucket-key": "k"}, (), False, fold=_all),
    Kind(
        "vectors",
        {"bucket": 1, "deletion-vectors.enabled": True, "changelog-producer": "lookup", **_BY_N},
        fold=_newest,
    ),
    Kind("dynamic", {"bucket": -1, "changelog-producer": "lookup", **_BY_N}, fold=_newest),
    Kind(
        "full",
        {
            "bucket": 1,
            "changelog-producer": "full-compaction",
            "full-compaction.delta-commits": 2,
            **_BY_N,
        },
        fold=_newest,
    ),
)
"""In turn, so that eight seeds meet all."""


def kind_of(seed: int) -> Kind:
    """The kind of a run."""
    return KINDS[seed % len(KINDS)]


def names_of(seed: int) -> tuple[str, str, str]:
    """Feed, first and second table of a run."""
    return f"db.feed_{seed}", f"db.first_{seed}", f"db.second_{seed}"


# ---- the program that is killed


def program(work: Path, seeds: list[int], *, ends: bool) -> None:
    """Run the streams of some chains; for ever, or until all that is there was read."""
    spark = quick_spark.session(work)
    lake = tidelake.spark.attach(spark, work / "warehouse")
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    if ends:
        for stage in (0, 1):
            for seed in seeds:
                if stage and kind_of(seed).name == "full":
                    # what was written since the last one has no changelog before the next
                    lake.catalog.table(names_of(seed)[1]).compact(full=True)
                _run_to_end(functools.partial(_start, lake, work, seed, stage, once=True))
        sys.stdout.write(f"{DONE}\n")
        sys.stdout.flush()
        spark.stop()
        return
    running = {(s, g): _start(lake, work, s, g) for s in seeds for g in (0, 1)}
    while True:
        for (seed, stage), query in running.items():
            if not query.isActive:
                if not _is_schema_stop(query.exception()):
                    raise AssertionError(f"{names_of(seed)[stage]}: {query.exception()}")
                running[seed, stage] = _start(lake, work, seed, stage)
        time.sleep(0.1)


def _run_to_end(start: Callable[[], StreamingQuery]) -> None:
    """Run a stream that ends by itself; again where new columns stopped it."""
    for _ in range(STARTS_MAX):
        query = start()
        try:
            query.awaitTermination()
        except Exception as error:
            if not _is_schema_stop(error):
                raise
        else:
            return
    raise AssertionError("a stream stops for new columns again and again")


def _is_schema_stop(error: object) -> bool:
    return STOPPED_BY_SCHEMA in str(error)


def _start(lake: Lake, work: Path, seed: int, stage: int, *, once: bool = False) -> StreamingQuery:
    kind, names = kind_of(seed), names_of(seed)
    source, target = names[stage], names[stage + 1]
    limit = {"read.stream.maxFilesPerTrigger": 2}
    frame = lake.read_stream(source, options=limit)
    if stage == 0:
        frame = frame.withColumnRenamed("op", "_row_kind") if kind.primary_keys else frame
        if kind.primary_keys and not kind.takes_deletes:
            frame = frame.drop("_row_kind")
        frame = frame if kind.primary_keys else frame.drop("op")
    return lake.write_stream(
        frame,
        target,
        checkpoint=str(work / "checkpoints" / f"{seed}-{stage}"),
        trigger={"availableNow": True} if once else None,
        options={"write.merge-schema": True},
    )


# ---- the parent


def stream_kills(work: Path, seeds: list[int], *, kills: int) -> dict:
    """Run chains with kills; the figures, or AssertionError where a promise broke."""
    catalog = tidelake.open(str(work / "warehouse"))
    rng = random.Random(seeds[0])
    fed: dict[int, list[Row]] = {seed: [] for seed in seeds}
    for seed in seeds:
        _create(catalog, seed)
        _feed(catalog, seed, fed[seed], random.Random(seed))
    killed: Counter[str] = Counter()
    for run in range(kills):
        with running(work, "proving.stream_kills", "run", *seeds) as child:
            until = time.monotonic() + rng.uniform(0.5, 6.0)
            while time.monotonic() < until and child.poll() is None:
                seed = rng.choice(seeds)
                _work(catalog, seed, fed[seed], rng, run)
            assert child.poll() is None, (work / "log").read_text()[-3000:]
            victim = KILLED[(run + seeds[0] // len(seeds)) % len(KILLED)]
            killed[kill_in(child, victim, rng)] += 1
    with running(work, "proving.stream_kills", "end", *seeds) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == DONE, (work / "log").read_text()[-3000:]
        child.wait(60)
    batches = sum(_check(catalog, work, seed, fed[seed]) for seed in seeds)
    return {"chains": len(seeds), "killed": dict(killed), "commits": batches, "violations": 0}


def _create(catalog: tidelake.Catalog, seed: int) -> None:
    feed, first, second = names_of(seed)
    kind = kind_of(seed)
    rows = pa.schema([f for f in FEED if f.name != "op"])
    kept = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1000}
    # one bucket, for only there rows come in the order in which they were written
    catalog.create_table(feed, FEED, options={"bucket": 1, "bucket-key": "k", **kept})
    catalog.create_table(
        first, rows, primary_keys=kind.primary_keys, options={**kind.options, **kept}
    )
    second_options = {"bucket": 2 if kind.primary_keys else -1, **kind.second_options, **kept}
    catalog.create_table(second, rows, primary_keys=kind.primary_keys, options=second_options)


def _feed(catalog: tidelake.Catalog, seed: int, fed: list[Row], rng: random.Random) -> None:
    """One commit to the feed; a key occurs once in it, for nothing orders the rows of a commit."""
    table = catalog.table(names_of(seed)[0])
    columns = [f.name for f in table.table_schema.fields]
    deletes = kind_of(seed).takes_deletes
    start = len(fed) + 1
    keys = rng.sample(range(KEYS), rng.randrange(1, KEYS))
    rows = [
        {
            "n": start + i,
            "k": k,
            "v": rng.randrange(100),
            "w": f"w{rng.randrange(9)}",
            "op": "-D" if deletes and rng.random() < 0.2 else "+I",
            **{name: f"{name} {start + i}" for name in columns if name.startswith("extra")},
        }
        for i, k in enumerate(keys)
    ]
    table.write(rows)
    fed.extend(rows)


def _work(
    catalog: tidelake.Catalog, seed: int, fed: list[Row], rng: random.Random, run: int
) -> None:
    """One thing that goes on beside the streams."""
    first = catalog.table(names_of(seed)[1])
    what = rng.random()
    with contextlib.suppress(ConflictError):
        if what < 0.6:
            _feed(catalog, seed, fed, rng)
        elif what < 0.75:
            first.compact(full=rng.random() < 0.5)
        elif what < 0.9:
            first.maintenance.expire_snapshots(
                retain_max=30, retain_min=20, older_than=datetime.now(UTC)
            )
        elif run and kind_of(seed).name != "sums":
            _add_column(catalog, seed, f"extra{run}")
    time.sleep(rng.uniform(0.0, 0.2))


def _add_column(catalog: tidelake.Catalog, seed: int, name: str) -> None:
    feed = names_of(seed)[0]
    if name not in catalog.table(feed).table_schema.field_names:
        catalog.alter_table(feed, [tidelake.AddColumn(name, "STRING")])


@contextlib.contextmanager
def running(work: Path, module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program that is ready, in a process group of its own that does not outlive this."""
    with (work / "log").open("a") as log:
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                str(work),
                *map(str, arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == READY, (work / "log").read_text()[-3000:]
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(60)
        assert child.stdout is not None
        child.stdout.close()


def kill_in(child: subprocess.Popen[str], victim: str, rng: random.Random) -> str:
    """Kill a process of the program; what was killed."""
    below = _below(child.pid)
    java = [pid for pid, name in below if name == "java"]
    workers = [pid for pid, name in below if "python" in name and pid != child.pid]
    if victim == "worker" and workers:
        os.kill(rng.choice(workers), signal.SIGKILL)
        time.sleep(rng.uniform(0.0, 1.0))  # Spark tries the task again
    elif victim == "jvm" and java:
        os.kill(java[0], signal.SIGKILL)
        time.sleep(rng.uniform(0.0, 0.5))
    else:
        victim = "driver"
    return victim  # the driver goes with its group


def _below(pid: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                name = Path(f"/proc/{child}/comm").read_text().strip()
                found += [(child, name), *_below(child)]
    return found


def _check(catalog: tidelake.Catalog, work: Path, seed: int, fed: list[Row]) -> int:
    """Compare the tables with the dict and with each other; how many commits there were."""
    feed, first, second = (catalog.table(name) for name in names_of(seed))
    columns = [f.name for f in feed.table_schema.fields if f.name != "op"]
    kind = kind_of(seed)
    expected = bag([{c: row.get(c) for c in columns} for row in kind.fold(fed)], columns)
    what = f"seed {seed} ({kind.name})"
    found = bag(first.to_arrow().to_pylist(), columns)
    assert found == expected, f"{what}: first differs: {difference(expected, found)}"
    found = bag(second.to_arrow().to_pylist(), columns)
    assert found == expected, f"{what}: second differs: {difference(expected, found)}"
    commits = 0
    for table, name in zip((first, second), (n[3:] for n in names_of(seed)[1:]), strict=True):
        made = Counter(
            (s["commit_user"], s["commit_identifier"], s["commit_kind"])
            for s in table.history().to_pylist()
        )
        twice = {key: times for key, times in made.items() if times > 1 and key[2] == "APPEND"}
        assert not twice, f"{what}: batches committed twice: {twice}"
        commits += sum(made.values())
        check_table(table.fileio, str(work / "warehouse" / "db.db" / name), newest_only=True)
    return commits


def bag(rows: list[Row], columns: list[str]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.get(c) for c in columns) for row in rows)


def difference(
    expected: Counter[tuple[object, ...]], found: Counter[tuple[object, ...]]
) -> dict[str, object]:
    return {
        "lacks": list((expected - found).items())[:5],
        "has": list((found - expected).items())[:5],
    }


if __name__ == "__main__":
    program(Path(sys.argv[1]), [int(seed) for seed in sys.argv[3:]], ends=sys.argv[2] == "end")
