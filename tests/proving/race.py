"""Processes race to commit to one table: every acknowledged row is there once, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pyarrow as pa

import tidelake
from proving.fsck import check_table
from tidelake.errors import ConflictError

WRITES_MAX = 100
"""Times that one row is written; a commit whose attempts all lose their race says so."""

SCHEMA = pa.schema([("who", pa.int32()), ("i", pa.int64()), ("v", pa.string())])


def start(warehouse: str, processes: int, commits: int) -> int:
    """Fork the writers, all from one start; the exit code is the first one that failed.

    What a writer needs is imported once. Nothing was asked of a store before the forks.
    """
    children = []
    for who in range(processes):
        child = os.fork()
        if not child:
            code = 1
            try:
                worker(warehouse, who, commits)
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return next((who + 1 for who, code in enumerate(codes) if code), 0)


def worker(warehouse: str, who: int, commits: int) -> None:
    """Commit `commits` rows one by one; say which are acknowledged, and `!` for each refusal."""
    storage = json.loads(os.environ.get("RACE_STORAGE", "{}"))
    table = tidelake.open(warehouse, storage=storage).table("db.race")
    for i in range(commits):
        row = pa.Table.from_pylist([{"who": who, "i": i, "v": f"{who}-{i}"}], schema=SCHEMA)
        for _ in range(WRITES_MAX):
            try:
                table.write(row, commit_user=f"w{who}", commit_identifier=i)
            except ConflictError:
                os.write(1, f"{who} !\n".encode())
            else:
                os.write(1, f"{who} {i}\n".encode())  # so short a line is written whole
                break


def race(
    directory: Path,
    *,
    processes: int,
    commits: int,
    options: dict[str, str],
    warehouse: str | None = None,
    storage: dict[str, str] | None = None,
) -> dict:
    """Run the race; the figures, or AssertionError where a row is lost or doubled."""
    warehouse = warehouse or str(directory / "warehouse")
    catalog = tidelake.open(warehouse, storage=storage)
    environ = {**os.environ, "RACE_STORAGE": json.dumps(storage or {})}
    catalog.create_table("db.race", SCHEMA, primary_keys=["who", "i"], options=options)
    each = commits // processes
    started = subprocess.run(
        [sys.executable, "-m", "proving.race", warehouse, str(processes), str(each)],
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
        check=False,
    )
    if started.returncode:
        raise AssertionError(f"writer {started.returncode - 1} failed")
    said = [line.split() for line in started.stdout.splitlines()]
    refused = sum(what == "!" for _, what in said)
    acknowledged = {(int(who), int(what)) for who, what in said if what != "!"}
    if len(acknowledged) != each * processes:
        raise AssertionError(f"{each * processes - len(acknowledged)} commits never got through")
    table = catalog.table("db.race")
    rows = [(r["who"], r["i"]) for r in table.to_arrow(columns=["who", "i"]).to_pylist()]
    lost = acknowledged - set(rows)
    doubled = len(rows) - len(set(rows))
    invented = set(rows) - acknowledged
    files = check_table(table.fileio, table.paths.location, newest_only=commits > 1000)
    if lost or doubled or invented:
        raise AssertionError(f"lost {sorted(lost)[:5]}, doubled {doubled}, extra {len(invented)}")
    return {
        "processes": processes,
        "commits": len(acknowledged),
        "refused_and_written_again": refused,
        "snapshots": table.latest_snapshot_id,
        "files": files,
        "lost": 0,
        "doubled": 0,
    }


if __name__ == "__main__":
    sys.exit(start(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
