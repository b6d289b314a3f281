"""A feed of changes into a table on Spark: `tl.apply_changes` beside MERGE INTO of the same feed.

A table of one bucket of base rows, then feed after feed: 2 % of its keys, a tenth deletes, a fifth
of the others new keys, one change for each key, in order. That is all that MERGE INTO can take: it
has no answer to late or doubled changes, for which `tl.apply_changes` keeps a second table and
looks in it. Both write the same rows, which are compared at the end.

1. Type 1: MERGE with DELETE, UPDATE SET * and INSERT *.
2. Type 2: the usual MERGE of a history, whose source has each update twice: to end a version, and
   to begin one.

CPU seconds of the JVM and its Python workers. Run by
`python bench/run.py change-feeds [--size full]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rows
from kernel import Line, scratch
from measure import paired
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tree_cpu import TreeCpu

import tidelake.spark as ts

CONF = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}
COLUMNS = ["k", "s20", "d", "i", "m"]
OPTIONS = {"bucket": "1"}
GIVEN = {
    "keys": ["k"],
    "sequence_by": "n",
    "apply_as_deletes": "op = 'D'",
    "options": OPTIONS,
}
MERGE_1 = """
MERGE INTO {table} t USING {feed} s ON t.k = s.k
WHEN MATCHED AND s.op = 'D' THEN DELETE
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT (k, s20, d, i, m, n)
  VALUES (s.k, s.s20, s.d, s.i, s.m, s.n)
"""
MERGE_2 = """
MERGE INTO {table} t
USING (
  SELECT k AS at, * FROM {feed}
  UNION ALL SELECT NULL AS at, * FROM {feed} WHERE op <> 'D'
) s ON t.k = s.at AND t.`__END_AT` IS NULL
WHEN MATCHED THEN UPDATE SET `__END_AT` = s.n
WHEN NOT MATCHED AND s.at IS NULL THEN INSERT (k, s20, d, i, m, `__START_AT`, `__END_AT`)
  VALUES (s.k, s.s20, s.d, s.i, s.m, s.n, NULL)
"""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    base_rows: int
    rounds: int

    @property
    def feeds(self) -> int:
        """One for the base, one that warms up, one for each round."""
        return self.rounds + 2


SIZES = {"small": Size(20_000, 1), "full": Size(2_000_000, 5)}


def write_feeds(place: Path, size: Size) -> None:
    """The feeds as Parquet, each with a later sequence; a delete is of a key that is there."""
    here = rows.shuffled_keys(size.base_rows, 1)
    alive = np.sort(here)
    fresh = itertools.count(1, 2)
    for number in range(size.feeds):
        rng = np.random.default_rng(number)
        count = size.base_rows // 50
        deletes = 0
        if number == 0:
            keys = here
        else:
            deletes = count // 10
            new = np.fromiter(itertools.islice(fresh, count // 5), np.int64)
            known = rng.choice(alive, count - len(new), replace=False)
            keys = np.concatenate([known, new])
            alive = np.setdiff1d(np.concatenate([alive, new]), known[:deletes])
        kinds = np.array(["U"] * len(keys), dtype=object)
        kinds[:deletes] = "D"
        made = rows.with_key(keys, 100 + number).select(COLUMNS)
        made = made.append_column("n", pa.array(np.full(len(keys), number, np.int64)))
        made = made.append_column("op", pa.array(kinds, pa.string()))
        (place / f"feed-{number}").mkdir(parents=True)
        pq.write_table(made, place / f"feed-{number}" / "part-0.parquet")


class Feeds:
    """Two tables that take the same feeds, one by each way."""

    def __init__(self, spark: SparkSession, lake: ts.Lake, place: Path, scd_type: int) -> None:
        self.spark, self.lake, self.place, self.scd_type = spark, lake, place, scd_type
        self.applied, self.merged = f"db.applied{scd_type}", f"db.merged{scd_type}"
        self.next = {self.applied: 1, self.merged: 1}
        # type 1 keeps its sequence beside the values; type 2 has it as the start of a version
        self.given = {**GIVEN, "except_columns": ["op"] if scd_type == 1 else ["op", "n"]}
        self.apply_feed(0, self.applied)
        self.apply_feed(0, self.merged)

    def feed(self, number: int) -> DataFrame:
        return self.spark.read.parquet(str(self.place / f"feed-{number}"))

    def apply_feed(self, number: int, table: str) -> None:
        given = {**self.given, "scd_type": self.scd_type}
        self.lake.apply_changes(self.feed(number), table, **given)

    def apply(self) -> None:
        """The next feed by `tl.apply_changes`."""
        self.apply_feed(self._number(self.applied), self.applied)

    def merge(self) -> None:
        """The next feed by MERGE INTO."""
        self.feed(self._number(self.merged)).createOrReplaceTempView("feed")
        text = MERGE_1 if self.scd_type == 1 else MERGE_2
        self.lake.sql(text.format(table=self.merged, feed="feed")).collect()

    def _number(self, table: str) -> int:
        number = self.next[table]
        self.next[table] += 1
        return number

    def answer(self, table: str) -> tuple[object, ...]:
        """What the rows of a table come to."""
        frame = self.lake.table(table)
        sums = [F.sum(F.xxhash64(*sorted(frame.columns)).cast("decimal(38,0)")), F.count("*")]
        return tuple(frame.agg(*sums).first())


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with scratch() as place:
        write_feeds(place, size)
        spark = ts.session("bench", master="local[2]", conf=CONF)
        try:
            lake = ts.attach(spark, place / "warehouse")
            tree = TreeCpu()
            for scd_type in (1, 2):
                feeds = Feeds(spark, lake, place, scd_type)
                ways: tuple[Callable[[], None], ...] = (feeds.apply, feeds.merge)
                found = paired(*ways, rounds=size.rounds, cpu=tree.seconds)
                answers = feeds.answer(feeds.applied), feeds.answer(feeds.merged)
                if answers[0] != answers[1]:
                    message = f"type {scd_type}: {answers[0]} is not {answers[1]}"
                    raise AssertionError(message)
                what = f"feed of 2 % into {size.base_rows:,} rows, type {scd_type}"
                took = f"{found.a_cpu_seconds:.1f} beside {found.b_cpu_seconds:.1f} s CPU"
                against = f"MERGE INTO of the same feed: {took}"
                yield Line("change feeds", f"{what}, tl.apply_changes", against, found, "")
        finally:
            spark.stop()
