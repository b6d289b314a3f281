"""Two drivers write streams into the same tables while one or the other is killed.

Each driver has feeds of its own; each table takes the streams of both. The parent meanwhile appends
to the feeds, compacts and expires the tables, and kills a driver, its JVM or a Python worker of it,
which is started again beside the other. In the end both read what is left. Each table must be what
a dict says of both feeds, and no batch of either was committed twice.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import quick_spark
from pyspark.sql.streaming import StreamingQuery

import tidelake
import tidelake.spark
from proving.fsck import check_table
from proving.stream_kills import DONE, KILLED, READY, Row, bag, difference, kill_in, running
from tidelake.errors import ConflictError
from tidelake.spark import Lake

DRIVERS = ("a", "b")
ROWS = pa.schema([("n", pa.int64()), ("k", pa.int32()), ("v", pa.int64())])
KEYS = 40
LEFT_MAX = 120
"""Seconds in which a driver reads what is left."""
_BY_N = {"sequence.field": "n"}
TABLES: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "dynamic": (("k",), {"bucket": -1, "dynamic-bucket.target-row-num": 10, **_BY_N}),
    "append": ((), {"bucket": -1}),
    "keyed": (("k",), {"bucket": 2, "changelog-producer": "lookup", **_BY_N}),
    "vectors": (("k",), {"bucket": 1, "deletion-vectors.enabled": True, **_BY_N}),
}
"""Primary keys and options of tables; a small run has the first of them. Rows have numbers of their
own, so the order in which two drivers write them says nothing."""


def program(work: Path, driver: str, names: list[str]) -> None:
    """Run the streams of a driver, until the parent says that no more comes; then to their ends."""
    own = work / driver
    own.mkdir(exist_ok=True)
    spark = quick_spark.session(own)
    lake = tidelake.spark.attach(spark, work / "warehouse")
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    queries = {name: _start(lake, work, driver, name, "1 second") for name in names}
    while not (work / "end").exists():
        for name, query in queries.items():
            if not query.isActive:
                raise AssertionError(f"{driver} into {name}: {query.exception()!r}")
        time.sleep(0.1)
    for query in queries.values():
        query.stop()
    for name in names:
        _start(lake, work, driver, name, "availableNow").awaitTermination()
    sys.stdout.write(f"{DONE}\n")
    sys.stdout.flush()
    spark.stop()


def _start(lake: Lake, work: Path, driver: str, name: str, trigger: str) -> StreamingQuery:
    frame = lake.read_stream(f"db.feed_{driver}", options={"read.stream.maxFilesPerTrigger": 3})
    place = work / "checkpoints" / f"{driver}-{name}"
    return lake.write_stream(frame, f"db.{name}", checkpoint=place, trigger=trigger)


def stream_rivals(work: Path, seed: int, *, kills: int, tables: int = len(TABLES)) -> dict:
    """Run two drivers with kills; the figures, or AssertionError where a promise broke."""
    rng = random.Random(seed)
    catalog = tidelake.open(str(work / "warehouse"))
    kept = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1000}
    for driver in DRIVERS:
        catalog.create_table(f"db.feed_{driver}", ROWS, options={"bucket": -1, **kept})
    names = list(TABLES)[:tables]
    for name in names:
        keys, options = TABLES[name]
        catalog.create_table(f"db.{name}", ROWS, primary_keys=keys, options={**options, **kept})
    fed: list[Row] = []
    killed: Counter[str] = Counter()
    runs = {driver: contextlib.ExitStack() for driver in DRIVERS}
    with contextlib.ExitStack() as ends:
        for run in runs.values():
            ends.callback(run.close)
        children = {driver: _begun(runs[driver], work, driver, names) for driver in DRIVERS}
        for number in range(kills):
            until = time.monotonic() + rng.uniform(2.0, 6.0)
            while time.monotonic() < until:
                _work(catalog, names, fed, rng)
            _check_runs(children, work)
            driver = DRIVERS[(number + seed) % 2]
            victim = KILLED[(number + seed) % len(KILLED)]
            killed[kill_in(children[driver], victim, rng)] += 1
            runs[driver].close()
            children[driver] = _begun(runs[driver], work, driver, names)
        _work(catalog, names, fed, rng)
        (work / "end").touch()
        for child in children.values():
            assert child.stdout is not None
            assert child.stdout.readline().strip() == DONE, (work / "log").read_text()[-3000:]
            child.wait(LEFT_MAX)
    commits = sum(_check(catalog, work, name, fed) for name in names)
    return {"rows": len(fed), "killed": dict(killed), "commits": commits, "violations": 0}


def _begun(
    run: contextlib.ExitStack, work: Path, driver: str, names: list[str]
) -> subprocess.Popen[str]:
    return run.enter_context(running(work, "proving.stream_rivals", driver, *names))


def _check_runs(children: dict[str, subprocess.Popen[str]], work: Path) -> None:
    for driver, child in children.items():
        assert child.poll() is None, f"{driver}: {(work / 'log').read_text()[-3000:]}"


def _work(catalog: tidelake.Catalog, names: list[str], fed: list[Row], rng: random.Random) -> None:
    """One thing that goes on beside the drivers; first of all both feeds get rows."""
    if rng.random() < 0.7 or not fed:
        for driver in DRIVERS:
            start = len(fed)
            keys = rng.sample(range(KEYS), rng.randrange(1, 12))
            rows = [{"n": start + i, "k": k, "v": rng.randrange(99)} for i, k in enumerate(keys)]
            catalog.table(f"db.feed_{driver}").write(rows)
            fed.extend(rows)
    else:
        table = catalog.table(f"db.{rng.choice(names)}")
        with contextlib.suppress(ConflictError):
            if rng.random() < 0.5:
                table.compact(full=rng.random() < 0.5)
            else:
                table.maintenance.expire_snapshots(
                    retain_max=30, retain_min=20, older_than=datetime.now(UTC)
                )
    time.sleep(rng.uniform(0.0, 0.3))


def _check(catalog: tidelake.Catalog, work: Path, name: str, fed: list[Row]) -> int:
    """Compare a table with the dict; how many commits there were."""
    table = catalog.table(f"db.{name}")
    newest = {row["k"]: row for row in sorted(fed, key=lambda r: r["n"])}
    expected = bag(list(newest.values()) if table.primary_keys else fed, ROWS.names)
    found = bag(table.to_arrow().to_pylist(), ROWS.names)
    assert found == expected, f"{name} differs: {difference(expected, found)}"
    made = Counter(
        (s["commit_user"], s["commit_identifier"], s["commit_kind"])
        for s in table.history().to_pylist()
    )
    twice = {key: times for key, times in made.items() if times > 1 and key[2] == "APPEND"}
    assert not twice, f"{name}: batches committed twice: {twice}"
    check_table(table.fileio, str(work / "warehouse" / "db.db" / name), newest_only=True)
    return sum(made.values())


if __name__ == "__main__":
    program(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
