"""Moments of a TPC-H table beside plain Parquet: the query after a commit, the load, a join.

1. Each of four queries right after a commit of 2 % of lineitem and orders, which nothing has read
   yet; the commit is then rolled back, so each one meets the same state. It holds the rows of the
   last upsert, so the answers stay those of plain Parquet.
2. lineitem written into an empty primary-key table, beside what Spark writes of the same rows
   without sorting them; both warm.
3. lineitem joined with orders on the key that both are bucketed by.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernel import Line
from measure import Ratio, geometric, paired, timed
from tpc_suites import TPCH
from tree_cpu import TreeCpu

from tidelake.spark import Lake

QUERIES = ("q1", "q3", "q6", "q12")
ROUNDS_MAX = 3
JOIN = (
    "SELECT o_orderpriority, count(*), sum(l_extendedprice), max(l_shipdate)"
    " FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderpriority"
)
PLAIN, OURS = "spark_catalog.default", "tidelake.tpch"


def after_a_commit(
    lake: Lake, rows: Path, texts: Mapping[str, str], rounds: int, tree: TreeCpu, scale: float
) -> Iterator[Line]:
    """The first query that reads a commit, by each way."""
    spark = lake.spark
    queries = [name for name in QUERIES if name in texts]
    upserts = {name: spark.read.parquet(str(rows / f"{name}-3.parquet")) for name in TPCH.keys}
    before = {name: lake.catalog.table(f"tpch.{name}").latest_snapshot_id for name in TPCH.keys}

    def plain(text: str) -> tuple[float, float]:
        spark.sql(f"USE {PLAIN}")
        return timed(lambda: spark.sql(text).collect(), tree.seconds)

    def ours(text: str, way: str) -> tuple[float, float]:
        for name, frame in upserts.items():
            lake.write(frame, f"tpch.{name}")
        spark.sql(f"USE {OURS}" if way == "spark.sql" else f"USE {PLAIN}")
        run = lake.sql if way == "tl.sql" else spark.sql
        taken = timed(lambda: run(text).collect(), tree.seconds)
        for name, snapshot in before.items():
            lake.sql(f"CALL sys.rollback('tpch.{name}', '{snapshot}')")
        return taken

    for way in ("tl.sql", "spark.sql"):
        cpu, wall, seconds = {}, {}, [0.0, 0.0]
        for name in queries:
            pairs = [
                (ours(texts[name], way), plain(texts[name])) for _ in range(min(rounds, ROUNDS_MAX))
            ]
            cpu[name] = statistics.median(a[0] / b[0] for a, b in pairs)
            wall[name] = statistics.median(a[1] / b[1] for a, b in pairs)
            seconds[0] += statistics.median(a[0] for a, _ in pairs)
            seconds[1] += statistics.median(b[0] for _, b in pairs)
        ratio = Ratio(
            geometric(list(cpu.values())),
            min(cpu.values()),
            max(cpu.values()),
            geometric(list(wall.values())),
            *seconds,
        )
        shown = ", ".join(f"{name} {value:.2f}" for name, value in wall.items())
        what = f"SF {scale:g}, the first query after a commit, {way}; by wall: {shown}"
        yield Line("TPC-H", what, "plain Parquet", ratio, "<= 1.8")


def load(lake: Lake, rows: Path, place: Path, rounds: int, tree: TreeCpu, scale: float) -> Line:
    """Lineitem into a primary-key table."""
    frame = lake.spark.read.parquet(str(rows / "lineitem-0.parquet"))
    keys = TPCH.keys["lineitem"]
    numbers = itertools.count()

    def ours() -> None:
        name = f"tpch.load{next(numbers)}"
        lake.create_table(name, frame, primary_keys=keys, options=TPCH.options("lineitem"))
        lake.write(frame, name)

    def plain() -> None:
        shutil.rmtree(place / "load", ignore_errors=True)
        frame.write.parquet(str(place / "load"))

    found = paired(ours, plain, rounds=min(rounds, ROUNDS_MAX), cpu=tree.seconds)
    what = f"SF {scale:g}, load of lineitem into a primary-key table"
    return Line("TPC-H", what, "Spark's plain unsorted write", found, "<= 1.4")


def join(lake: Lake, state: str, rounds: int, tree: TreeCpu, scale: float) -> Iterator[Line]:
    """Lineitem and orders on the key of their buckets, by each way."""
    spark = lake.spark

    def plain() -> list[str]:
        spark.sql(f"USE {PLAIN}")
        return sorted(map(repr, spark.sql(JOIN).collect()))

    def by_lake() -> list[str]:
        return sorted(map(repr, lake.sql(JOIN).collect()))

    def by_spark() -> list[str]:
        spark.sql(f"USE {OURS}")
        return sorted(map(repr, spark.sql(JOIN).collect()))

    for way, ours in (("tl.sql", by_lake), ("spark.sql", by_spark)):
        if ours() != plain():
            message = f"the join by {way} has another answer than plain Parquet"
            raise AssertionError(message)
        found = paired(ours, plain, rounds=rounds, cpu=tree.seconds)
        what = f"SF {scale:g}, {state}, join on the bucket key, {way}"
        yield Line("TPC-H", what, "plain Parquet", found, "<= 0.7")
