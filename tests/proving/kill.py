"""A writing process is killed at random moments; what it had acknowledged must be there."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

import tidelake
from proving.fsck import check_table

SCHEMA = pa.schema([("k", pa.int64()), ("run", pa.int32()), ("i", pa.int64()), ("v", pa.string())])
KEYS = 200
ROWS = 40
COMMITS_MAX = 6
"""Fewer commits than this are waited for before a kill."""
FIRST_COMMIT_SECONDS = 0.2


def _rows(run: int, i: int) -> list[dict]:
    rng = random.Random(run * 1_000_003 + i)
    return [
        {"k": k, "run": run, "i": i, "v": "x" * rng.randrange(50)}
        for k in rng.sample(range(KEYS), ROWS)
    ]


def worker(warehouse: str, run: int) -> None:
    """Commit for ever; print each acknowledged commit."""
    storage = json.loads(os.environ.get("KILL_STORAGE", "{}"))
    table = tidelake.open(warehouse, storage=storage).table("db.kill")
    i = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        table.write(
            pa.Table.from_pylist(_rows(run, i), schema=SCHEMA),
            commit_user=f"run{run}",
            commit_identifier=i,
        )
        sys.stdout.write(f"{i}\n")
        sys.stdout.flush()
        i += 1


def kills(
    directory: Path,
    *,
    count: int,
    seed: int,
    warehouse: str | None = None,
    storage: dict[str, str] | None = None,
) -> dict:
    """Kill a writer `count` times; the figures, or AssertionError where a promise broke."""
    warehouse = warehouse or str(directory / "warehouse")
    rng = random.Random(seed)
    catalog = tidelake.open(warehouse, storage=storage)
    environ = {**os.environ, "KILL_STORAGE": json.dumps(storage or {})}
    catalog.create_table(
        "db.kill",
        SCHEMA,
        primary_keys=["k"],
        options={"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
    )
    state: dict[int, tuple[int, int]] = {}
    commits = 0
    for run in range(count):
        child = subprocess.Popen(
            [sys.executable, "-m", "proving.kill", warehouse, str(run)],
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        assert child.stdout is not None
        child.stdout.readline()
        # some commits, then a part of one, however fast the machine is
        seen, began = rng.randrange(COMMITS_MAX), time.perf_counter()
        for _ in range(seen):
            child.stdout.readline()
        one = (time.perf_counter() - began) / seen if seen else FIRST_COMMIT_SECONDS
        time.sleep(rng.uniform(0.0, 1.5 * one))
        child.kill()
        rest = child.stdout.read().split()
        child.wait()
        acknowledged = seen + len(rest)
        commits += acknowledged
        for i in range(acknowledged):
            state.update({row["k"]: (run, i) for row in _rows(run, i)})
        table = tidelake.open(warehouse, storage=storage).table("db.kill")
        got = {r["k"]: (r["run"], r["i"]) for r in table.to_arrow().to_pylist()}
        if got != state:
            # the commit in flight may be there wholly, though nobody heard of it
            state.update({row["k"]: (run, acknowledged) for row in _rows(run, acknowledged)})
            if got != state:
                wrong = {k: (got.get(k), v) for k, v in state.items() if got.get(k) != v}
                raise AssertionError(f"run {run} after {acknowledged} commits: {wrong}")
    files = check_table(table.fileio, table.paths.location, newest_only=count > 50)
    return {"kills": count, "commits": commits, "files": files, "lost": 0}


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]))
