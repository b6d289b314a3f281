"""MERGE of 2 % of a table's rows on Spark; beside Java Paimon's MERGE and Spark's sort.

Of the rows that come a tenth says that its key is to go, of the others some have keys that are
there and some have new ones: DELETE, UPDATE SET * and INSERT * in one statement. What is left is
compared with what the rows say, counted here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from kernel import Line, scratch
from pipeline import SIZES, Size, Tape, Worker, check_agree, java_paimon, ratio, write_inputs

TARGET = "<= 1.0"


def expected(data: Path, size: Size) -> list[str]:
    """Number and sum of the keys after all merges."""
    keys: set[int] = set()
    for part in sorted((data / "base").iterdir()):
        keys.update(pq.read_table(part, columns=["k"])["k"].to_pylist())
    for number in range(1, size.upserts + 1):
        rows = pq.read_table(data / f"upsert-{number}", columns=["k", "_row_kind"])
        for key, kind in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            if kind == "-D":
                keys.discard(key)
            else:
                keys.add(key)
    return [str(len(keys)), str(sum(keys))]


def run_rounds(workers: dict[str, Worker], data: Path, size: Size) -> dict[str, Tape]:
    """Loads, then merges, the engines in turn."""
    tapes = {name: Tape() for name in workers}
    wanted = expected(data, size)
    for number in range(size.rounds + 1):  # round 0 warms up
        for step, commands in (
            ("sort_write", [("sort_write",)]),
            ("load", [("load", number)]),
            ("merge", [("merge", n) for n in range(1, size.upserts + 1)]),
        ):
            for command in commands:
                for engine, worker in workers.items():
                    figures = worker.do(*command)
                    if number:
                        tapes[engine].add(step, figures)
        answers = {engine: worker.do("scan")["answer"] for engine, worker in workers.items()}
        check_agree(answers, "after the merges")
        for engine, answer in answers.items():
            if answer[:2] != wanted:
                found = json.dumps(answer[:2])
                raise AssertionError(f"{engine} has {found} after the merges, not {wanted}")
    return tapes


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with scratch() as place:
        data = place / "data"
        write_inputs(data, size)
        workers = {"tidelake": Worker(sys.executable, "tidelake", place, data)}
        java = java_paimon()
        if java is not None and size_name == "full":
            workers["Java Paimon"] = Worker(java[0], "paimon", place, data, java[1])
        try:
            tapes = run_rounds(workers, data, size)
        finally:
            for worker in workers.values():
                worker.close()
    what = f"Spark, {size.base_rows:,} rows: MERGE of 2 %"
    for engine, tape in tapes.items():
        against = "Spark repartition + sort + write of all rows"
        yield Line("W2", f"{what}, {engine}", against, tape.ratio("merge", "sort_write"), "")
    if len(tapes) > 1:
        ours, java_tape = tapes["tidelake"], tapes["Java Paimon"]
        paired = ratio(
            ours.cpu["merge"],
            java_tape.cpu["merge"],
            [a / b for a, b in zip(ours.wall["merge"], java_tape.wall["merge"], strict=True)],
        )
        yield Line("W2", f"{what}, tidelake", "Java Paimon's MERGE", paired, TARGET)
