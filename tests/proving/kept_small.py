"""Twenty tables that only grow, and the one command that keeps them small: runs at every moment.

A writer commits to each table about once between two rounds, as an hour of a real warehouse would.
``tidelake compact --watch`` runs as its users start it. All the while somebody counts the sorted
runs of each bucket, and the CPU time of each commit is compared with commits to tables that no job
looks after.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

import tidelake

COLUMNS = pa.schema({"k": pa.int64(), "p": pa.string(), "v": pa.int64(), "text": pa.string()})
ROWS = 500
KEYS = 20_000
RUNS_MAX = 5
"""Reads merge so many runs at most: the trigger of writers that compact by themselves."""
KINDS: tuple[tuple[dict[str, str], tuple[str, ...], tuple[str, ...]], ...] = (
    ({"bucket": "1"}, ("k",), ()),
    ({"bucket": "2", "changelog-producer": "lookup"}, ("k",), ()),
    ({"bucket": "1", "deletion-vectors.enabled": "true"}, ("k",), ()),
    ({"bucket": "1"}, ("k", "p"), ("p",)),
    ({"bucket": "-1"}, (), ()),
)
TABLES = 20
LATE_S = 90
ALONE = len(KINDS)


class RunsViolation(AssertionError):
    """A bucket had too many runs, or rows are wrong."""


def _create(catalog: tidelake.Catalog, name: str, number: int) -> tidelake.Table:
    options, keys, partitions = KINDS[number % len(KINDS)]
    return catalog.create_table(
        name,
        COLUMNS,
        primary_keys=list(keys),
        partition_keys=list(partitions),
        options={**options, "write-only": "true", "snapshot.num-retained.max": "20"},
    )


def _rows(draw: random.Random, commit: int) -> pa.Table:
    keys = [draw.randrange(KEYS) for _ in range(ROWS)]
    return pa.table(
        {
            "k": keys,
            "p": [f"p{key % 3}" for key in keys],
            "v": [commit] * ROWS,
            "text": [f"some text of {key}" for key in keys],
        },
        schema=COLUMNS,
    )


def runs_max(table: tidelake.Table) -> int:
    """The most sorted runs of a bucket; of a table without keys 0: it has files, not runs."""
    if not table.primary_keys:
        return 0
    columns = ["partition", "bucket", "level"]
    found: dict[tuple[str, int], int] = {}
    levels: set[tuple[str, int, int]] = set()
    for row in table.system_table("files").to_arrow(columns=columns).to_pylist():
        place = row["partition"], row["bucket"]
        if row["level"] and (*place, row["level"]) in levels:
            continue
        levels.add((*place, row["level"]))
        found[place] = found.get(place, 0) + 1
    return max(found.values(), default=0)


def kept_small(directory: Path, *, seconds: float, seed: int, interval: float = 10.0) -> dict:
    """Run it; the figures, or RunsViolation."""
    draw = random.Random(seed)
    warehouse = str(directory / "warehouse")
    catalog = tidelake.open(warehouse)
    kept = [_create(catalog, f"kept.t{n}", n) for n in range(TABLES)]
    alone = [_create(catalog, f"alone.t{n}", n) for n in range(ALONE)]
    watch = ["compact", "-w", warehouse, "kept.*", "--watch", "--interval", str(interval), "--json"]
    log = directory / "watch.json"
    cpu_ms: dict[str, list[float]] = {"kept": [], "alone": []}
    written: dict[str, dict[int, int]] = {table.identifier: {} for table in kept}
    counts: dict[str, int] = {table.identifier: 0 for table in kept}
    seen = dict.fromkeys(range(TABLES), 0)
    runs: list[int] = []
    with (
        log.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-m", "tidelake", *watch],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as job,
    ):
        try:
            until = time.monotonic() + seconds
            due = {n: time.monotonic() + draw.uniform(0, interval) for n in range(TABLES + ALONE)}
            commit = 0
            # on a busy machine the first round may come late
            while (now := time.monotonic()) < (until if log.stat().st_size else until + LATE_S):
                number = min(due, key=due.__getitem__)
                time.sleep(max(0.0, min(due[number], until) - now))
                if job.poll() is not None:
                    raise RunsViolation(f"the job ended: {log.read_text()[-2000:]}")
                commit += 1
                rows = _rows(draw, commit)
                is_kept = number < TABLES
                table = kept[number] if is_kept else alone[number - TABLES]
                began = time.process_time()
                table.write(rows)
                cpu_ms["kept" if is_kept else "alone"].append(1000 * (time.process_time() - began))
                due[number] = time.monotonic() + interval * draw.uniform(0.9, 1.2)
                if is_kept:
                    name = table.identifier
                    written[name].update(dict.fromkeys(rows["k"].to_pylist(), commit))
                    counts[name] += ROWS
                    runs.append(runs_max(table))
                    seen[number] = max(seen[number], runs[-1])
        finally:
            job.send_signal(signal.SIGTERM)
            job.wait(120)
    for table in kept:
        name, found = table.identifier, table.to_arrow(columns=["k", "v"])
        if table.primary_keys:
            if (
                dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
                != written[name]
            ):
                raise RunsViolation(f"{name}: rows are not those of the writer")
        elif found.num_rows != counts[name]:
            raise RunsViolation(f"{name}: {found.num_rows} rows instead of {counts[name]}")
    files = [t.system_table("files").to_arrow().num_rows for t in kept if not t.primary_keys]
    medians = {kind: statistics.median(values) for kind, values in cpu_ms.items()}
    rounds = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    failed = [one for one in rounds if one.get("error")]
    if failed:
        raise RunsViolation(f"the job failed: {failed[:3]}")
    return {
        "minutes": round(seconds / 60, 1),
        "commits": sum(map(len, cpu_ms.values())),
        "rounds": max((one["round"] for one in rounds), default=0),
        "runs_max": max(seen.values()),
        "runs_over": sum(one > RUNS_MAX for one in runs),
        "looks": len(runs),
        "append_files_max": max(files),
        "commit_cpu_ms": {kind: round(value, 1) for kind, value in medians.items()},
        "commit_ratio": round(medians["kept"] / medians["alone"], 2),
    }


def main(seconds: str, seed: str = "1") -> None:
    """Run it in a directory of its own, and print the figures."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tidelake-kept-small-") as place:
        print(json.dumps(kept_small(Path(place), seconds=float(seconds), seed=int(seed))))


if __name__ == "__main__":
    main(*sys.argv[1:])
