"""Lookup joins on Spark: facts that each find a row of a dimension by its primary key.

The dimension is a table with a primary key in 4 buckets: a compacted run, and a commit of 2 % on
top. Each fact gets two of its columns, 56 bytes. Beside it Spark's own shuffle join of the same
facts with the same rows, which Spark itself wrote as Parquet. Both are written to nowhere. CPU
seconds of the JVM and its Python workers; and the keys that are looked up in a second, once the
lookup files are there and when they have to be made first.

Run by `python bench/run.py lookup-join [--size full]`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from kernel import Line, scratch
from measure import paired
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tree_cpu import TreeCpu

import tidelake.spark as ts

BUCKETS = 4
TOP_SHARE = 50
KEYS_A_SECOND = 100_000
CONF = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    keys: int
    facts: int
    rounds: int


SIZES = {"small": Size(20_000, 20_000, 1), "full": Size(2_000_000, 2_000_000, 5)}


def dimension_rows(keys: np.ndarray, mark: str) -> pa.Table:
    """Rows of a dimension by their keys."""
    texts = pa.array([f"{mark}-{key:012d}-{key * 7:018d}-{key % 97:04d}" for key in keys])
    columns = {
        "k": pa.array(keys),
        "name": texts,
        "price": pa.array(keys * 0.25),
        "kind": pa.array([f"kind-{key % 1000:06d}" for key in keys]),
    }
    return pa.table(columns)


def run(frame: DataFrame) -> None:
    """Have all of it made, and kept nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def answer(frame: DataFrame) -> tuple[object, ...]:
    """What two ways must agree on."""
    sums = [F.count("*"), F.count("name"), F.sum("n"), F.sum("price"), F.max("name")]
    return tuple(frame.agg(*sums).first())


def seconds(frame: DataFrame) -> float:
    """Of one run."""
    began = time.perf_counter()
    run(frame)
    return time.perf_counter() - began


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with scratch() as place:
        spark = ts.session("bench", master="local[2]", conf=CONF)
        try:
            lake = ts.attach(spark, place / "warehouse")
            schema = {"k": "BIGINT", "name": "STRING", "price": "DOUBLE", "kind": "STRING"}
            table = lake.catalog.create_table(
                "db.d", schema, primary_keys=["k"], options={"bucket": str(BUCKETS)}
            )
            keys = np.arange(size.keys, dtype=np.int64)
            table.write(dimension_rows(keys, "first"))
            table.compact(full=True)
            table.write(dimension_rows(keys[::TOP_SHARE], "newer"))
            native = str(place / "native")
            lake.table("db.d").write.parquet(native)
            drawn = (F.rand(1) * size.keys * 1.1).cast("bigint").alias("k")
            facts = spark.range(0, size.facts, 1, 2).select(drawn, F.col("id").alias("n"))
            facts = facts.withColumn("note", F.concat(F.lit("note-"), F.col("n").cast("string")))
            facts.write.parquet(str(place / "facts"))
            facts = spark.read.parquet(str(place / "facts"))
            looked_up = lake.lookup_join(facts, "db.d", on="k", columns=["name", "price"])
            dimension = spark.read.parquet(native).select("k", "name", "price")
            shuffled = facts.join(dimension, on="k", how="left")
            first = seconds(looked_up)
            if answer(looked_up) != answer(shuffled):
                message = f"{answer(looked_up)} is not {answer(shuffled)}"
                raise AssertionError(message)
            warm = min(seconds(looked_up) for _ in range(3))
            rate = size.facts / warm
            shape = f"{size.facts:,} facts, {size.keys:,} keys"
            yield Line(
                "lookup join",
                f"{shape}, local files, 2 cores",
                "",
                None,
                f">= {KEYS_A_SECOND:,} keys/s" + (", **missed**" if rate < KEYS_A_SECOND else ""),
                f"{rate:,.0f} keys/s; {size.facts / first:,.0f} with the files still to be made",
            )
            tree = TreeCpu()
            against = "Spark's shuffle join with Parquet"
            for name, frame in (("lookup join", looked_up), ("control", shuffled)):
                ratio = paired(
                    lambda frame=frame: run(frame),
                    lambda: run(shuffled),
                    rounds=size.rounds,
                    cpu=tree.seconds,
                )
                target = "<= 1.0" if name != "control" else "1.00"
                yield Line(name, shape, against, ratio, target)
        finally:
            spark.stop()
