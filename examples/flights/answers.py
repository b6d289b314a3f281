"""Reads the year back through Spark: the figures of the report, and the checks of every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import check
import data
import pandas as pd
import pyarrow as pa
from data import Raw
from feed import FLIGHTS, PLANES, TAG, TAGGED, WEATHER, Feed
from life import Findings, LifePoint, Moment
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import tidelake
from tidelake.spark import Lake

STORM = (pd.Timestamp("2013-02-05T18:00:00Z"), pd.Timestamp("2013-02-10T18:00:00Z"))


class WrongAnswer(Exception):
    """The tables do not hold what the raw data says."""


@dataclass(frozen=True, slots=True)
class When:
    """A moment to ask for: how it is asked, and which instant of 2013 it stands for."""

    title: str
    asked: str
    instant: pd.Timestamp | None
    selection: dict[str, object]


def moments_of(lake: Lake, raw: Raw, feed: Feed) -> list[When]:
    """The table as scheduled, in midsummer and at the end, asked for in three ways."""
    end = data.step_ends(raw)[-1]
    now = lake.catalog.table(FLIGHTS).history()["commit_time"][-1].as_py()
    return [
        When("as scheduled", "snapshot_id=1", None, {"snapshot_id": feed.snapshot_at[None]}),
        When("5 July 2013, 18:00 UTC", f'tag="{TAG}"', TAGGED, {"tag": TAG}),
        When("after the year", "timestamp=now", end, {"timestamp": now}),
    ]


def moments(lake: Lake, raw: Raw, whens: Sequence[When]) -> list[Moment]:
    """Flights by status at each moment."""
    found = []
    for when in whens:
        frame = lake.table(FLIGHTS, columns=["status"], **when.selection)
        counts = {r["status"]: r["count"] for r in frame.groupBy("status").count().collect()}
        counts["gone"] = len(raw.flights) - sum(counts.values())
        snapshot = lake.catalog.table(FLIGHTS).plan(**when.selection).snapshot_id
        found.append(Moment(when.title, when.asked, snapshot, counts))
    return found


def check_everything(
    lake: Lake, raw: Raw, feed: Feed, whens: Sequence[When], advance: Callable[[], None]
) -> list[tuple[str, str]]:
    """Compare with the recomputation from the raw data; what was compared, and how much of it."""
    done = []
    for when in whens:
        found = lake.table(FLIGHTS, **when.selection).toArrow()
        expected = check.state_at(raw, when.instant)
        wrong = check.difference(expected, found, key=data.KEY)
        if wrong:
            raise WrongAnswer(f"flights, {when.title}: {wrong}")
        cells = f"{found.num_rows:,} rows x {found.num_columns} columns equal"
        done.append((f"flights {when.title}", cells))
        advance()
    found = lake.table(WEATHER).toArrow()
    wrong = check.difference(data.weather(raw), found, key=tuple(data.WEATHER.names[:6]))
    if wrong:
        raise WrongAnswer(f"weather: {wrong}")
    done.append(("weather", f"{found.num_rows:,} rows x {found.num_columns} columns equal"))
    advance()
    done.append(_check_changes(lake, raw, feed))
    advance()
    return done


def storm_changes(lake: Lake, feed: Feed) -> tuple[pa.Table, int, int]:
    """What changed over the days of the February blizzard, and between which snapshots."""
    start, end = (feed.snapshot_at[instant] for instant in STORM)
    table = lake.catalog.table(FLIGHTS)
    assert isinstance(table, tidelake.Table)
    return table.changes(start, end), start, end


def change_counts(changes: pa.Table) -> dict[str, int]:
    """What became of flights, the most frequent first."""
    counts: Counter[str] = Counter()
    words = {"landed": "landed", "departed": "left, still in the air", "diverted": "diverted"}
    for kind, status in zip(
        changes["_row_kind"].to_pylist(), changes["status"].to_pylist(), strict=True
    ):
        if kind == "-D":
            counts["cancelled (-D)"] += 1
        elif kind == "+U":
            counts[f"{words.get(status, status)} (+U)"] += 1
    return dict(counts.most_common())


def _check_changes(lake: Lake, raw: Raw, feed: Feed) -> tuple[str, str]:
    changes, start, end = storm_changes(lake, feed)
    rows = changes.select([*data.KEY, "status", "_row_kind"]).to_pylist()
    found = {
        tuple(r[k] for k in data.KEY): "gone" if r["_row_kind"] == "-D" else r["status"]
        for r in rows
        if r["_row_kind"] in {"-D", "+U", "+I"}
    }
    frame = check.changed_between(raw, *STORM)
    expected = {
        tuple(key): change
        for *key, change in frame[[*data.KEY, "change"]].itertuples(index=False, name=None)
    }
    if found != expected:
        raise WrongAnswer(f"changes {start} to {end}: {len(found)} keys for {len(expected)}")
    return f"what changed from snapshot {start} to {end}", f"{len(found):,} flights equal"


def weather_and_age(lake: Lake) -> pd.DataFrame:
    """The join of flights, weather and planes: three tables, one Spark query."""
    flights = lake.table(
        FLIGHTS,
        columns=["origin", "time_hour", "tailnum", "dep_delay"],
        where="dep_time IS NOT NULL",
    )
    first = Window.partitionBy("origin", "time_hour").orderBy(
        *(F.col(c).asc_nulls_last() for c in check.WEATHER_ORDER)
    )
    weather = lake.table(WEATHER).withColumn("rank", F.row_number().over(first)).where("rank = 1")
    planes = lake.table(PLANES, columns=["tailnum", "year", "seats"])
    joined = flights.join(
        weather.withColumn("seen", F.lit(True)), ["origin", "time_hour"], "left"
    ).join(planes, "tailnum", "left")
    return (
        joined.groupBy(_weather_class().alias("weather"), _age_band().alias("age"))
        .agg(
            F.count("*").alias("flights"),
            F.sum("dep_delay").alias("late_minutes"),
            F.coalesce(F.sum("seats"), F.lit(0)).alias("seats"),
        )
        .orderBy("weather", "age")
        .toPandas()
    )


def _weather_class() -> F.Column:
    return F.expr(
        """CASE WHEN seen IS NULL THEN 'no observation'
                WHEN precip > 0 AND temp <= 32 THEN 'snow or ice'
                WHEN precip > 0 THEN 'rain'
                WHEN visib < 3 THEN 'low visibility'
                WHEN wind_speed >= 20 THEN 'windy' ELSE 'fair' END"""
    )


def _age_band() -> F.Column:
    bands = zip((5, 10, 15, 20), check.AGE_BANDS, strict=False)
    cases = " ".join(f"WHEN 2013 - year < {below} THEN '{words}'" for below, words in bands)
    last, unknown = check.AGE_BANDS[4:]
    return F.expr(f"CASE WHEN year IS NULL THEN '{unknown}' {cases} ELSE '{last}' END")


def findings(lake: Lake, raw: Raw) -> Findings:
    """The frames of the report."""
    columns = ["month", "day", "sched_dep_time", "carrier", "dest", "dep_delay", "arr_delay"]
    flights = lake.table(FLIGHTS, columns=columns).cache()
    by_day = ["month", "day"]
    hours = _late(
        flights.withColumn("hour", F.expr("sched_dep_time div 100")), [*by_day, "hour"], "dep_delay"
    )
    scheduled = lake.table(FLIGHTS, columns=[*by_day, "carrier"], snapshot_id=1).cache()
    cross = weather_and_age(lake)
    expected = check.weather_and_age(raw).sort_values(["weather", "age"]).reset_index(drop=True)
    if not cross.astype(expected.dtypes.to_dict()).equals(expected):
        raise WrongAnswer("the join of flights, weather and planes differs from the recomputation")
    return Findings(
        hours=hours,
        cancelled=_cancelled(flights, scheduled, by_day),
        rain=_rain(lake.table(WEATHER, columns=["time_hour", "precip"])),
        destinations=_late(flights, ["dest"], "arr_delay"),
        carriers=_carriers(flights, scheduled, raw.airlines),
        cross=cross,
        airports=raw.airports,
    )


def _late(flights: DataFrame, by: list[str], delay: str) -> pd.DataFrame:
    known = flights.where(f"{delay} IS NOT NULL").groupBy(*by)
    return known.agg(F.count("*").alias("flights"), F.sum(delay).alias("late_minutes")).toPandas()


def _cancelled(flights: DataFrame, scheduled: DataFrame, by: list[str]) -> pd.DataFrame:
    left = flights.groupBy(*by).agg(F.count("*").alias("left"))
    planned = scheduled.groupBy(*by).agg(F.count("*").alias("planned"))
    joined = planned.join(left, by, "left").fillna(0)
    return joined.withColumn("cancelled", F.expr("planned - left")).toPandas()


def _rain(weather: DataFrame) -> pd.DataFrame:
    local = weather.withColumn("at", F.expr("from_utc_timestamp(time_hour, 'America/New_York')"))
    days = local.groupBy(F.month("at").alias("month"), F.dayofmonth("at").alias("day"))
    return days.agg((F.sum("precip") / 3).alias("inches")).fillna(0).toPandas()


def _carriers(flights: DataFrame, scheduled: DataFrame, airlines: pd.DataFrame) -> pd.DataFrame:
    late = _late(flights, ["carrier"], "arr_delay").rename(columns={"flights": "landed"})
    gone = _cancelled(flights, scheduled, ["carrier"]).rename(columns={"planned": "scheduled"})
    return late.merge(gone, on="carrier").merge(airlines, on="carrier")


def life_of(lake: Lake, feed: Feed) -> list[LifePoint]:
    """One point a snapshot: the files a reader meets, and what the commit wrote."""
    table = lake.catalog.table(FLIGHTS)
    points = []
    known: set[str] = set()
    for entry in table.history().to_pylist():
        snapshot = entry["snapshot_id"]
        splits = table.plan(snapshot_id=snapshot).splits
        files = [(s.partition, f) for s in splits for f in s.files]
        new = [f for _, f in files if f.file_name not in known]
        known |= {f.file_name for f in new}
        runs: dict[bytes, set[object]] = {}
        for partition, f in files:
            runs.setdefault(partition, set()).add(f.level or f.file_name)
        points.append(
            LifePoint(
                snapshot=snapshot,
                kind=entry["commit_kind"],
                files_by_level=Counter(f.level for _, f in files),
                live_bytes=sum(f.file_size_bytes for _, f in files),
                runs_max=max(map(len, runs.values()), default=0),
                files_added=len(new),
                bytes_added=sum(f.file_size_bytes for f in new),
                rows_added=sum(f.row_count for f in new),
                seconds=feed.seconds.get(snapshot),
            )
        )
    return points
