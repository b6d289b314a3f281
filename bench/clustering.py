"""Clustering: a z-order of two columns, beside Spark's own range partition, sort and write.

The reference does less: it sorts by the two columns, one after the other, without a curve. Both
read the table's files, and write Parquet with the same codec. Then a box of 1 % of the rows is
planned: the share of the bytes that its files have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import rows
from kernel import Line, scratch
from measure import Ratio, ratio, timed
from pyspark.sql import SparkSession
from tree_cpu import TreeCpu

import tidelake
import tidelake.spark as ts

ROWS = {"small": 40_000, "full": 5_000_000}
ROUNDS = {"small": 1, "full": 3}
PARTS = 4
FILE = {"small": "64 kb", "full": "8 mb"}
COLUMNS = ("i", "t")
BOX = "i between 0 and 429496729 and t >= timestamp '1988-12-04' and t < timestamp '1995-04-06'"
"""A tenth of each column's range."""
WHAT = "z-order of {:,} rows on 2 columns, {}"


def lines(size: str) -> Iterator[Line]:
    """The lines of this question."""
    count = ROWS[size]
    with scratch() as place:
        table = _made(place, count, FILE[size])
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.memory", "4g").config("spark.log.level", "ERROR")
        spark = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
        try:
            lake = ts.attach(spark, str(place / "w"))
            cpu = TreeCpu()
            files = _files(table)

            def limit() -> None:
                out = place / "sorted"
                shutil.rmtree(out, ignore_errors=True)
                frame = spark.read.parquet(*files).repartitionByRange(*COLUMNS)
                frame = frame.sortWithinPartitions(*COLUMNS)
                frame.write.option("compression", "zstd").parquet(str(out))

            def here() -> None:
                table.compact(order="zorder", by=COLUMNS)

            def on_spark() -> None:
                lake.compact("db.t", order="zorder", by=COLUMNS)

            for name, work in (("one process", here), ("on Spark", on_spark)):
                found = _paired(work, limit, table, cpu, rounds=ROUNDS[size])
                yield Line(
                    "W6",
                    WHAT.format(count, name),
                    "Spark's range partition, sort, write",
                    found,
                    "<= 1.5",
                )
            table.compact(order="zorder", by=COLUMNS)
            share = _bytes(table, where=BOX) / _bytes(table)
            kept = table.count(where=BOX) / count
            note = f"{share:.1%} of the bytes, in files of {FILE[size]} ({kept:.2%} of the rows)"
            yield Line("W6", "a box of 1 % after it reads", "the table", None, "<= 20 %", note)
        finally:
            spark.stop()


def _paired(
    ours: Callable[[], None],
    limit: Callable[[], None],
    table: tidelake.Table,
    cpu: TreeCpu,
    *,
    rounds: int,
) -> Ratio:
    """Each in turn, from the same files; the first round warms up."""
    before = table.latest_snapshot_id
    taken: dict[str, list[tuple[float, float]]] = {"ours": [], "limit": []}
    for number in range(rounds + 1):
        pairs = [("ours", ours), ("limit", limit)]
        for name, work in pairs[:: 1 if number % 2 else -1]:
            taken[name].append(timed(work, cpu.seconds))
            if name == "ours":
                table.rollback_to(before)
    own, theirs = taken["ours"][1:], taken["limit"][1:]
    walls = [a[1] / b[1] for a, b in zip(own, theirs, strict=True)]
    return ratio([a[0] for a in own], [b[0] for b in theirs], walls)


def _made(place: Path, count: int, file_bytes: str) -> tidelake.Table:
    options = {"target-file-size": file_bytes, "write-only": True}
    catalog = tidelake.open(str(place / "w"))
    parts = [rows.with_key(k, n) for n, k in enumerate(_keys(count))]
    table = catalog.create_table("db.t", parts[0].schema, options=options)
    for part in parts:
        table.write(part)
    return table


def _keys(count: int) -> Iterator:
    keys = rows.shuffled_keys(count, 1)
    for number in range(PARTS):
        yield keys[number::PARTS]


def _files(table: tidelake.Table) -> list[str]:
    return [
        table.paths.data_file(split.partition, split.bucket, file)
        for split in table.plan().splits
        for file in split.files
    ]


def _bytes(table: tidelake.Table, **scan: str) -> int:
    return sum(split.size_bytes for split in table.plan(**scan).splits)
