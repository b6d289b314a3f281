"""TPC-H on tables that change: three upserts of 2 % of lineitem and orders, beside plain Parquet.

1. DuckDB makes rows, upserts, the state after them and the 22 queries (`tpch_data.py`, in an
   environment of its own, `.venv-tpch`).
2. lineitem and orders are primary-key tables of 4 buckets that nobody compacts; the other tables
   are append tables. Plain Parquet is what Spark writes of the final state.
3. Each query runs as `tl.sql`, as `spark.sql` on our catalog and on plain Parquet, in turn, in one
   JVM. Before it is timed, its answers are compared.
4. Queries right after a commit, a join on the buckets' key, the load (`tpch_moments.py`).
5. The same after a compaction.

A ratio is the median of the rounds' ratios for one query; a line gives the geometric mean of the 22
and, as its spread, the best and the worst query.

Run by `python bench/run.py tpch [--size full] [--spark 4.1]`; small is SF 0.1, full SF 1. The
environment's TPCH_PLACE names a directory whose rows are kept and used again, TPCH_QUERIES some
queries (`q1,q6`), TPCH_SCALE another scale factor.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kernel import Line, scratch
from measure import Ratio, geometric, timed
from tpch_moments import after_a_commit, join, load
from tree_cpu import TreeCpu

import tidelake.spark as ts
from tidelake.spark import Lake
from tidelake.spark.versions import MINORS, minor_of

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".venv-tpch"
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpch==1.5.5")
KEYS = {"lineitem": ("l_orderkey", "l_linenumber"), "orders": ("o_orderkey",)}
STATIC = ("customer", "nation", "part", "partsupp", "region", "supplier")
UPSERTS = 3
BUCKETS = 4
OURS = ("tl.sql", "spark.sql")
MEAN_MAX_OF_OLDER = 1.25
"""Target of the geometric mean on a Spark that is not the newest."""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    scale: float
    rounds: int


SIZES = {"small": Size(0.1, 1), "full": Size(1, 5)}


@dataclass(frozen=True)
class Query:
    """What the rounds of one query took, by way: CPU and wall seconds."""

    name: str
    taken: Mapping[str, list[tuple[float, float]]]

    def ratio(self, way: str, kind: int) -> float:
        """The median of the rounds' ratios: of CPU (0) or wall (1)."""
        pairs = zip(self.taken[way], self.taken["plain"], strict=True)
        return statistics.median(ours[kind] / plain[kind] for ours, plain in pairs)


def make_rows(place: Path, scale: float) -> Path:
    """Have DuckDB make rows and queries, unless they are there."""
    rows = place / f"rows-{scale:g}"
    if not (rows / "queries.json").exists():
        python = ENVIRONMENT / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        wanted = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(wanted, check=True)
        rows.mkdir(exist_ok=True)
        subprocess.run([python, HERE / "tpch_data.py", str(scale), rows], check=True)
    return rows


def make_tables(lake: Lake, rows: Path, place: Path) -> None:
    """Our tables and the plain ones; the plain ones are in Spark's own catalog."""
    spark = lake.spark
    for name in (*STATIC, *KEYS):
        plain = str(place / "plain" / name)
        spark.read.parquet(str(rows / f"{name}.parquet")).write.parquet(plain)
        spark.sql(f"CREATE TABLE spark_catalog.default.{name} USING parquet LOCATION '{plain}'")
    for name in STATIC:
        frame = spark.read.parquet(str(rows / f"{name}.parquet"))
        lake.create_table(f"tpch.{name}", frame)
        lake.write(frame, f"tpch.{name}")
    for name, keys in KEYS.items():
        options = {"bucket": BUCKETS, "bucket-key": keys[0], "write-only": "true"}
        states = [
            spark.read.parquet(str(rows / f"{name}-{number}.parquet"))
            for number in range(UPSERTS + 1)
        ]
        lake.create_table(f"tpch.{name}", states[0], primary_keys=keys, options=options)
        for state in states:
            lake.write(state, f"tpch.{name}")


def ways_of(lake: Lake, text: str) -> dict[str, Callable[[], object]]:
    """The query by each way; `plain` is the one that the others are compared with."""
    spark = lake.spark
    return {
        "plain": lambda: spark.sql(text).collect(),
        "tl.sql": lambda: lake.sql(text).collect(),
        "spark.sql": lambda: spark.sql(text).collect(),
    }


def use(lake: Lake, way: str) -> None:
    """Have the names of a query's tables mean those of a way."""
    lake.spark.sql("USE spark_catalog.default" if way != "spark.sql" else "USE tidelake.tpch")


def check(query: str, answers: Mapping[str, object]) -> None:
    """Compare the answers of the ways."""
    rows = {way: sorted(map(repr, found)) for way, found in answers.items()}
    for way in OURS:
        if rows[way] != rows["plain"] or not rows["plain"]:
            message = f"{query} by {way} gives {rows[way][:3]}, plain Parquet {rows['plain'][:3]}"
            raise AssertionError(message)


def run_queries(
    lake: Lake, texts: Mapping[str, str], rounds: int, tree: TreeCpu
) -> Iterator[Query]:
    """Run all queries by all ways, round by round; first once to warm up and to compare."""
    for name, text in texts.items():
        ways = ways_of(lake, text)
        taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        answers: dict[str, object] = {}
        for way, work in ways.items():
            use(lake, way)
            answers[way] = work()
        check(name, answers)
        for number in range(rounds):
            for way in list(ways)[:: 1 if number % 2 else -1]:
                use(lake, way)
                taken[way].append(timed(ways[way], tree.seconds))
        yield Query(name, taken)


def line_of(queries: list[Query], way: str, state: str, target: tuple[float, float]) -> Line:
    """All queries by one way."""
    cpu = {query.name: query.ratio(way, 0) for query in queries}
    wall = {query.name: query.ratio(way, 1) for query in queries}
    worst = sorted(wall, key=wall.__getitem__)[::-1][:4]
    ratio = Ratio(
        median=geometric(list(cpu.values())),
        low=min(cpu.values()),
        high=max(cpu.values()),
        wall_median=geometric(list(wall.values())),
        a_cpu_seconds=sum(statistics.median(c for c, _ in q.taken[way]) for q in queries),
        b_cpu_seconds=sum(statistics.median(c for c, _ in q.taken["plain"]) for q in queries),
    )
    shown = ", ".join(f"{name} {wall[name]:.2f}" for name in worst)
    worst_of_all = max(wall.values())
    beyond = f", worst <= {target[1]:g} **missed**" if worst_of_all > target[1] else ""
    what = f"{state}, {len(queries)} queries, {way}; worst by wall: {shown}"
    return Line("TPC-H", what, "plain Parquet", ratio, f"<= {target[0]:g}{beyond}")


def table_of(queries: list[Query]) -> str:
    """Ratios and seconds of each query, for the reader of the log."""
    head = f"{'':4}{'plain wall':>11}" + "".join(f"{w + ' cpu':>15}{'wall':>7}" for w in OURS)
    lines = [head]
    for query in queries:
        plain = statistics.median(wall for _, wall in query.taken["plain"])
        own = "".join(f"{query.ratio(w, 0):15.2f}{query.ratio(w, 1):7.2f}" for w in OURS)
        lines.append(f"{query.name:4}{plain:11.2f}{own}")
    return "\n".join(lines)


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    scale = float(os.environ.get("TPCH_SCALE", size.scale))
    conf = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}
    with ExitStack() as stack:
        place = stack.enter_context(scratch())
        kept = os.environ.get("TPCH_PLACE")
        rows = make_rows(Path(kept) if kept else place, scale)
        texts = json.loads((rows / "queries.json").read_text())
        some = os.environ.get("TPCH_QUERIES")
        if some:
            texts = {name: texts[name] for name in some.split(",")}
        warehouse = {"spark.sql.warehouse.dir": str(place / "spark")}
        spark = ts.session("bench", master="local[2]", conf={**conf, **warehouse})
        stack.callback(spark.stop)
        lake = ts.attach(spark, str(place / "warehouse"))
        make_tables(lake, rows, place)
        lake.sql("USE tpch")
        tree = TreeCpu()
        mean = 1.2 if minor_of(spark.version) == MINORS[-1] else MEAN_MAX_OF_OLDER
        for state, target in (("3 upserts of 2 %", (mean, 1.6)), ("compacted", (1.1, 1.3))):
            if state == "compacted":
                yield from after_a_commit(lake, rows, texts, size.rounds, tree, scale)
                for name in KEYS:
                    lake.compact(f"tpch.{name}", full=True)
            began = time.perf_counter()
            queries = list(run_queries(lake, texts, size.rounds, tree))
            print(f"SF {scale:g}, {state}, {time.perf_counter() - began:.0f} s")
            print(table_of(queries), flush=True)
            for way in OURS:
                yield line_of(queries, way, f"SF {scale:g}, {state}", target)
            yield from join(lake, state, size.rounds, tree, scale)
        yield load(lake, rows, place, size.rounds, tree, scale)
