"""Writes the year: the schedule, then what became known, commit by commit; weather and planes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import data
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from data import Raw

from tidelake.spark import Lake

FLIGHTS, WEATHER, PLANES = "air.flights", "air.weather", "air.planes"
USER = "flights-feed"
TAG = "midsummer"
TAGGED = pd.Timestamp("2013-07-05T18:00:00Z")


@dataclass(slots=True)
class Feed:
    """What was written: seconds of each commit, and the snapshot of each instant."""

    seconds: dict[int, float] = field(default_factory=dict)
    snapshot_at: dict[pd.Timestamp | None, int] = field(default_factory=dict)
    rows: int = 0
    deletes: int = 0


def create_tables(lake: Lake) -> None:
    """One primary-key table in twelve partitions, one append table, one small dimension."""
    lake.catalog.create_table(
        FLIGHTS,
        data.FLIGHTS,
        primary_keys=list(data.KEY),
        partition_keys=["month"],
        options={"bucket": "1"},
    )
    lake.catalog.create_table(WEATHER, data.WEATHER)
    lake.catalog.create_table(
        PLANES, data.PLANES, primary_keys=["tailnum"], options={"bucket": "1"}
    )


def write_schedule(lake: Lake, raw: Raw, feed: Feed) -> None:
    """Every flight as scheduled, in one commit."""
    rows = data.scheduled(raw)
    began = time.perf_counter()
    result = lake.write(
        lake.spark.createDataFrame(rows), FLIGHTS, commit_user=USER, commit_identifier=0
    )
    _note(feed, result.snapshot_ids, None, rows, began)


def write_events(lake: Lake, raw: Raw, feed: Feed, advance: Callable[[], None]) -> None:
    """What became known, one commit for every five days, in the order of time."""
    events = data.events(raw)
    ends = data.step_ends(raw)
    known_at = events["updated_at"]
    begin = 0
    for number, end in enumerate(ends, start=1):
        bound = pa.scalar(end.to_pydatetime(), known_at.type)
        stop = pc.sum(pc.less(known_at, bound)).as_py()
        rows = events.slice(begin, stop - begin)
        begin = stop
        began = time.perf_counter()
        result = lake.write(
            lake.spark.createDataFrame(rows), FLIGHTS, commit_user=USER, commit_identifier=number
        )
        _note(feed, result.snapshot_ids, end, rows, began)
        if end == TAGGED:
            lake.catalog.table(FLIGHTS).tags.create(TAG)
        advance()


def write_weather(lake: Lake, raw: Raw, advance: Callable[[], None]) -> None:
    """The weather as it came in, quarter by quarter; the planes at once."""
    weather = data.weather(raw)
    size = -(-weather.num_rows // 4)
    for begin in range(0, weather.num_rows, size):
        lake.write(lake.spark.createDataFrame(weather.slice(begin, size)), WEATHER)
        advance()
    lake.write(lake.spark.createDataFrame(data.planes(raw)), PLANES)
    advance()


def _note(
    feed: Feed,
    snapshot_ids: tuple[int, ...],
    instant: pd.Timestamp | None,
    rows: pa.Table,
    began: float,
) -> None:
    newest = snapshot_ids[-1]
    feed.seconds[newest] = time.perf_counter() - began
    feed.snapshot_at[instant] = newest
    feed.rows += rows.num_rows
    if "_row_kind" in rows.column_names:
        feed.deletes += pc.sum(pc.equal(rows["_row_kind"], "-D")).as_py()
