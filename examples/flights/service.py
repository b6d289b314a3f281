"""The third act: flights and airports are asked for by key, while an executor is killed.

A query service runs on the Spark session: one executor in one of its two slots. Single gets and a
batch are compared with SQL, flights are joined with the airports that they went to, and a client
goes on asking while the executor's process is killed and an airport is written anew.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import data
import pyarrow as pa
from answers import WrongAnswer
from data import Raw
from feed import FLIGHTS

import tidelake
from tidelake.spark import Lake

AIRPORTS = "air.airports"
SCHEMA = pa.schema(
    [
        pa.field("faa", pa.string(), nullable=False),
        ("name", pa.string()),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("tzone", pa.string()),
    ]
)
SINGLES, BATCH = 200, 20_000
"""Keys of each comparison; one in ten is no flight."""
ASKING_S = 3.0
READY_S = 120
DEADLINE_S = 60


@dataclass
class Asked:
    """What a client saw while the executor was killed."""

    gets: int = 0
    longest_s: float = 0.0
    names: list[str] = field(default_factory=list)


def write_airports(lake: Lake, raw: Raw) -> None:
    """The airports by their code."""
    lake.catalog.create_table(AIRPORTS, SCHEMA, primary_keys=["faa"], options={"bucket": "1"})
    rows = pa.Table.from_pandas(raw.airports, SCHEMA, preserve_index=False)
    lake.write(rows.replace_schema_metadata(), AIRPORTS)


def third_act(lake: Lake, raw: Raw, advance: Callable[[], None]) -> list[tuple[str, str]]:
    """Run it; what was compared, and how.

    Raises
    ------
    WrongAnswer
        The service gave another answer than SQL.
    """
    write_airports(lake, raw)
    with lake.serve([FLIGHTS, AIRPORTS], parallelism=1) as service:
        service.wait_ready(READY_S)
        advance()
        checks = [_gets(lake, raw)]
        advance()
        checks.append(_join(lake))
        advance()
        checks.append(_killed(lake, service))
        advance()
    return checks


def _gets(lake: Lake, raw: Raw) -> tuple[str, str]:
    """Single gets and a batch, beside SQL."""
    rng = random.Random(2013)
    some = raw.flights.sample(min(BATCH, len(raw.flights)), random_state=1)
    keys = [tuple(key) for key in some[list(data.KEY)].itertuples(index=False)]
    keys = [k if rng.random() < 0.9 else (*k[:3], k[3] + 10_000, k[4]) for k in keys]
    wanted = set(keys)
    by_sql = {
        key: row
        for row in (r.asDict() for r in lake.sql(f"SELECT * FROM {FLIGHTS}").collect())
        if (key := tuple(row[name] for name in data.KEY)) in wanted
    }
    with tidelake.lookup_client(lake.catalog, FLIGHTS, deadline_seconds=DEADLINE_S) as client:
        began = time.perf_counter()
        found = client.get_many(keys)
        seconds = time.perf_counter() - began
        singles = [client.get(key) for key in keys[:SINGLES]]
    for what, rows in (("a batch", found), ("single gets", singles)):
        for key, row in zip(keys, rows, strict=False):
            _compare(what, key, row, by_sql.get(key))
    missing = sum(row is None for row in found)
    return (
        "gets of the query service, beside SQL",
        f"{len(keys):,} keys in {seconds:.2f} s, {missing:,} missing; {len(singles)} one by one",
    )


def _compare(what: str, key: tuple[Any, ...], row: Any, expected: Any) -> None:
    """One row of the service with that of SQL."""
    if row is not None:
        row = {name: _local(value) for name, value in row.items()}
    if row != expected:
        message = f"{what} of {key}: {row} instead of {expected}"
        raise WrongAnswer(message)


def _local(value: Any) -> Any:
    """Instants as Spark gives them to Python: as local times of this machine."""
    return value.astimezone().replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _join(lake: Lake) -> tuple[str, str]:
    """Flights with the airports that they went to, by a lookup join and by SQL."""
    flights = lake.table(FLIGHTS, columns=[*data.KEY, "dest"])
    looked_up = lake.lookup_join(
        flights, AIRPORTS, on={"dest": "faa"}, columns={"name": "dest_name"}
    )
    by_key = _counts(looked_up.groupBy("dest_name").count().collect())
    joined = lake.sql(
        f"SELECT a.name AS dest_name, count(*) AS count FROM {FLIGHTS} f"
        f" LEFT JOIN {AIRPORTS} a ON f.dest = a.faa GROUP BY a.name"
    )
    by_sql = _counts(joined.collect())
    if by_key != by_sql:
        different = set(by_key.items()) ^ set(by_sql.items())
        message = f"a lookup join differs from a join: {sorted(map(str, different))[:3]}"
        raise WrongAnswer(message)
    return "flights, looked up in the airports", f"{sum(by_key.values()):,} rows as by a join"


def _counts(rows: list[Any]) -> dict[str | None, int]:
    return {row["dest_name"]: row["count"] for row in rows}


def _killed(lake: Lake, service: Any) -> tuple[str, str]:
    """A client that asks while the executor is killed and an airport is written anew."""
    stop, asked = threading.Event(), Asked()
    with tidelake.lookup_client(lake.catalog, AIRPORTS, deadline_seconds=DEADLINE_S) as client:
        old = client.get("JFK")
        assert old is not None
        thread = threading.Thread(target=_ask, args=(client, stop, asked))
        thread.start()
        time.sleep(ASKING_S / 3)
        os.kill(service.executor_pids[0], signal.SIGKILL)
        new = {**old, "name": "Idlewild"}
        lake.catalog.table(AIRPORTS).write([new])
        newest = lake.catalog.table(AIRPORTS).latest_snapshot_id
        seen = client.get("JFK", min_snapshot=newest)
        time.sleep(ASKING_S / 3)
        stop.set()
        thread.join()
    names = list(dict.fromkeys(asked.names))
    if seen != new or names not in ([old["name"], "Idlewild"], [old["name"]]):
        message = f"after the kill JFK was {seen}, and a client saw {names}"
        raise WrongAnswer(message)
    if service.restarts_count != 1:
        message = f"the executor was started again {service.restarts_count} times"
        raise WrongAnswer(message)
    return (
        "an executor was killed, clients went on",
        f"{asked.gets:,} gets, the longest {asked.longest_s:.1f} s; the new row was seen",
    )


def _ask(client: Any, stop: threading.Event, asked: Asked) -> None:
    while not stop.is_set():
        began = time.perf_counter()
        row = client.get("JFK")
        asked.longest_s = max(asked.longest_s, time.perf_counter() - began)
        asked.gets += 1
        asked.names.append("" if row is None else row["name"])
