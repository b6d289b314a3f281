"""The streams of the second act: events of three topics into the board, its changes into delays.

1. The events of all topics become rows of the board, one query. Each topic has a watermark, by the
   stamp of its records; the board's snapshots carry the least of the three.
2. A second query follows the changelog of the board and keeps the sums of the delays.

Run as a program it is what a cluster would run for ever: it may be killed at any moment, and goes
on from its checkpoints when it is started again. With ``--ends`` it reads all that is there, and
ends.

Usage: python stream_job.py WAREHOUSE CHECKPOINTS [--kafka SERVERS] [--prefix PREFIX] [--ends]
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import streams
from data import KEY
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from topics import AT_ONCE, KafkaTopics, TableTopics, Topics

import tidelake.spark
from tidelake.spark import Lake

BOARD, DELAYS = "air.board", "air.delays"
LATENESS = "1 day"
"""How far the records of a topic may be behind its newest before the watermark passes them."""
CONF = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}


def fill_board(lake: Lake, topics: Topics, checkpoints: Path, *, ends: bool) -> StreamingQuery:
    """Start the query that fills the board from all topics."""
    events = [
        topics.stream(lake, name).withWatermark(stamp, LATENESS)
        for name, (_, stamp) in streams.STREAMS.items()
    ]
    rows = functools.reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True), events
    )
    return _written(lake, rows, BOARD, checkpoints, ends=ends)


def keep_delays(lake: Lake, checkpoints: Path, *, ends: bool) -> StreamingQuery:
    """Start the query that keeps the sums: a row that came adds, one that went takes back."""
    columns = ["carrier", "month", "day", "distance", "dep_delay", "arr_delay"]
    changes = lake.read_stream(BOARD, columns=columns, where="state = 'planned'", options=AT_ONCE)
    return _written(lake, contributions(changes), DELAYS, checkpoints, ends=ends)


def contributions(changes: DataFrame) -> DataFrame:
    """What each changed flight adds to its carrier's day, or takes back from it."""
    return changes.selectExpr(
        "carrier",
        "month",
        "day",
        "1L AS flights",
        "bigint(distance) AS miles",
        "bigint(dep_delay IS NOT NULL) AS departed",
        "bigint(coalesce(dep_delay, 0)) AS dep_minutes",
        "bigint(arr_delay IS NOT NULL) AS landed",
        "bigint(coalesce(arr_delay, 0)) AS arr_minutes",
        "dep_delay AS worst",
        "IF(_row_kind IN ('+I', '+U'), '+I', '-D') AS _row_kind",
    )


def _written(
    lake: Lake, rows: DataFrame, name: str, checkpoints: Path, *, ends: bool
) -> StreamingQuery:
    known = set(rows.columns)
    missing = [f for f in lake.catalog.table(name).table_schema.fields if f.name not in known]
    assert not {f.name for f in missing} & set(KEY)
    rows = rows.withColumns({f.name: F.lit(None) for f in missing})
    return lake.write_stream(
        rows,
        name,
        checkpoint=checkpoints / name,
        trigger="availableNow" if ends else None,
        query_name=name,
    )


def main() -> None:
    """Run both queries, for ever or until all is read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("warehouse", help="a directory, or a URI such as s3://bucket/prefix")
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--kafka", metavar="SERVERS", help="the topics are at this broker")
    parser.add_argument("--prefix", default="", help="of the names of its topics")
    parser.add_argument("--ends", action="store_true")
    given = parser.parse_args()
    spark = tidelake.spark.session("flight streams", master="local[2]", conf=CONF)
    lake = tidelake.spark.attach(spark, given.warehouse)
    topics = KafkaTopics(given.kafka, given.prefix) if given.kafka else TableTopics()
    topics.open(lake)
    board = fill_board(lake, topics, given.checkpoints, ends=given.ends)
    if given.ends:
        board.awaitTermination()  # what the second reads, the first has written
    delays = keep_delays(lake, given.checkpoints, ends=given.ends)
    if given.ends:
        delays.awaitTermination()
        spark.stop()
        return
    spark.streams.awaitAnyTermination()  # a query that fails ends the program, with its error


if __name__ == "__main__":
    main()
