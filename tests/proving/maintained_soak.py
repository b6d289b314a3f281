"""Writers, readers and maintenance jobs share a few tables; of each, one snapshot is kept.

Four processes write to tables with ``write-only``, two read them, and two keep them small
(`catalog.maintain`: compaction, expiry down to one snapshot, orphan files). Rows come in blocks, as
in :mod:`proving.soak`: all rows of a block are of one commit. So

- no writer and no reader gets an error: the jobs give way, and reads hold what they read,
- a reader sees whole blocks alone,
- rows at the end are those of a model, and those of a queue have the order of their writers,
- no bucket of a table has five sorted runs after the last round,
- what is on disk at the end is what the one snapshot names.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import tidelake
from proving.fsck import check_table
from proving.soak import BLOCK_ROWS, SCHEMA, SoakViolation, rows_of_block, wrong_blocks
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import state_files
from tidelake.table.upkeep import HERE, Workers

WRITERS, READERS, JOBS = 4, 2, 2
BLOCKS = 6
"""Of each writer, in tables with a key."""
RUNS_MAX = 4
PAUSE_S = (0.05, 0.5)
END_S_MAX = 180
KEPT = {
    "write-only": "true",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1 s",
    "maintenance.expiry-interval": "1 s",
    "maintenance.orphans-interval": "15 s",
    "maintenance.orphans-older-than": "2 min",
    "read.hold": "auto",
}
TABLES: dict[str, dict] = {
    "plain": {"bucket": "2"},
    "marked": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "log": {"bucket": "-1"},
    "queue": {"bucket": "1", "bucket-key": "k"},
}
KEYED = ("plain", "marked")


def _young_orphans(age_ms: int) -> Workers:
    """Workers that remove orphan files which users' jobs leave alone for an hour at least."""
    return replace(HERE, orphans_age_ms_min=age_ms)


def create(catalog, name: str):
    """Make one of the tables."""
    keys = {"primary_keys": ["k"]} if name in KEYED else {}
    return catalog.create_table(f"db.{name}", SCHEMA, **keys, options={**KEPT, **TABLES[name]})


def write(warehouse: str, number: int, seed: int, seconds: float) -> dict:
    """Write blocks of this process; what it wrote last to each, in order."""
    draw = random.Random(seed * 100 + number)
    catalog = tidelake.open(warehouse)
    tables = {name: catalog.table(f"db.{name}") for name in TABLES}
    model: dict[str, list] = {name: [] for name in TABLES}
    until, commits = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        name, commits = draw.choice(list(TABLES)), commits + 1
        drawn = draw.randrange(BLOCKS) if name in KEYED else commits
        block, commit = number + WRITERS * drawn, f"{number}-{commits}"
        deletes = name in KEYED and draw.random() < 0.2
        rows = pa.Table.from_pylist(rows_of_block(block, commit), schema=SCHEMA)
        tables[name].write(rows, row_kinds=["-D"] * BLOCK_ROWS if deletes else None)
        if name in KEYED:
            model[name] = [one for one in model[name] if one[0] != block]
        if not deletes:
            model[name].append((block, commit))
        time.sleep(draw.uniform(*PAUSE_S))
    return {"model": model, "commits": commits}


def read(warehouse: str, number: int, seed: int, seconds: float) -> dict:
    """Read tables again and again, some slowly: a scan is planned, and read later."""
    draw = random.Random(seed * 100 + 50 + number)
    catalog = tidelake.open(warehouse)
    until, reads = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        table = catalog.table(f"db.{draw.choice(list(TABLES))}")
        with table.scan() as scan:
            time.sleep(draw.choice([0, 0, 0.2, 3]))
            rows = scan.to_arrow().to_pylist()
        if problems := wrong_blocks(rows):
            raise SoakViolation(f"a reader of {table.identifier} sees {problems[:3]}")
        reads += 1
    return {"reads": reads}


def maintain(warehouse: str, number: int, seed: int, seconds: float) -> dict:
    """One of the jobs; an error of a table ends it."""
    del number, seed
    figures = {"rounds": 0, "files": 0, "gave_way": 0, "snapshots": 0, "taken": 0, "orphans": 0}

    def watch(done) -> None:
        figures["rounds"] += 1
        if done.errors:
            raise SoakViolation(f"a maintenance job: {dict(done.errors)}")
        for one in done.tables:
            figures["taken"] += one.is_taken
            for task in one.tasks:
                for name in ("files", "gave_way", "snapshots"):
                    figures[name] += task.figures.get(name, 0)
                figures["orphans"] += task.figures.get("quarantined_files", 0)

    tidelake.open(warehouse).maintain(
        "db.*", interval=0.5, seconds=seconds, watch=watch, workers=_young_orphans(120_000)
    )
    return figures


ROLES = {"write": (write, WRITERS), "read": (read, READERS), "maintain": (maintain, JOBS)}


def soak(
    directory: Path, *, seconds: float, seed: int, counts: dict[str, int] | None = None
) -> dict:
    """Let them work; the figures, or SoakViolation where a promise broke.

    `counts` has how many processes play each role.
    """
    warehouse = str(directory / "warehouse")
    catalog = tidelake.open(warehouse)
    tables = {name: create(catalog, name) for name in TABLES}
    began = time.monotonic()
    children = {
        (role, number): subprocess.Popen(
            [sys.executable, "-m", "proving.maintained_soak", role, warehouse]
            + [str(one) for one in (number, seed, seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONFAULTHANDLER": "1"},
        )
        for role, (_, count) in ROLES.items()
        for number in range((counts or {}).get(role, count))
    }
    told: dict[str, list[dict]] = {role: [] for role in ROLES}
    try:
        for (role, number), child in children.items():
            left_s = seconds + END_S_MAX - (time.monotonic() - began)
            try:
                out, error = child.communicate(timeout=max(1.0, left_s))
            except subprocess.TimeoutExpired:
                raise SoakViolation(f"{role} {number} does not end: {_stacks(child)}") from None
            if child.returncode:
                raise SoakViolation(
                    f"{role} {number} ended with {child.returncode}: {error[-2000:]}"
                )
            told[role].append(json.loads(out))
    finally:
        for child in children.values():
            if child.poll() is None:
                child.kill()
    end = _at_rest(catalog)
    for name, table in tables.items():
        _judge_rows(name, table, [one["model"][name] for one in told["write"]])
        _judge_files(table)
        check_table(table.handle.fileio, table.location)
    jobs = {key: sum(one[key] for one in told["maintain"]) for key in told["maintain"][0]}
    return {
        "minutes": round((time.monotonic() - began) / 60, 1),
        "commits": sum(one["commits"] for one in told["write"]),
        "reads": sum(one["reads"] for one in told["read"]),
        "jobs": jobs,
        "removed_at_the_end": end,
        "violations": 0,
    }


def _stacks(child: subprocess.Popen) -> str:
    """Where the threads of a process stand; it ends with that."""
    child.send_signal(signal.SIGABRT)
    return child.communicate(timeout=60)[1][-8_000:]


def _at_rest(catalog) -> int:
    """Nobody writes any more: a job leaves one snapshot and no file that nothing names."""
    options = {"maintenance.orphans-older-than": "1 s", "maintenance.orphans-interval": "1 ms"}
    removed = 0
    for _ in range(4):
        time.sleep(1.5)
        done = catalog.maintain("db.*", rounds=1, options=options, workers=_young_orphans(1_000))
        if done.errors:
            raise SoakViolation(f"the last rounds: {dict(done.errors)}")
        tasks = [task for one in done.tables for task in one.tasks]
        removed += sum(task.figures.get("removed_files", 0) for task in tasks)
    return removed


def _judge_rows(name: str, table, models: list[list]) -> None:
    rows = table.to_arrow().to_pylist()
    if problems := wrong_blocks(rows):
        raise SoakViolation(f"{name} at the end: {problems[:3]}")
    found = list(dict.fromkeys((row["b"], row["c"]) for row in rows))
    wanted = [tuple(one) for model in models for one in model]
    if sorted(found) != sorted(wanted):
        raise SoakViolation(f"{name}: {sorted(set(found) ^ set(wanted))[:5]} differ from the model")
    if name == "queue":
        for number, model in enumerate(models):
            own = [list(one) for one in found if one[0] % WRITERS == number]
            if own != [list(one) for one in model]:
                raise SoakViolation(f"the queue has lost the order of writer {number}")


def _judge_files(table) -> None:
    """One snapshot is left, few runs, and every file of the table is one that it names."""
    handle = table.handle
    ids = handle.snapshots.ids()
    if len(ids) != 1:
        raise SoakViolation(f"{table.identifier} keeps snapshots {ids}")
    files = table.system_table("files").to_arrow().to_pylist()
    for bucket in {f["bucket"] for f in files}:
        levels = [f["level"] for f in files if f["bucket"] == bucket]
        runs = levels.count(0) + len({level for level in levels if level})
        if table.primary_keys and runs > RUNS_MAX:
            raise SoakViolation(f"bucket {bucket} of {table.identifier} has {runs} runs")
    snapshot = handle.snapshots.latest()
    assert isinstance(snapshot, Snapshot)
    named = {Path(path).name for path in state_files(handle, snapshot)}
    there = {
        path.name
        for folder in ("manifest", "index", "bucket-*")
        for path in Path(table.location).glob(f"{folder}/*")
    }
    if there != named:
        left, missing = sorted(there - named)[:5], sorted(named - there)[:5]
        raise SoakViolation(f"{table.identifier}: nothing names {left}, and {missing} are missing")


if __name__ == "__main__":
    ROLE, WAREHOUSE, *NUMBERS = sys.argv[1:]
    print(
        json.dumps(ROLES[ROLE][0](WAREHOUSE, int(NUMBERS[0]), int(NUMBERS[1]), float(NUMBERS[2])))
    )
