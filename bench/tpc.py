"""A suite of queries on tables that change: three upserts of 2 %, beside plain Parquet.

1. DuckDB makes rows, upserts, the state after them, the queries and their answers (`tpc_data.py`,
   in an environment of its own, `.venv-tpc`).
2. The tables of `tpc_suites.py` with keys are primary-key tables that nobody compacts; the other
   tables are append tables. Plain Parquet is what Spark writes of the final state.
3. Each query runs as `tl.sql`, as `spark.sql` on our catalog and on plain Parquet, in turn, in one
   JVM. Before it is timed, its answers are compared with each other and with DuckDB's.

A ratio is the median of the rounds' ratios for one query; a line gives the geometric mean of all
and, as its spread, the best and the worst query.

TPC_PLACE names a directory whose rows are kept and used again, TPC_QUERIES some queries (`q1,q6`),
TPC_SCALE another scale factor.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernel import Line, scratch
from measure import Ratio, geometric, timed
from pyspark.sql import Row
from tpc_answers import rows_of, same_as_judged, unlimited
from tpc_suites import UPSERTS, Suite
from tree_cpu import TreeCpu

import tidelake.spark as ts
from tidelake.spark import Lake

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".venv-tpc"
PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpch==1.5.5", "duckdb-extension-tpcds==1.5.5")
OURS = ("tl.sql", "spark.sql")


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    scale: float
    rounds: int

    @classmethod
    def asked(cls, scale: float, rounds: int) -> Size:
        """The size with the scale that the environment asks for."""
        return cls(float(os.environ.get("TPC_SCALE", scale)), rounds)


@dataclass(frozen=True)
class Query:
    """What the rounds of one query took, by way: CPU and wall seconds."""

    name: str
    taken: Mapping[str, list[tuple[float, float]]]

    def ratio(self, way: str, kind: int) -> float:
        """The median of the rounds' ratios: of CPU (0) or wall (1)."""
        pairs = zip(self.taken[way], self.taken["plain"], strict=True)
        return statistics.median(ours[kind] / plain[kind] for ours, plain in pairs)


def make_rows(suite: Suite, place: Path, scale: float) -> Path:
    """Have DuckDB make rows and queries, unless they are there."""
    rows = Path(os.environ.get("TPC_PLACE", place)) / f"{suite.name}-rows-{scale:g}"
    if not (rows / "queries.json").exists():
        python = ENVIRONMENT / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        wanted = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(wanted, check=True)
        rows.mkdir(exist_ok=True)
        program = [python, HERE / "tpc_data.py", suite.name, str(scale), rows]
        subprocess.run(program, check=True)
    return rows


def queries_of(rows: Path) -> dict[str, str]:
    """The queries that are asked."""
    texts = json.loads((rows / "queries.json").read_text())
    some = os.environ.get("TPC_QUERIES")
    return {name: texts[name] for name in some.split(",")} if some else texts


def tables_of(rows: Path) -> list[str]:
    """The tables of a suite."""
    return sorted(path.stem for path in rows.glob("*.parquet") if "-" not in path.stem)


def make_tables(suite: Suite, lake: Lake, rows: Path, place: Path) -> None:
    """Our tables and the plain ones; the plain ones are in Spark's own catalog."""
    spark = lake.spark
    for name in tables_of(rows):
        plain = str(place / "plain" / name)
        frame = spark.read.parquet(str(rows / f"{name}.parquet"))
        frame.write.parquet(plain)
        spark.sql(f"CREATE TABLE spark_catalog.default.{name} USING parquet LOCATION '{plain}'")
        table = f"{suite.name}.{name}"
        if name not in suite.keys:
            lake.create_table(table, frame)
            lake.write(frame, table)
            continue
        states = [
            spark.read.parquet(str(rows / f"{name}-{number}.parquet"))
            for number in range(UPSERTS + 1)
        ]
        keys, options = suite.keys[name], suite.options(name)
        lake.create_table(table, states[0], primary_keys=keys, options=options)
        for state in states:
            lake.write(state, table)


def ways_of(lake: Lake, text: str) -> dict[str, Callable[[], list[Row]]]:
    """The query by each way; `plain` is the one that the others are compared with."""
    spark = lake.spark
    return {
        "plain": lambda: spark.sql(text).collect(),
        "tl.sql": lambda: lake.sql(text).collect(),
        "spark.sql": lambda: spark.sql(text).collect(),
    }


def use(suite: Suite, lake: Lake, way: str) -> None:
    """Have the names of a query's tables mean those of a way."""
    own = f"tidelake.{suite.name}"
    lake.spark.sql(f"USE {own if way == 'spark.sql' else 'spark_catalog.default'}")


def check(suite: Suite, lake: Lake, query: str, text: str) -> None:
    """Ask each way once, which warms it up, and compare the answers.

    Rows that tie at the end of a LIMIT may differ; then the answers without the limit are compared.
    """
    for asked in (text, unlimited(text)):
        answers = {}
        for way, work in ways_of(lake, asked).items():
            use(suite, lake, way)
            answers[way] = rows_of(work())
        if all(found == answers["plain"] for found in answers.values()):
            return
    different = {
        way: sorted(set(found) ^ set(answers["plain"]))[:3] for way, found in answers.items()
    }
    message = f"{query}: rows that only one of a way and plain Parquet has: {different}"
    raise AssertionError(message)


def run_queries(
    suite: Suite, lake: Lake, texts: Mapping[str, str], rounds: int, tree: TreeCpu
) -> Iterator[Query]:
    """Run all queries by all ways, round by round; first once to warm up and to compare."""
    for name, text in texts.items():
        ways = ways_of(lake, text)
        taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        check(suite, lake, name, text)
        for number in range(rounds):
            for way in list(ways)[:: 1 if number % 2 else -1]:
                use(suite, lake, way)
                taken[way].append(timed(ways[way], tree.seconds))
        yield Query(name, taken)


def line_of(
    suite: Suite, queries: list[Query], way: str, state: str, target: tuple[float, float]
) -> Line:
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
    slow = ", ".join(f"{name} {wall[name]:.2f}" for name in worst)
    worst_of_all = max(wall.values())
    beyond = f", worst <= {target[1]:g} **missed**" if worst_of_all > target[1] else ""
    what = f"{state}, {len(queries)} queries, {way}; worst by wall: {slow}"
    return Line(suite.title, what, "plain Parquet", ratio, f"<= {target[0]:g}{beyond}")


def table_of(queries: list[Query]) -> str:
    """Ratios and seconds of each query, for the reader of the log."""
    head = f"{'':4}{'plain wall':>11}" + "".join(f"{w + ' cpu':>15}{'wall':>7}" for w in OURS)
    lines = [head]
    for query in queries:
        plain = statistics.median(wall for _, wall in query.taken["plain"])
        own = "".join(f"{query.ratio(w, 0):15.2f}{query.ratio(w, 1):7.2f}" for w in OURS)
        lines.append(f"{query.name:4}{plain:11.2f}{own}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Bench:
    """A suite whose tables are there, in a session."""

    suite: Suite
    size: Size
    lake: Lake
    rows: Path
    place: Path
    texts: Mapping[str, str]
    tree: TreeCpu

    def judge(self) -> None:
        """Compare the answers of plain Parquet with DuckDB's; the ways are compared with them."""
        judged = json.loads((self.rows / "answers.json").read_text())
        use(self.suite, self.lake, "plain")
        wrong = [
            name
            for name, text in self.texts.items()
            if not same_as_judged(self.lake.spark.sql(unlimited(text)).collect(), judged[name])
        ]
        if wrong:
            message = f"answers of {self.suite.title} that are not DuckDB's: {', '.join(wrong)}"
            raise AssertionError(message)

    def measure(self, state: str, target: tuple[float, float]) -> Iterator[Line]:
        """All queries; `target` of the mean and of the worst one."""
        began = time.perf_counter()
        asked = self.suite, self.lake, self.texts, self.size.rounds, self.tree
        queries = list(run_queries(*asked))
        state = f"SF {self.size.scale:g}, {state}"
        print(f"{self.suite.title}, {state}, {time.perf_counter() - began:.0f} s")
        print(table_of(queries), flush=True)
        for way in OURS:
            yield line_of(self.suite, queries, way, state, target)

    def compact(self) -> None:
        """Compact what has keys."""
        for name in self.suite.keys:
            self.lake.compact(f"{self.suite.name}.{name}", full=True)


@contextmanager
def bench(suite: Suite, size: Size) -> Iterator[Bench]:
    """Make rows, a session and the tables."""
    conf = {
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.ansi.enabled": "false",  # a ratio of no sales is NULL
    }
    with ExitStack() as stack:
        place = stack.enter_context(scratch())
        rows = make_rows(suite, place, size.scale)
        warehouse = {"spark.sql.warehouse.dir": str(place / "spark")}
        spark = ts.session("bench", master="local[2]", conf={**conf, **warehouse})
        stack.callback(spark.stop)
        lake = ts.attach(spark, str(place / "warehouse"))
        make_tables(suite, lake, rows, place)
        lake.sql(f"USE {suite.name}")
        yield Bench(suite, size, lake, rows, place, queries_of(rows), TreeCpu())
