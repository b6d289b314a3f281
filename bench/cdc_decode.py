"""PostgreSQL's log to typed Arrow, and its first copy: rows for each CPU-second of this process.

    PYTHONPATH=src:tests python bench/cdc_decode.py [thousands of updates]

The table has ten columns: bigint key, int, bigint, numeric(12,2), text, varchar, double precision,
bool, timestamptz, date. Each transaction updates 1,000 rows.
"""

from __future__ import annotations

import sys
import time

import psycopg
from cdc_postgres import SETTINGS, Place
from servers.postgres import DATABASE, postgres

from tidelake.cdc.source.source import EpochLimits

TABLE = (
    "CREATE TABLE t (id bigint PRIMARY KEY, a int, b bigint, d numeric(12,2), x text,"
    " v varchar(64), f double precision, o bool, ts timestamptz, dt date)"
)
FILL = (
    "INSERT INTO t SELECT g, g, g * 7, g / 7.0, 'text ' || g, md5(g::text), g / 3.0, g % 2 = 0,"
    " now() - g * interval '1 s', current_date - g % 1000 FROM generate_series(1, {}) g"
)


def decode(place, transactions):
    """Read updates in ranges of several sizes."""
    place.run(TABLE, FILL.format(1000))
    source, names, start = place.followed()
    for _ in range(transactions):
        place.run("UPDATE t SET a = a + 1, b = b + 1, f = f + 1, ts = now()")
    goal = source.newest()
    for rows_max in (10_000, 200_000, 50_000, 10_000, 1_000):
        source.close()
        position, count, began = start, 0, time.process_time()
        while count < transactions * 1000 and source.is_before(position, goal):
            changes = source.read(position, names, EpochLimits(rows_max=rows_max, gather_ms=10_000))
            count, position = count + changes.rows_count, changes.end
        seconds = time.process_time() - began
        print(f"log, ranges of {rows_max:>7,}: {count / seconds / 1000:6.0f} k events/CPU-s")
    source.drop()
    source.close()


def copy(place, rows):
    """Copy a table, and copy it bare."""
    place.run("DROP TABLE t", TABLE, FILL.format(rows))
    source, *_ = place.followed()
    tables = source.tables()
    with source.first_copy([]) as first:
        for _ in range(2):
            count, began = 0, time.process_time()
            for chunk in first.chunks(tables[0], rows_max=100_000):
                count += sum(batch.rows.num_rows for batch in first.read(chunk))
            seconds = time.process_time() - began
            print(f"first copy: {count / seconds / 1000:6.0f} k rows/CPU-s")
    began = time.process_time()
    with place.connection.cursor().copy("COPY t TO STDOUT (FORMAT csv)") as bare:
        for _ in bare:
            pass
    print(f"bare COPY:  {rows / (time.process_time() - began) / 1000:6.0f} k rows/CPU-s")
    source.drop()
    source.close()


def main():
    thousands = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with (
        postgres(18, *SETTINGS) as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        decode(place, thousands)
        copy(place, thousands * 1000)


if __name__ == "__main__":
    main()
