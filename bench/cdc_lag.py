"""From a commit in PostgreSQL to rows that can be read; and the log held for an idle database.

1. `lag_lines`: the command ``tidelake cdc run`` in a process of its own keeps three tables equal,
   an epoch a second. Another process makes 100 transactions a second of 100 changes each, over all
   three, and notes when each commit returned. This process looks for new snapshots and reads a row
   by which it knows how far each table is. A transaction is readable when all three tables have it
   and the row is in hand. CPU is the job's own, all its threads, of the time of the load.
2. `held_lines`: the job runs, a table that it does not follow is filled, then nothing happens. The
   server is asked how much log it holds for the job.

Run by `python bench/run.py cdc-lag cdc-held [--size full]`. Latencies are wall time: they want a
machine with little other work.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psutil  # noqa: E402  (the path comes first)
import psycopg  # noqa: E402
from cdc_decode import POSTGRES_ROWS, POSTGRES_TABLE  # noqa: E402
from cdc_postgres import SETTINGS  # noqa: E402
from kernel import Line, scratch  # noqa: E402
from servers.postgres import DATABASE, PASSWORD, USER, Postgres, postgres  # noqa: E402

import tidelake  # noqa: E402

TABLES = ("orders", "items", "payments")
TRANSACTIONS_A_SECOND = 100
CHANGES = (34, 33, 33)
"""Of a transaction, by table: rows that follow each other, and the row that says how far it is."""
LOOK_SECONDS = 0.01
START_SECONDS_MAX = 120
TARGET_SECONDS, TARGET_CORES = 1.5, 0.5
HELD_BYTES = 1_000_000
JOB = """
command = "postgres_sync_database"
warehouse = "{warehouse}"
database = "ods"
interval = "1 s"
including_tables = "{tables}"
[postgres_conf]
hostname = "127.0.0.1"
port = "{port}"
username = "{user}"
password = "file:{place}/password"
database-name = "{database}"
slot.name = "bench"
"""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    warm_seconds: int
    seconds: int
    held_seconds: int
    filled_rows: int


SIZES = {"small": Size(2_000, 1, 4, 3, 2_000), "full": Size(100_000, 15, 90, 180, 500_000)}


def job_file(server: Postgres, place: Path, tables: str) -> Path:
    """Write a job down; its warehouse is ``lake`` in the directory."""
    (place / "password").write_text(PASSWORD)
    text = JOB.format(
        warehouse=place / "lake", port=server.port, user=USER, place=place, database=DATABASE,
        tables=tables,
    )  # fmt: skip
    (place / "job.toml").write_text(text)
    return place / "job.toml"


@contextmanager
def job(server: Postgres, place: Path, tables: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a process of its own, from the moment when it follows."""
    file = job_file(server, place, tables)
    command = [sys.executable, "-m", "tidelake", "cdc", "run", str(file), "--json"]
    with (place / "job.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        ends = time.monotonic() + START_SECONDS_MAX
        while b'"epoch": 1' not in (place / "job.log").read_bytes():
            if process.poll() is not None or time.monotonic() > ends:
                raise AssertionError((place / "job.log").read_text()[-2000:])
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait(60)


class Watch:
    """How far each table can be read, by the row that says so."""

    def __init__(self, warehouse: Path) -> None:
        catalog = tidelake.open(warehouse)
        self.tables = {name: catalog.table(f"ods.{name}") for name in TABLES}
        self.places = {name: warehouse / "ods.db" / name / "snapshot" for name in TABLES}
        self.snapshots = dict.fromkeys(TABLES, 0)
        self.reached = dict.fromkeys(TABLES, -1)
        self.seen: list[tuple[int, float]] = []
        """Up to which transaction all tables could be read, and when."""

    def look(self) -> int:
        """Read what is new; up to which transaction all tables can be read."""
        for name, place in self.places.items():
            newest = max(int(path.name[9:]) for path in place.glob("snapshot-*"))
            if newest > self.snapshots[name]:
                self.snapshots[name] = newest
                [row] = self.tables[name].to_arrow(where="id = 0", columns=["a"]).to_pylist()
                self.reached[name] = row["a"]
        reached = min(self.reached.values())
        if not self.seen or reached > self.seen[-1][0]:
            self.seen.append((reached, time.time()))
        return reached

    def latencies(self, commits: list[float], first: int) -> list[float]:
        """Seconds from each commit on to when its rows could be read, the shortest first."""
        found, place = [], 0
        for number in range(first, len(commits)):
            while self.seen[place][0] < number:
                place += 1
            found.append(self.seen[place][1] - commits[number])
        return sorted(found)


def load(conninfo: dict[str, object], rows: int, seconds: int) -> list[float]:
    """Change rows at an even pace; when each commit returned."""
    commits = []
    with psycopg.connect(**conninfo, autocommit=True) as connection:
        began = time.time()
        for number in range(seconds * TRANSACTIONS_A_SECOND):
            time.sleep(max(0.0, began + number / TRANSACTIONS_A_SECOND - time.time()))
            start = number * 37 % (rows - max(CHANGES))
            statements = ["BEGIN"]
            for name, count in zip(TABLES, CHANGES, strict=True):
                between = f"id > {start} AND id < {start + count}"
                statements += [
                    f"UPDATE {name} SET b = b + 1, f = f + 1, ts = now() WHERE {between}",
                    f"UPDATE {name} SET a = {number} WHERE id = 0",
                ]
            connection.execute("; ".join([*statements, "COMMIT"]))
            commits.append(time.time())
    return commits


def lag_lines(size_name: str) -> Iterator[Line]:
    """The time from commit to rows in hand, and what the job costs."""
    size = SIZES[size_name]
    seconds = size.warm_seconds + size.seconds
    with (
        scratch() as place,
        postgres(18, *SETTINGS, "shared_buffers=128MB", "autovacuum=on") as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        for name in TABLES:
            connection.execute(POSTGRES_TABLE.replace("TABLE t", f"TABLE {name}"))
            connection.execute(POSTGRES_ROWS.format(size.rows).replace("INTO t", f"INTO {name}"))
            connection.execute(f"INSERT INTO {name} (id, a) VALUES (0, -1)")
        with job(server, place, "|".join(TABLES)) as process:
            used = psutil.Process(process.pid)
            watch = Watch(place / "lake")
            command = [sys.executable, __file__, json.dumps(server.conninfo()), str(size.rows),
                       str(seconds)]  # fmt: skip
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
                ends = seconds * TRANSACTIONS_A_SECOND - 1
                first = size.warm_seconds * TRANSACTIONS_A_SECOND
                began = cpu = 0.0
                while watch.look() < ends:
                    if not began and watch.seen[-1][0] >= first:
                        began, cpu = time.time(), sum(used.cpu_times()[:2])
                    if process.poll() is not None:
                        raise AssertionError((place / "job.log").read_text()[-2000:])
                    time.sleep(LOOK_SECONDS)
                taken, cpu = time.time() - began, sum(used.cpu_times()[:2]) - cpu
                assert writer.stdout is not None
                commits = json.loads(writer.stdout.read())
            check(watch, connection)
    found = watch.latencies(commits, first)
    median, last = statistics.median(found), found[int(0.99 * len(found))]
    rate = (len(commits) - first) * sum(CHANGES) / (commits[-1] - commits[first])
    what = f"PostgreSQL's commit to rows in hand, {rate:,.0f} changes/s over 3 tables"
    goal = f"median <= {TARGET_SECONDS} s" + (", **missed**" if median > TARGET_SECONDS else "")
    yield Line("CDC", what, "", None, goal, f"median {median:.2f} s, p99 {last:.2f} s")
    goal = f"<= {TARGET_CORES} core" + (", **missed**" if cpu / taken > TARGET_CORES else "")
    yield Line("CDC", "CPU of the job meanwhile", "", None, goal, f"{cpu / taken:.2f} cores")


def check(watch: Watch, connection: psycopg.Connection) -> None:
    """Compare the tables with their sources."""
    for name, table in watch.tables.items():
        rows = table.to_arrow(columns=["a", "b"])
        ours = (rows.num_rows, sum(rows["a"].to_pylist()), sum(filter(None, rows["b"].to_pylist())))
        query = f"SELECT count(*), sum(a)::int8, sum(b)::int8 FROM {name}"
        theirs = connection.execute(query).fetchone()
        if ours != theirs:
            message = f"{name} has {ours}, its source {theirs}"
            raise AssertionError(message)


HELD = """
SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = 'bench'
"""


def held_lines(size_name: str) -> Iterator[Line]:
    """How much log a server holds for the job of a database in which nothing happens."""
    size = SIZES[size_name]
    with (
        scratch() as place,
        postgres(18, *SETTINGS) as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):

        def held() -> int:
            return int(connection.execute(HELD).fetchone()[0])

        connection.execute(POSTGRES_TABLE)
        connection.execute(POSTGRES_ROWS.format(1_000))
        with job(server, place, "t"):
            connection.execute("CREATE TABLE other (id int, v text)")
            connection.execute(
                "INSERT INTO other SELECT g, repeat(md5(g::text), 3)"
                f" FROM generate_series(1, {size.filled_rows}) g"
            )
            began, most = time.monotonic(), held()
            while held() > HELD_BYTES and time.monotonic() - began < START_SECONDS_MAX:
                time.sleep(0.1)
            wait = time.monotonic() - began
            found = []
            while time.monotonic() - began < wait + size.held_seconds:
                found.append(held())
                time.sleep(0.5)
    what = f"log held for the job of an idle database, {size.held_seconds} s"
    goal = "< 1 MB" + (", **missed**" if max(found) >= HELD_BYTES else "")
    note = f"{max(found):,} bytes at most; {wait:.0f} s after {most / 1e6:.1f} MB of another table"
    yield Line("CDC", what, "", None, goal, note)


if __name__ == "__main__":
    conninfo, rows, seconds = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    sys.stdout.write(json.dumps(load(conninfo, rows, seconds)))
