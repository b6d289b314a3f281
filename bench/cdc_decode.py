"""A database's log to typed Arrow: beside Debezium's embedded engine, and beside mysql-replication.

Tables have ten columns: bigint key, int, bigint, numeric(12,2), text, varchar, double precision,
bool, timestamp, date. Each transaction updates 1,000 rows. CPU seconds of the reader alone: the
servers are processes beside it.

1. PostgreSQL 18 by pgoutput, in ranges of several sizes; beside it Debezium's engine in a JVM of
   its own, which gives Kafka Connect's records of the same log, without making JSON of them. Its
   seconds count after half of the log, so that the JVM is warm.
2. MariaDB's binlog; beside it `mysql-replication` in this process, which gives a dict for each row.

Debezium's jars come by Maven on first use; full size alone runs it.

Run by `python bench/run.py cdc-decode [--size full]`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import kafka_broker  # noqa: E402  (the path comes first)
import psycopg  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
from cdc_postgres import SETTINGS, Place  # noqa: E402
from kernel import Line  # noqa: E402
from measure import paired, ratio, timed  # noqa: E402
from servers.mariadb import AbsentError, Server, mariadb  # noqa: E402
from servers.postgres import DATABASE, PASSWORD, USER, postgres  # noqa: E402

from tidelake.cdc.mysql.settings import MySqlSettings  # noqa: E402
from tidelake.cdc.mysql.source import MySqlSource  # noqa: E402
from tidelake.cdc.source.changes import Changes, SourceRows  # noqa: E402
from tidelake.cdc.source.source import EpochLimits, Source  # noqa: E402
from tidelake.cdc.source.source_table import SourceName  # noqa: E402
from tidelake.cdc.source.type_mapping import TypeMapping  # noqa: E402
from tidelake.engine.env import SystemClock  # noqa: E402

DEBEZIUM = "3.6.1.Final"
JARS = kafka_broker.JARS.parent.parent / "debezium" / DEBEZIUM
ARTIFACTS = [
    f"io.debezium:debezium-{name}:{DEBEZIUM}" for name in ("embedded", "connector-postgres")
]
PROGRAM = HERE / "java" / "DebeziumLog.java"
DEBEZIUM_SECONDS_MAX = 400
ROWS = 1_000
"""Of the tables, and of a transaction."""
EPOCH = 10_000
"""Rows of a range in the paired lines: a second of 10,000 changes."""
TIMES = "<= 0.05"
POSTGRES_TABLE = (
    "CREATE TABLE t (id bigint PRIMARY KEY, a int, b bigint, d numeric(12,2), x text,"
    " v varchar(64), f double precision, o bool, ts timestamptz, dt date)"
)
POSTGRES_ROWS = (
    "INSERT INTO t SELECT g, g, g * 7, g / 7.0, 'text ' || g, md5(g::text), g / 3.0, g % 2 = 0,"
    " now() - g * interval '1 s', current_date - g % 1000 FROM generate_series(1, {}) g"
)
MARIA_TABLE = (
    "CREATE TABLE t (id bigint PRIMARY KEY, a int, b bigint, d decimal(12,2), x text,"
    " v varchar(64), f double, o tinyint(1), ts datetime(6), dt date)"
)
MARIA_ROWS = (
    "INSERT INTO t SELECT seq, seq, seq * 7, seq / 7, concat('text ', seq), md5(seq), seq / 3,"
    " seq % 2, timestamp'2024-01-01 00:00:00' + INTERVAL seq SECOND,"
    " date'2024-01-01' + INTERVAL seq % 365 DAY FROM seq_1_to_{}"
)


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    transactions: int
    rounds: int
    with_debezium: bool = False


SIZES = {"small": Size(20, 1), "full": Size(200, 5, with_debezium=True)}


@dataclass(frozen=True)
class Log:
    """A part of a server's log, with so many updates of one table."""

    source: Source
    tables: list[SourceName]
    start: str
    goal: str
    count: int

    def ranges(self, rows_max: int) -> Iterator[Changes]:
        """Read it from its start, in ranges of so many rows."""
        position, seen = self.start, 0
        # time does not cut the ranges: they are full before
        limits = EpochLimits(rows_max=rows_max, gather_ms=10_000)
        while seen < self.count and self.source.is_before(position, self.goal):
            changes = self.source.read(position, self.tables, limits)
            seen, position = seen + changes.rows_count, changes.end
            yield changes

    def read(self, rows_max: int) -> int:
        """Read it; number of rows."""
        return sum(changes.rows_count for changes in self.ranges(rows_max))

    def answer(self) -> tuple[int, int]:
        """Number of rows, and the sum of column b."""
        found = [0, 0]
        for changes in self.ranges(EPOCH):
            for part in changes.parts:
                assert isinstance(part, SourceRows), part
                found[0] += part.rows.num_rows
                found[1] += pc.sum(part.rows["b"]).as_py()
        return found[0], found[1]


def expected(transactions: int) -> tuple[int, int]:
    """The answer by arithmetic: b is 7 g at first, and each transaction adds 1."""
    first = 7 * ROWS * (ROWS + 1) // 2
    added = ROWS * transactions * (transactions + 1) // 2
    return ROWS * transactions, first * transactions + added


def check(answer: object, transactions: int) -> None:
    """Compare an answer with arithmetic."""
    if answer != expected(transactions):
        message = f"{answer} is not {expected(transactions)}"
        raise AssertionError(message)


def rates(name: str, log: Log, target: int) -> Iterator[Line]:
    """Events of each CPU second, by the size of a range."""
    log.read(EPOCH)  # warms up
    for rows_max in (200_000, EPOCH, 1_000)[0 if log.count >= 200_000 else 1 :]:
        seconds, _ = timed(lambda size=rows_max: log.read(size), time.process_time)
        rate = log.count / seconds / 1000
        goal = f">= {target} k"
        if rows_max < EPOCH:
            goal = ""
        elif rate < target and log.count >= 100_000:  # of a short log it is start-up
            goal += ", **missed**"
        what = f"{name} to Arrow, 10 columns, ranges of {rows_max:,}"
        yield Line("CDC", what, "", None, goal, f"{rate:.0f} k events per CPU-second")


def postgres_lines(size: Size) -> Iterator[Line]:
    """The log of PostgreSQL."""
    with (
        postgres(18, *SETTINGS) as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        place.run(POSTGRES_TABLE, POSTGRES_ROWS.format(ROWS))
        source, names, start = place.followed()
        [(publication,)] = place.rows("SELECT pubname FROM pg_publication")
        slots = [f"debezium_{number}" for number in range(size.rounds if size.with_debezium else 0)]
        for slot in slots:
            place.rows(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
        for _ in range(size.transactions):
            place.run("UPDATE t SET a = a + 1, b = b + 1, f = f + 1, ts = now()")
        log = Log(source, names, start, source.newest(), ROWS * size.transactions)
        check(log.answer(), size.transactions)
        yield from rates("PostgreSQL's log", log, 250)
        if slots:
            arguments = [str(server.port), USER, PASSWORD, DATABASE, publication]
            yield beside_debezium(log, arguments, slots)
        source.drop()
        source.close()


def beside_debezium(log: Log, arguments: list[str], slots: list[str]) -> Line:
    """The same log by Debezium's engine, each time from a slot of its own."""
    what = f"PostgreSQL's log, {log.count:,} updates, ranges of {EPOCH:,}"
    against = f"Debezium's embedded engine {DEBEZIUM}, records"
    try:
        jars = kafka_broker.jars(JARS, *ARTIFACTS)
    except AbsentError as reason:
        return Line("CDC", what, against, None, TIMES, str(reason))
    half = log.count // 2
    class_path = os.pathsep.join(map(str, jars))
    ours, theirs = [], []
    for slot in slots:
        seconds = timed(lambda: log.read(EPOCH), time.process_time)
        ours.append([one / log.count for one in seconds])
        command = ["java", "-Xmx1g", "-cp", class_path, str(PROGRAM), *arguments, slot, str(half),
                   str(log.count - half), "records"]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEBEZIUM_SECONDS_MAX, check=True
        )
        told = json.loads(done.stdout.splitlines()[-1])
        check((log.count, told["sum"]), log.count // ROWS)
        theirs.append([told[kind] / told["events"] for kind in ("cpu", "wall")])
    walls = [a[1] / b[1] for a, b in zip(ours, theirs, strict=True)]
    found = ratio([one[0] for one in ours], [one[0] for one in theirs], walls)
    rate = 1 / found.b_cpu_seconds / 1000
    return Line("CDC", what, f"{against}: {rate:.1f} k per CPU-second", found, TIMES)


def maria_lines(size: Size) -> Iterator[Line]:
    """The binlog of MariaDB."""
    try:
        with mariadb() as server:
            server.do(MARIA_TABLE, MARIA_ROWS.format(ROWS))
            settings = MySqlSettings.of(server.conf())
            source = MySqlSource(settings, TypeMapping(), SystemClock())
            start = source.newest()
            [(file, offset, *_)] = server.do("SHOW MASTER STATUS")
            for _ in range(size.transactions):
                server.do("UPDATE t SET a = a + 1, b = b + 1, f = f + 1, ts = now(6)")
            names = [table.name for table in source.tables()]
            log = Log(source, names, start, source.newest(), ROWS * size.transactions)
            check(log.answer(), size.transactions)
            yield from rates("MariaDB's binlog", log, 120)
            yield beside_library(log, server, file, offset, size.rounds)
            source.close()
    except AbsentError as reason:
        yield Line("CDC", "MariaDB's binlog", "", None, "", str(reason))


def beside_library(log: Log, server: Server, file: str, offset: int, rounds: int) -> Line:
    """The same binlog by mysql-replication, where it is installed."""
    what = f"MariaDB's binlog, {log.count:,} updates, ranges of {EPOCH:,}"
    try:
        theirs = library(server, file, offset)
    except ImportError as reason:
        return Line("CDC", what, "mysql-replication", None, TIMES, str(reason))
    check(theirs(), log.count // ROWS)
    found = paired(lambda: log.read(EPOCH), theirs, rounds=min(rounds, 3), cpu=time.process_time)
    rate = log.count / found.b_cpu_seconds / 1000
    return Line("CDC", what, f"mysql-replication: {rate:.1f} k per CPU-second", found, TIMES)


def library(server: Server, file: str, offset: int) -> Callable[[], tuple[int, int]]:
    """What reads the binlog by mysql-replication, and gives the answer."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import UpdateRowsEvent

    reach: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "user": server.user,
                             "passwd": server.password}  # fmt: skip

    def read() -> tuple[int, int]:
        stream = BinLogStreamReader(
            connection_settings=reach, server_id=99, log_file=file, log_pos=offset,
            resume_stream=True, only_events=[UpdateRowsEvent],
        )  # fmt: skip
        count = total = 0
        for event in stream:
            for row in event.rows:
                count += 1
                total += row["after_values"]["b"]
        stream.close()
        return count, total

    return read


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    yield from postgres_lines(size)
    yield from maria_lines(size)
