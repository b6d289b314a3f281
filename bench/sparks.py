"""Scans on each Spark that Tidelake runs on, beside plain Parquet of the same Spark.

A process for each minor version that `make sparks` has made an environment of, and for the
installed one. In it a table with keys and three upserts of 2 %, which nobody compacts, is summed by
`tl.table` and by `spark.table`, in turn with what this Spark writes of the same state as Parquet.
The answers are compared.

Run by `python bench/run.py sparks [--size full]`.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pipeline
import pyspark
from kernel import Line, scratch
from measure import ratio, timed
from plain_spark import BUCKETS, Common
from tree_cpu import TreeCpu

import tidelake.spark as ts
from tidelake.spark.versions import MINORS, minor_of

ENVIRONMENTS = Path(__file__).resolve().parents[1] / ".sparks"
UPSERTS = 3
TARGET = "<= 1.2"
COLUMNS = ["k", "i", "s20", "d", "m", "t"]
CONF = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": str(BUCKETS)}
WAYS = ("tl.table", "spark.table")


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    base_rows: int
    rounds: int


SIZES = {"small": Size(20_000, 2), "full": Size(5_000_000, 7)}


def python_of(minor: str) -> Path:
    """The Python of an environment with that Spark."""
    if minor == minor_of(pyspark.__version__):
        return Path(sys.executable)
    python = ENVIRONMENTS / minor / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"Spark {minor} has no environment: run 'make sparks'")
    return python


def lines(size_name: str) -> Iterator[Line]:
    """The lines of this question."""
    size = SIZES[size_name]
    with scratch() as place:
        data = place / "data"
        pipeline.write_inputs(data, pipeline.Size(size.base_rows, size.rounds, UPSERTS))
        for minor in MINORS:
            command = [python_of(minor), __file__, place / minor, data, size.rounds]
            done = subprocess.run(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=True,
            )
            answer = json.loads(done.stdout.splitlines()[-1])
            assert minor_of(answer["version"]) == minor
            plain = answer["plain"]
            for way in WAYS:
                what = f"{answer['version']}, {size.base_rows:,} rows: scan after 3 upserts of 2 %"
                found = ratio(
                    [cpu for cpu, _ in answer[way]],
                    [cpu for cpu, _ in plain],
                    [ours / own for (_, ours), (_, own) in zip(answer[way], plain, strict=True)],
                )
                against = "its own scan of Parquet that it wrote"
                yield Line("W3", f"Spark {what}, {way}", against, found, TARGET)


def is_same(found: list[str], wanted: list[str]) -> bool:
    """Whether two answers are the same; a sum of floats depends on the order of its parts."""
    return all(
        own == other or ("." in own and math.isclose(float(own), float(other), rel_tol=1e-12))
        for own, other in zip(found, wanted, strict=True)
    )


def main() -> None:
    """One version, in a process of its own."""
    place, data, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    spark = ts.session("bench", master="local[2]", conf=CONF)
    lake = ts.attach(spark, str(place / "lake"))
    engine = Common(spark, place, data)
    options = {"bucket": BUCKETS, "write-only": "true"}
    lake.create_table("db.t", engine.base(), primary_keys=["k"], options=options)
    lake.write(engine.base(), "db.t")
    for number in range(1, UPSERTS + 1):
        lake.write(engine.upsert_rows(number), "db.t")
    plain = str(place / "plain")
    lake.table("db.t").write.option("compression", "zstd").parquet(plain)
    works = {
        "plain": lambda: engine.aggregate(spark.read.parquet(plain).select(*COLUMNS)),
        "tl.table": lambda: engine.aggregate(lake.table("db.t", columns=COLUMNS)),
        "spark.table": lambda: engine.aggregate(spark.table("tidelake.db.t").select(*COLUMNS)),
    }
    answers = {way: work() for way, work in works.items()}
    assert all(is_same(found, answers["plain"]) for found in answers.values()), answers
    tree = TreeCpu()
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in works}
    for number in range(rounds):
        for way in list(works)[:: 1 if number % 2 else -1]:
            taken[way].append(timed(works[way], tree.seconds))
    version = spark.version
    spark.stop()
    sys.stdout.write(json.dumps({"version": version, **taken}) + "\n")


if __name__ == "__main__":
    main()
