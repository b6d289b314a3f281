"""W2, W3, W4 on Spark: load, upserts, scans, compaction; beside Spark's own limits and Java Paimon.

Two workers (ours on Spark 4.3, Java Paimon on Spark 4.1) take their steps in turn. Each step is
divided by the same engine's own limit in the same process: Spark's repartition + sort + write for
load, upsert and compaction, Spark's native Parquet scan of the very same files for scans.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rows
from kernel import Line, scratch
from measure import Ratio, ratio

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCANS = 4
"""Scans of each kind in a round."""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    base_rows: int
    rounds: int
    upserts: int = 5


SIZES = {"small": Size(20_000, 1, 2), "full": Size(5_000_000, 3)}


def write_inputs(place: Path, size: Size) -> None:
    """The rows both engines read: the base in 4 files, then upserts of 2 % with 0.2 % deletes."""
    keys = rows.shuffled_keys(size.base_rows, 1)
    (place / "base").mkdir(parents=True)
    for part, chunk in enumerate(np.array_split(keys, 4)):
        pq.write_table(rows.with_key(chunk, 100 + part), place / "base" / f"part-{part}.parquet")
    for number in range(1, size.upserts + 1):
        count = size.base_rows // 50
        upserted = rows.upsert_keys(size.base_rows, count, 200 + number)
        table = rows.with_key(upserted, 300 + number)
        kinds = np.array(["+I"] * count, dtype=object)
        kinds[: count // 10] = "-D"
        (place / f"upsert-{number}").mkdir()
        pq.write_table(
            table.append_column("_row_kind", pa.array(kinds, pa.string())),
            place / f"upsert-{number}" / "part-0.parquet",
        )


class Worker:
    """One engine in its own process and virtualenv."""

    script = "pipeline_worker.py"

    def __init__(self, python: str, engine: str, work: Path, data: Path, *extra: str) -> None:
        self.process = subprocess.Popen(
            [python, str(HERE / self.script), engine, str(work), str(data), *extra],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
        )
        self._read()

    def _read(self) -> dict:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"a benchmark worker ended with exit code {self.process.wait()}")

    def do(self, *command: object) -> dict:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def java_paimon() -> tuple[str, str] | None:
    """Python of the oracle's virtualenv and the jar, where both are here."""
    python = ROOT / ".venv-oracle" / "spark41" / "bin" / "python"
    jars = sorted((ROOT.parent / "shared" / "oracle").glob("paimon-spark-4.1*.jar"))
    return (str(python), str(jars[0])) if python.exists() and jars else None


class Tape:
    """Figures of one engine, by step."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = {}
        self.wall: dict[str, list[float]] = {}

    def add(self, step: str, figures: dict) -> None:
        self.cpu.setdefault(step, []).append(figures["cpu"])
        self.wall.setdefault(step, []).append(figures["wall"])

    def ratio(self, step: str, limit: str) -> Ratio:
        count = len(self.cpu[step])
        median_cpu = statistics.median(self.cpu[limit])
        median_wall = statistics.median(self.wall[limit])
        limits = self.cpu[limit] if len(self.cpu[limit]) == count else [median_cpu] * count
        return ratio(self.cpu[step], limits, [w / median_wall for w in self.wall[step]])


class Rounds:
    """Gives the workers each step in turn and keeps the figures of the counted rounds."""

    def __init__(self, workers: dict[str, Worker]) -> None:
        self.workers = workers
        self.tapes = {name: Tape() for name in workers}
        self.counted = False

    def take(self, label: str, *command: object) -> dict[str, object]:
        """One step on every engine; the answers."""
        answers = {}
        for engine, worker in self.workers.items():
            figures = worker.do(*command)
            if self.counted:
                self.tapes[engine].add(label, figures)
            answers[engine] = figures["answer"]
        return answers

    def scans(self, kind: str) -> dict[str, object]:
        """Each engine's scan and Spark's own scan of its files, either of them first in turn."""
        files = {engine: worker.do("files")["answer"] for engine, worker in self.workers.items()}
        answers: dict[str, object] = {}
        for number in range(SCANS):
            if number % 2:
                self._scan_plain(kind, files)
            answers = self.take(f"scan_{kind}", "scan")
            if not number % 2:
                self._scan_plain(kind, files)
        return answers

    def _scan_plain(self, kind: str, files: dict[str, object]) -> None:
        for engine, worker in self.workers.items():
            figures = worker.do("scan_plain", files[engine])
            if self.counted:
                self.tapes[engine].add(f"limit_{kind}", figures)


def run_rounds(workers: dict[str, Worker], size: Size) -> dict[str, Tape]:
    """All steps, the engines in turn; answers of the engines must agree."""
    rounds = Rounds(workers)
    for number in range(size.rounds + 1):
        rounds.counted = number > 0  # round 0 warms up
        rounds.take("sort_write", "sort_write")
        rounds.take("load", "load", number)
        rounds.scans("raw")
        for upsert in range(1, size.upserts + 1):
            rounds.take("upsert", "upsert", upsert)
        merged = rounds.scans("merged")
        check_agree(merged, "after the upserts")
        rounds.take("compact", "compact")
        compacted = rounds.scans("compacted")
        check_agree(compacted, "after the compaction")
        for engine, answer in compacted.items():
            if without_doubles(answer) != without_doubles(merged[engine]):
                found = f"{merged[engine]} became {answer}"
                raise AssertionError(f"the compaction of {engine} has changed the rows: {found}")
    return rounds.tapes


def without_doubles(answer: list[str]) -> list[str]:
    """The answer without the sum of doubles, which depends on the order of the rows."""
    return [*answer[:4], *answer[5:]]


def check_agree(answers: dict[str, object], when: str) -> None:
    """See that all engines give the same rows."""
    found = {json.dumps(answer[:3]) for answer in answers.values()}
    if len(found) != 1:
        raise AssertionError(f"the engines disagree {when}: {found}")


LINES = [
    ("W2", "load", "sort_write", "Spark repartition + sort + write", "<= 1.15"),
    ("W2", "upsert", "sort_write", "Spark repartition + sort + write", "<= 0.30"),
    ("W3", "scan_raw", "limit_raw", "native Parquet scan of the same files", "<= 1.05"),
    ("W3", "scan_merged", "limit_merged", "native Parquet scan of the same files", "<= 1.25"),
    ("W4", "compact", "sort_write", "Spark repartition + sort + write", "<= 0.6"),
    ("W4", "scan_compacted", "limit_compacted", "native Parquet scan of the same files", "<= 1.0"),
]


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with scratch() as place:
        write_inputs(place / "data", size)
        workers = {"tidelake": Worker(sys.executable, "tidelake", place, place / "data")}
        java = java_paimon()
        if java is not None and size_name == "full":
            workers["Java Paimon"] = Worker(java[0], "paimon", place, place / "data", java[1])
        try:
            tapes = run_rounds(workers, size)
        finally:
            for worker in workers.values():
                worker.close()
    for workload, step, limit, against, target in LINES:
        for engine, tape in tapes.items():
            what = f"Spark, {size.base_rows:,} rows: {step.replace('_', ' ')}, {engine}"
            yield Line(
                workload,
                what,
                against,
                tape.ratio(step, limit),
                target if engine == "tidelake" else "",
            )
