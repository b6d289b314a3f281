"""Three streams that tell of the same flights, in the order in which they are delivered.

- **schedule**: where a flight goes and with which plane, and whether it is cancelled;
- **departure**: when it left;
- **arrival**: when it landed.

Each knows its own columns alone and stamps each record with an instant of its own. Delivery is not
in the order of these instants. Of every second flight there is a first estimate of departure, and
every other one of those comes a quarter of a year after the fact that it foretold; the first
schedule of every cancelled flight is sent once more after its cancellation. Who believed the record
that came last would be wrong; who believes the newest stamp is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import data
import numpy as np
import pandas as pd
import pyarrow as pa
from data import FLIGHTS, KEY, Raw

_INSTANT = FLIGHTS.field("updated_at").type
_OWN = {
    "schedule": ("dest", "tailnum", "distance", "sched_dep_time", "state", "scheduled_at"),
    "departure": ("dep_time", "dep_delay", "departed_at"),
    "arrival": ("arr_time", "arr_delay", "air_time", "landed_at"),
}
STREAMS: dict[str, tuple[tuple[str, ...], str]] = {
    name: (columns[:-1], columns[-1]) for name, columns in _OWN.items()
}
"""The columns of each stream, and the stamp that orders its records."""
_TYPES = {"state": pa.string()} | dict.fromkeys((s for _, s in STREAMS.values()), _INSTANT)


def topic_columns(stream: str) -> list[str]:
    """The columns of a stream's records: the key of the flight, and its own."""
    return [*KEY, *_OWN[stream]]


BOARD = pa.schema(
    [
        *(FLIGHTS.field(name) for name in KEY),
        *(
            pa.field(name, _TYPES[name] if name in _TYPES else FLIGHTS.field(name).type)
            for columns in _OWN.values()
            for name in columns
        ),
    ]
)
"""One row a flight, filled by all three."""
DELAYS = pa.schema(
    [
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("month", pa.int32(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        ("flights", pa.int64()),
        ("miles", pa.int64()),
        ("departed", pa.int64()),
        ("dep_minutes", pa.int64()),
        ("landed", pa.int64()),
        ("arr_minutes", pa.int64()),
        ("worst", pa.int32()),
    ]
)
"""Per carrier and day: flights and miles that are not cancelled, delays in minutes."""

ESTIMATE = pd.Timedelta(minutes=15)
"""How long before a departure it is foretold, to ten minutes, never later than it was."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Records of one stream that are written in one commit.

    ``late`` of them are older than what the table has of the same flights.
    """

    stream: str
    rows: pa.Table
    late: int = 0


def deliveries(raw: Raw) -> list[list[Delivery]]:
    """The year: its schedule, then quarter by quarter all three streams, then the stragglers."""
    left, landed = raw.departed_at.dropna(), raw.landed_at.dropna()
    cancelled = raw.cancelled_at.dropna()
    number = pd.Series(np.arange(len(raw.flights)), index=raw.flights.index)
    early, late = left[number[left.index] % 4 == 0], left[number[left.index] % 4 == 1]
    parts = [[Delivery("schedule", _planned(raw, raw.flights.index))]]
    for quarter in range(1, 6):
        gone, again = _of(cancelled, quarter), _of(cancelled, quarter - 1)
        schedule = [_cancelled(raw, gone), _planned(raw, again.index)]
        stragglers = _estimated(raw, _of(late, quarter - 1))
        departures = [
            _estimated(raw, _of(early, quarter)),
            _left(raw, _of(left, quarter)),
            stragglers,
        ]
        parts.append(
            [
                Delivery("schedule", pa.concat_tables(schedule), len(again)),
                Delivery("departure", pa.concat_tables(departures), stragglers.num_rows),
                Delivery("arrival", _landed(raw, _of(landed, quarter))),
            ]
        )
    return [[d for d in part if d.rows.num_rows] for part in parts]


def _of(instants: pd.Series, quarter: int) -> pd.Series:
    """Those of a quarter of 2013; the last lasts as long as anything is known, a fifth is empty."""
    begins = pd.to_datetime([f"2013-{month:02}-01" for month in (1, 4, 7, 10)], utc=True)
    return instants[begins.searchsorted(instants, side="right").clip(1, 4) == quarter]


def _planned(raw: Raw, index: pd.Index) -> pa.Table:
    return _records(raw, index, "schedule", state="planned", scheduled_at=data.PUBLISHED)


def _cancelled(raw: Raw, at: pd.Series) -> pa.Table:
    return _records(raw, at.index, "schedule", state="cancelled", scheduled_at=at)


def _left(raw: Raw, at: pd.Series) -> pa.Table:
    return _records(raw, at.index, "departure", departed_at=at)


def _estimated(raw: Raw, at: pd.Series) -> pa.Table:
    delay = raw.flights.loc[at.index, "dep_delay"] // 10 * 10
    return _records(
        raw, at.index, "departure", dep_time=np.nan, dep_delay=delay, departed_at=at - ESTIMATE
    )


def _landed(raw: Raw, at: pd.Series) -> pa.Table:
    return _records(raw, at.index, "arrival", landed_at=at)


def _records(raw: Raw, index: pd.Index, stream: str, **values: object) -> pa.Table:
    """Records of some flights with a stream's own columns; null in those of the others."""
    columns = topic_columns(stream)
    frame = raw.flights.loc[index].assign(**values)[columns]
    own = pa.schema([BOARD.field(name) for name in columns])
    rows = pa.Table.from_pandas(frame, own, preserve_index=False)
    known = {name: rows[name] for name in columns}
    nulls = {f.name: pa.nulls(len(frame), f.type) for f in BOARD if f.name not in known}
    return pa.table({name: (known | nulls)[name] for name in BOARD.names}, schema=BOARD)
