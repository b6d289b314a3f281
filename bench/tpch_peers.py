"""TPC-H of `tpch.py` beside other table formats, each over plain Parquet of its own Spark.

Delta (deletion vectors), Iceberg and Hudi (merge on read) and Java Paimon run on the newest Spark
that they support, one after the other, each in a process of its own (`tpch_worker.py`), on the same
rows; so does ours, by `spark.sql`. The ratio of an engine is that of its wall seconds and those of
plain Parquet in the same session, in turn: engines are compared by these ratios.

Run by `python bench/run.py tpch-peers [--size full]`. TPCH_PLACE names a directory where the rows
are kept, and what each peer took: it is asked once. TPCH_PEERS names some engines
(`delta,iceberg`), TPCH_QUERIES some queries, TPCH_SCALE another scale factor.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kernel import Line, scratch
from measure import Ratio, geometric
from merging_peers import fetched
from pipeline import java_paimon
from tpch import make_rows

HERE = Path(__file__).resolve().parent
OURS = "tidelake"
TITLES = {
    OURS: "tidelake on Spark 4.3",
    "iceberg": "Iceberg 1.12, merge on read, Spark 4.1",
    "delta": "Delta 4.4, deletion vectors, Spark 4.1",
    "paimon": "Java Paimon 2.1, Spark 4.1",
    "hudi": "Hudi 1.2, merge on read, Spark 3.5",
}
AHEAD_MIN = 18
SECONDS_MAX = 3600


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    scale: float
    rounds: int


SIZES = {"small": Size(0.01, 1), "full": Size(1, 3)}
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


def run(engine: str, place: Path, rows: Path, rounds: int) -> Found | None:
    """Run one engine; None, with a word, if it fails."""
    made = command(engine)
    if made is None:
        return None
    python, *jars = made
    found = Found()
    call = [python, HERE / "tpch_worker.py", engine, place, rows, str(rounds), *jars]
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


def kept_or_run(engine: str, place: Path, rows: Path, rounds: int) -> Found | None:
    """What a peer took, from an earlier run on the same rows if there was one."""
    kept = rows / f"{engine}-{rounds}.json"
    if "TPCH_PLACE" not in os.environ or "TPCH_QUERIES" in os.environ:
        return run(engine, place, rows, rounds)
    if kept.exists():
        return Found(**json.loads(kept.read_text()))
    found = run(engine, place, rows, rounds)
    if found is not None:
        kept.write_text(json.dumps(asdict(found)))
    return found


def line_of(what: str, title: str, found: Found, target: str) -> Line:
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
    return Line("TPC-H", said, "plain Parquet of its own Spark", ratio, target)


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    scale = float(os.environ.get("TPCH_SCALE", size.scale))
    asked = os.environ.get("TPCH_PEERS", "iceberg,delta,paimon,hudi").split(",")
    if size_name == "small" and "TPCH_PEERS" not in os.environ:
        asked = []
    what = f"SF {scale:g}, 3 upserts of 2 %"
    with ExitStack() as stack:
        place = stack.enter_context(scratch())
        kept = os.environ.get("TPCH_PLACE")
        rows = make_rows(Path(kept) if kept else place, scale)
        ours = run(OURS, place / OURS, rows, size.rounds)
        assert ours is not None
        what = f"{what}, {len(ours.queries)} queries"
        yield line_of(what, TITLES[OURS], ours, "")
        own = ours.ratios(1)
        for engine in asked:
            found = kept_or_run(engine, place / engine, rows, size.rounds)
            if found is None:
                continue
            theirs = found.ratios(1)
            ahead = sum(own[query] < theirs[query] for query in own)
            missed = "" if ahead >= AHEAD_MIN else " **missed**"
            target = f"ours ahead in {ahead} of {len(own)}, >= {AHEAD_MIN}{missed}"
            yield line_of(what, TITLES[engine], found, target)
