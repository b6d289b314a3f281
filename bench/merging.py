"""MERGE of 2 % of a table's rows on Spark, beside the MERGE of other table formats.

Of the rows that come a tenth says that its key is to go, of the others some have keys that are
there and some have new ones: DELETE, UPDATE SET * and INSERT * in one statement. What is left is
compared with what the rows say, counted here.

Each engine has a process of its own, and all take their steps in turn: one load, then merge after
merge, of which the first warms the JVMs up and is not counted. The ratio beside an engine is of
merges of the same rows, one after the other. Two groups, because five JVMs of this size do not fit
the machine: `merging` (Java Paimon, Iceberg) and `merging-others` (Delta, Hudi). What is generated
is kept where TIDELAKE_BENCH_INPUTS says.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pipeline
import pyarrow.parquet as pq
from kernel import Line, scratch
from measure import ratio
from merging_peers import TITLES, fetched
from pipeline import Tape, Worker, check_agree, java_paimon, write_inputs

TARGET = "<= 1.0"
PAIMON = "Java Paimon 2.1 on Spark 4.1"
OURS = "tidelake"


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    base_rows: int
    warm_merges: int
    merges: int

    @property
    def inputs(self) -> pipeline.Size:
        """What is generated."""
        return pipeline.Size(self.base_rows, 1, self.warm_merges + self.merges)


SIZES = {"small": Size(20_000, 1, 2), "full": Size(5_000_000, 1, 3)}


def expected(data: Path, merges: int) -> list[str]:
    """Number and sum of the keys after all merges."""
    keys: set[int] = set()
    for part in sorted((data / "base").iterdir()):
        keys.update(pq.read_table(part, columns=["k"])["k"].to_pylist())
    for number in range(1, merges + 1):
        rows = pq.read_table(data / f"upsert-{number}", columns=["k", "_row_kind"])
        for key, kind in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if kind == "-D":
                keys.discard(key)
            else:
                keys.add(key)
    return [str(len(keys)), str(sum(keys))]


def run(workers: dict[str, Worker], data: Path, size: Size) -> dict[str, Tape]:
    """A load, then the merges; the engines in turn. A peer that fails is left out, and said so."""
    tapes = {name: Tape() for name in workers}

    def take(step: str, *command: object, counted: bool = True) -> dict[str, object]:
        answers = {}
        for engine, worker in list(workers.items()):
            try:
                figures = worker.do(*command)
            except (RuntimeError, BrokenPipeError) as error:
                if engine == OURS:
                    raise
                print(f"  {engine} takes no further part: {error}", file=sys.stderr, flush=True)
                workers.pop(engine).close()
                del tapes[engine]
                continue
            if counted:
                tapes[engine].add(step, figures)
            answers[engine] = figures["answer"]
            print(
                f"  {step} {command[1:]} {engine}: {figures['cpu']:.1f} s CPU,"
                f" {figures['wall']:.1f} s{'' if counted else ' (not counted)'}",
                file=sys.stderr,
                flush=True,
            )
        return answers

    take("load", "load", 0)
    count = size.warm_merges + size.merges
    for number in range(1, count + 1):
        take("merge", "merge", number, counted=number > size.warm_merges)
    answers = take("scan", "scan")
    check_agree(answers, "after the merges")
    wanted = expected(data, count)
    for engine, answer in answers.items():
        if answer[:2] != wanted:
            found = json.dumps(answer[:2])
            raise AssertionError(f"{engine} has {found} after the merges, not {wanted}")
    return tapes


def _workers(place: Path, data: Path, peers: Sequence[str]) -> dict[str, Worker]:
    """Ours, and those peers that can be had, by their titles; they start side by side."""
    commands = {OURS: (sys.executable, "tidelake", place, data)}
    for name in peers:
        if name == "paimon":
            java = java_paimon()
            if java is not None:
                commands[PAIMON] = (java[0], "paimon", place, data, java[1])
            continue
        peer = fetched(name)
        if peer is not None:
            commands[TITLES[name]] = (peer[0], name, place, data, *peer[1])
    with ThreadPoolExecutor() as pool:
        workers = pool.map(lambda command: Worker(*command), commands.values())
    return dict(zip(commands, workers, strict=True))


@contextmanager
def _inputs(size: Size) -> Iterator[Path]:
    """The generated rows."""
    kept = os.environ.get("TIDELAKE_BENCH_INPUTS")
    with scratch() as place:
        data = Path(kept) / str(size.base_rows) if kept else place
        if not (data / f"upsert-{size.inputs.upserts}").exists():
            write_inputs(data, size.inputs)
        yield data


def _lines(size_name: str, peers: Sequence[str]) -> Iterator[Line]:
    size = SIZES[size_name]
    with scratch() as place, _inputs(size) as data:
        workers = _workers(place, data, peers if size_name == "full" else ())
        try:
            tapes = run(workers, data, size)
        finally:
            for worker in workers.values():
                worker.close()
    what = f"Spark, {size.base_rows:,} rows: MERGE of 2 %, {OURS}"
    ours = tapes.pop(OURS)
    said = f"{statistics.median(ours.cpu['merge']):.1f} s CPU"
    if not tapes:
        yield Line("W2", what, "no peer asked", None, "", said)
    for engine, tape in tapes.items():
        walls = [a / b for a, b in zip(ours.wall["merge"], tape.wall["merge"], strict=True)]
        beside = ratio(ours.cpu["merge"], tape.cpu["merge"], walls)
        theirs = f"{engine}, the same rows: {statistics.median(tape.cpu['merge']):.1f} s CPU"
        yield Line("W2", f"{what}: {said}", theirs, beside, TARGET)


def lines(size_name: str) -> Iterator[Line]:
    """Beside Java Paimon and Iceberg."""
    return _lines(size_name, ("paimon", "iceberg"))


def other_lines(size_name: str) -> Iterator[Line]:
    """Beside Delta and Hudi."""
    return _lines(size_name, ("delta", "hudi"))
