"""The same answers once more, from the raw frames with pandas alone; nothing here knows Tidelake.

``state_at`` says what the table must hold at an instant by looking at each flight's own facts, not
by replaying events. ``difference`` compares every column of every row.
"""

from __future__ import annotations

import data
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streams
from data import Raw

WEATHER_CLASSES = ("fair", "windy", "low visibility", "rain", "snow or ice", "no observation")
WEATHER_ORDER = ("temp", "dewp", "humid", "wind_speed", "precip", "pressure")
AGE_BANDS = ("under 5 years", "5 to 9", "10 to 14", "15 to 19", "20 and more", "unknown")


def state_at(raw: Raw, instant: pd.Timestamp | None) -> pa.Table:
    """The flights table as it must be when all that was known before ``instant`` is in it.

    ``None`` is the moment after the schedule was loaded.
    """
    flights = raw.flights
    if instant is None:
        instant = data.PUBLISHED
    left = (raw.departed_at < instant).to_numpy()
    landed = (raw.landed_at < instant).to_numpy()
    stays = ~(raw.cancelled_at < instant).to_numpy()
    status = np.select(
        [landed & flights["arr_delay"].isna().to_numpy(), landed, left],
        ["diverted", "landed", "departed"],
        default="scheduled",
    )
    updated_at = pd.Series(data.PUBLISHED, index=flights.index).astype("datetime64[us, UTC]")
    updated_at = updated_at.mask(left, raw.departed_at).mask(landed, raw.landed_at)
    columns = {
        "time_hour": pd.to_datetime(flights["time_hour"], utc=True),
        "status": status,
        "updated_at": updated_at,
        **{name: flights[name].where(left) for name in ("dep_time", "dep_delay")},
        **{name: flights[name].where(landed) for name in ("arr_time", "arr_delay", "air_time")},
    }
    frame = flights.assign(**columns)[stays]
    return pa.Table.from_pandas(frame, data.FLIGHTS, preserve_index=False)


def difference(expected: pa.Table, found: pa.Table, *, key: tuple[str, ...]) -> str | None:
    """The first difference between two tables, rows matched by key; None where they are equal."""
    if expected.column_names != found.column_names:
        return f"columns {found.column_names} instead of {expected.column_names}"
    if expected.num_rows != found.num_rows:
        return f"{found.num_rows:,} rows instead of {expected.num_rows:,}"
    order = [(name, "ascending") for name in key]
    expected, found = expected.sort_by(order), found.sort_by(order)
    for name in expected.column_names:
        want = expected[name].combine_chunks()
        have = found[name].combine_chunks().cast(want.type)
        if not want.equals(have):
            return _first_difference(name, want, have, expected, key)
    return None


def _first_difference(
    name: str, want: pa.Array, have: pa.Array, expected: pa.Table, key: tuple[str, ...]
) -> str | None:
    for at, (a, b) in enumerate(zip(want.to_pylist(), have.to_pylist(), strict=True)):
        if a != b and not (a != a and b != b):  # two NaN are equal
            where = {k: expected[k][at].as_py() for k in key}
            return f"{name} is {b!r}, not {a!r}, in the row {where}"
    return None


def changed_between(raw: Raw, start: pd.Timestamp | None, end: pd.Timestamp) -> pd.DataFrame:
    """Per flight that changed between two instants: its key and what became of it.

    ``change`` is ``"gone"`` or the status it has at the end.
    """
    before, after = state_at(raw, start).to_pandas(), state_at(raw, end).to_pandas()
    both = before.merge(after, on=list(data.KEY), how="left", suffixes=("_before", ""))
    gone = both["status"].isna()
    moved = both["status"] != both["status_before"]
    changed = both[gone | moved]
    return changed[list(data.KEY)].assign(change=changed["status"].astype(object).fillna("gone"))


def weather_and_age(raw: Raw) -> pd.DataFrame:
    """Flights that left x weather at that hour x the plane's age: counts and sums, all whole.

    Columns weather, age, flights, late_minutes (sum of departure delays), seats.
    """
    flown = raw.flights[raw.flights["dep_time"].notna()]
    # one hour of November stands twice in the data: the first by its readings counts
    ordered = raw.weather.sort_values(["origin", "time_hour", *WEATHER_ORDER])
    hourly = ordered.drop_duplicates(["origin", "time_hour"])
    joined = flown.merge(
        hourly, on=["origin", "time_hour"], how="left", suffixes=("", "_w"), indicator="seen"
    )
    joined = joined.merge(
        raw.planes[["tailnum", "year", "seats"]], on="tailnum", how="left", suffixes=("", "_built")
    )
    wet = joined["precip"] > 0
    weather_class = np.select(
        [
            joined["seen"] == "left_only",
            wet & (joined["temp"] <= 32),
            wet,
            joined["visib"] < 3,
            joined["wind_speed"] >= 20,
        ],
        ["no observation", "snow or ice", "rain", "low visibility", "windy"],
        default="fair",
    )
    age = 2013 - joined["year_built"]
    band = np.select([age.isna(), age < 5, age < 10, age < 15, age < 20],
                     ["unknown", *AGE_BANDS[:4]], default=AGE_BANDS[4])  # fmt: skip
    grouped = joined.assign(weather=weather_class, age=band).groupby(["weather", "age"])
    return grouped.agg(
        flights=("dep_delay", "size"), late_minutes=("dep_delay", "sum"), seats=("seats", "sum")
    ).astype("int64").reset_index()  # fmt: skip


def board(raw: Raw) -> pa.Table:
    """The board as it must be at the end: each flight's own facts, whoever told them last."""
    flights = raw.flights
    gone = flights["dep_time"].isna()
    frame = flights.assign(
        state=np.where(gone, "cancelled", "planned"),
        scheduled_at=raw.cancelled_at.astype("datetime64[us, UTC]").fillna(data.PUBLISHED),
        departed_at=raw.departed_at,
        landed_at=raw.landed_at,
    )
    landed = raw.landed_at.notna()
    for name in ("arr_time", "arr_delay", "air_time"):
        frame[name] = frame[name].where(landed)
    return pa.Table.from_pandas(frame, streams.BOARD, preserve_index=False)


_SUMS = ("flights", "miles", "departed", "dep_minutes", "landed", "arr_minutes")


def delays(raw: Raw) -> pa.Table:
    """Flights, miles and delays per carrier and day, without the flights that were cancelled."""
    flights = raw.flights
    goes = flights["dep_time"].notna()
    lands = raw.landed_at.notna() & flights["arr_delay"].notna()
    frame = flights.assign(
        flights=goes.astype("int64"),
        miles=flights["distance"].where(goes, 0),
        departed=goes.astype("int64"),
        dep_minutes=flights["dep_delay"].where(goes, 0),
        landed=lands.astype("int64"),
        arr_minutes=flights["arr_delay"].where(lands, 0),
        worst=flights["dep_delay"].where(goes),
    )
    days = frame.groupby(["carrier", "month", "day"], as_index=False)
    grouped = days.agg({**dict.fromkeys(_SUMS, "sum"), "worst": "max"})
    return told_days(pa.Table.from_pandas(grouped, streams.DELAYS, preserve_index=False))


def told_days(delays: pa.Table) -> pa.Table:
    """The days that have more than zeros.

    Where a flight was planned in one batch and cancelled in a later one, its day is left with
    zeros; where both came in one batch, the board never showed it, and its day may not be there.
    """
    empty = pc.is_null(delays["worst"])
    for name in _SUMS:
        empty = pc.and_(empty, pc.equal(delays[name], 0))
    return delays.filter(pc.invert(empty))


def late_minutes(raw: Raw) -> pa.Table:
    """Per carrier and state of its flights: the sums of both delays, null where there is none."""
    flights = raw.flights
    frame = flights.assign(
        state=np.where(flights["dep_time"].isna(), "cancelled", "planned"),
        arr_delay=flights["arr_delay"].where(raw.landed_at.notna()),
    )
    grouped = frame.groupby(["carrier", "state"])[["dep_delay", "arr_delay"]]
    sums = grouped.sum(min_count=1).astype("Int64").reset_index()
    return pa.Table.from_pandas(sums, preserve_index=False)
