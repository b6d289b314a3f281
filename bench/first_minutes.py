"""The first minute of a session: `attach`, and the first count of a table.

Each round starts two processes, ours and one that reads the same files as plain Parquet, so each
question is the first of its JVM. Java code that the caches hold from an earlier session is kept, as
a user has it on the second day; a note tells what the very first day costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import rows
from kernel import Line, scratch
from measure import ratio
from tree_cpu import TreeCpu

import tidelake
import tidelake.spark as ts

HERE = Path(__file__).resolve().parent
ROWS = {"small": 20_000, "full": 2_000_000}
ROUNDS = {"small": 1, "full": 7}


def lines(size: str) -> Iterator[Line]:
    """The lines of this question."""
    with scratch() as place:
        warehouse = place / "lake"
        data = rows.with_key(rows.shuffled_keys(ROWS[size], 1), 1)
        table = tidelake.open(str(warehouse)).create_table(
            "db.t", data.schema, primary_keys=["k"], options={"bucket": "2"}
        )
        table.write(data)
        table.compact(full=True)
        fresh = _asked("ours", warehouse, place / "first day")
        taken = []
        for number in range(ROUNDS[size]):
            sides = ("ours", "plain")[:: 1 if number % 2 == 0 else -1]
            answers = {side: _asked(side, warehouse, place / "first day") for side in sides}
            assert answers["ours"]["rows"] == answers["plain"]["rows"] == data.num_rows
            taken.append(answers)
    attach = [one["ours"]["attach"] for one in taken]
    note = (
        f"{median(one['wall'] for one in attach):.2f} s,"
        f" {median(one['cpu'] for one in attach):.2f} s of CPU; on the first day"
        f" {fresh['attach']['wall']:.2f} s, {fresh['attach']['cpu']:.2f} s of CPU"
    )
    yield Line("W2", "attach, in a session that was just started", "", None, "<= 1.5 s", note=note)
    for name, what, target in (
        ("count", "the first count of the session", "<= 1.3"),
        ("both", "attach and the first count", ""),
    ):
        pairs = [(one["ours"][name], one["plain"]["count"]) for one in taken]
        found = ratio(
            [ours["cpu"] for ours, _ in pairs],
            [plain["cpu"] for _, plain in pairs],
            [ours["wall"] / plain["wall"] for ours, plain in pairs],
        )
        yield Line("W2", what, "spark.read.parquet(...).count() of the same files", found, target)


def _asked(side: str, warehouse: Path, cache: Path) -> dict:
    """What a process of its own answers."""
    done = subprocess.run(
        [sys.executable, __file__, side, str(warehouse)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """One side, in a process as young as its JVM."""
    side, warehouse = sys.argv[1:]
    spark = ts.session("bench", master="local[2]")
    tree = TreeCpu()

    answer: dict[str, object] = {}
    before = tree.seconds(), time.perf_counter()

    def lap() -> dict[str, float]:
        nonlocal before
        now = tree.seconds(), time.perf_counter()
        taken = {"cpu": now[0] - before[0], "wall": now[1] - before[1]}
        before = now
        return taken

    if side == "ours":
        lake = ts.attach(spark, warehouse)
        answer["attach"] = attach = lap()
        answer["rows"] = lake.table("db.t").count()
        answer["count"] = count = lap()
        answer["both"] = {name: attach[name] + count[name] for name in count}
    else:
        answer["rows"] = spark.read.parquet(f"{warehouse}/db.db/t/bucket-*").count()
        answer["count"] = lap()
    spark.stop()
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
