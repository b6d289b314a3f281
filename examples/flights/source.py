"""Writes the raw flights as a Parquet file, for the demo that is all SQL (``make demo-sql``).

``python source.py FOLDER [--days N]``: a folder with ``flights.parquet``, the package's own columns
and the time zone of each destination; of the first days of each quarter, if so many are wanted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import published
import pyarrow as pa
import pyarrow.parquet as pq
from data import ZONES

_WHOLE = (
    "month", "day", "flight", "distance", "sched_dep_time", "minute", "dep_time", "dep_delay",
    "arr_time", "arr_delay", "air_time",
)  # fmt: skip
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.int32()) for name in _WHOLE),
        *(pa.field(name, pa.string()) for name in ("carrier", "origin", "dest", "tailnum")),
        ("dest_zone", pa.string()),
        ("time_hour", pa.string()),
    ]
)


def write(folder: Path, days: int | None = None) -> int:
    """Write the file; gives the number of flights."""
    flights = published.flights
    if days is not None:
        flights = flights[(flights["day"] <= days) & (flights["month"] % 3 == 1)]
    zones = dict(zip(published.airports["faa"], published.airports["tzone"], strict=True))
    frame = flights.assign(dest_zone=flights["dest"].map(zones | ZONES))
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(frame, SCHEMA, preserve_index=False).replace_schema_metadata()
    pq.write_table(table, folder / "flights.parquet")
    return table.num_rows


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int)
    given = parser.parse_args()
    print(f"{write(given.folder, given.days):,} flights in {given.folder / 'flights.parquet'}")


if __name__ == "__main__":
    main()
