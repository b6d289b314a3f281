"""The suites of `tpc.py` beside other table formats, each over plain Parquet of its own Spark.

Delta (deletion vectors), Iceberg and Hudi (merge on read) and Java Paimon run on the newest Spark
that they support, one after the other, each in a process of its own (`tpc_worker.py`), on the same
rows; so does ours, by `spark.sql`. The ratio of an engine is that of its wall seconds and those of
plain Parquet in the same session, in turn: engines are compared by these ratios.

Run by `python bench/run.py tpch-peers tpcds-peers [--size full]`. TPC_PLACE names a directory where
the rows are kept, and what each peer took: it is asked once. TPC_PEERS names some engines
(`delta,iceberg`), TPC_QUERIES some queries, TPC_SCALE another scale factor.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kernel import Line, scratch
from measure import Ratio, geometric
from merging_peers import fetched
from pipeline import java_paimon
from tpc import Size, make_rows
from tpc_suites import TPCDS, TPCH, Suite

HERE = Path(__file__).resolve().parent
OURS = "tidelake"
TITLES = {
    OURS: "tidelake on Spark 4.3",
    "iceberg": "Iceberg 1.12, merge on read, Spark 4.1",
    "delta": "Delta 4.4, deletion vectors, Spark 4.1",
    "paimon": "Java Paimon 2.1, Spark 4.1",
    "hudi": "Hudi 1.2, merge on read, Spark 3.5",
}
AHEAD_MIN = 0.8
"""Of the queries, in which ours should be ahead."""
SECONDS_MAX = 3600


SIZES = {"small": (0.01, 1), "full": (1, 3)}
Pairs = list[tuple[float, float]]


@dataclass
class Found:
    """What one engine took: CPU and wall seconds."""

    upserts: dict[str, Pairs] = field(default_factory=dict)
    queries: dict[str, tuple[Pairs, Pairs]] = field(default_factory=dict)

    def ratios(self, kind: int) -> dict[str, float]:
        """The median of each query's ratios: of CPU (0) or wall (1)."""
        return {
            query: statistics.median(a[kind] / b[kind] for a, b in zip(own, plain, strict=True))
            for query, (own, plain) in self.queries.items()
        }

    def seconds(self, side: int) -> float:
        """CPU seconds of all queries, its own (0) or plain (1)."""
        return sum(statistics.median(c for c, _ in pair[side]) for pair in self.queries.values())


def command(engine: str) -> list[str] | None:
    """Python of an engine and its jars; None where they cannot be had."""
    if engine == OURS:
        return [sys.executable]
    if engine == "paimon":
        java = java_paimon()
        return None if java is None else list(java)
    peer = fetched(engine)
    return None if peer is None else [peer[0], *peer[1]]


def run(suite: Suite, engine: str, place: Path, rows: Path, rounds: int) -> Found | None:
    """Run one engine; None, with a word, if it fails."""
    made = command(engine)
    if made is None:
        return None
    python, *jars = made
    found = Found()
    call = [python, HERE / "tpc_worker.py", suite.name, engine, place, rows, str(rounds), *jars]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            if said["step"] == "query":
                found.queries[said["query"]] = (said["own"], said["plain"])
            elif said["step"] == "upsert":
                found.upserts.setdefault(said["table"], []).append(said["taken"])
        if process.wait(SECONDS_MAX) == 0:
            return found
        errors.seek(0)
        last = "\n".join(errors.read().splitlines()[-8:])
    if engine == OURS:
        raise RuntimeError(last)
    print(f"  {TITLES[engine]} takes no part: {last}", file=sys.stderr, flush=True)
    return None


def kept_or_run(suite: Suite, engine: str, place: Path, rows: Path, rounds: int) -> Found | None:
    """What a peer took, from an earlier run on the same rows if there was one."""
    kept = rows / f"{engine}-{rounds}.json"
    if "TPC_PLACE" not in os.environ or "TPC_QUERIES" in os.environ:
        return run(suite, engine, place, rows, rounds)
    if kept.exists():
        return Found(**json.loads(kept.read_text()))
    found = run(suite, engine, place, rows, rounds)
    if found is not None:
        kept.write_text(json.dumps(asdict(found)))
    return found


def line_of(suite: Suite, what: str, title: str, found: Found, target: str) -> Line:
    """The queries of an engine over its own plain Parquet."""
    cpu, wall = found.ratios(0), found.ratios(1)
    worst = max(wall, key=wall.__getitem__)
    upserts = ", ".join(
        f"{table} {statistics.median(w for _, w in pairs):.1f} s"
        for table, pairs in found.upserts.items()
    )
    ratio = Ratio(
        median=geometric(list(cpu.values())),
        low=min(cpu.values()),
        high=max(cpu.values()),
        wall_median=geometric(list(wall.values())),
        a_cpu_seconds=found.seconds(0),
        b_cpu_seconds=found.seconds(1),
    )
    said = f"{what}: {title}; worst by wall {worst} {wall[worst]:.2f}; an upsert: {upserts}"
    return Line(suite.title, said, "plain Parquet of its own Spark", ratio, target)


def lines_of(suite: Suite, size_name: str) -> Iterator[Line]:
    """All lines of a suite."""
    size = Size.asked(*SIZES[size_name])
    asked = os.environ.get("TPC_PEERS", "iceberg,delta,paimon,hudi").split(",")
    if size_name == "small" and "TPC_PEERS" not in os.environ:
        asked = []
    with scratch() as place:
        rows = make_rows(suite, place, size.scale)
        ours = run(suite, OURS, place / OURS, rows, size.rounds)
        assert ours is not None
        own = ours.ratios(1)
        what = f"SF {size.scale:g}, 3 upserts of 2 %, {len(own)} queries"
        yield line_of(suite, what, TITLES[OURS], ours, "")
        for engine in asked:
            found = kept_or_run(suite, engine, place / engine, rows, size.rounds)
            if found is None:
                continue
            theirs = found.ratios(1)
            ahead, wanted = sum(own[q] < theirs[q] for q in own), math.ceil(AHEAD_MIN * len(own))
            missed = "" if ahead >= wanted else " **missed**"
            target = f"ours ahead in {ahead} of {len(own)}, >= {wanted}{missed}"
            yield line_of(suite, what, TITLES[engine], found, target)


def tpch_lines(size_name: str) -> Iterator[Line]:
    """TPC-H."""
    yield from lines_of(TPCH, size_name)


def tpcds_lines(size_name: str) -> Iterator[Line]:
    """TPC-DS."""
    yield from lines_of(TPCDS, size_name)
