"""The first copy of a table of PostgreSQL beside a bare COPY, which ``psql`` throws away.

Once to typed Arrow in this process, and once as the command ``tidelake cdc run --once`` does it:
its start, a slot, a snapshot, a table in the lake with a primary key, sorted and committed. The
table has ten columns; COPY writes CSV. CPU seconds are those of all processes, the server's too,
which for all of them takes the same rows out of its pages.

Run by `python bench/run.py cdc-copy [--size full]`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psycopg  # noqa: E402  (the path comes first)
from cdc_decode import POSTGRES_ROWS, POSTGRES_TABLE  # noqa: E402
from cdc_lag import job_file  # noqa: E402
from cdc_postgres import SETTINGS, Place  # noqa: E402
from kernel import Line, scratch  # noqa: E402
from measure import paired, tree_cpu_seconds  # noqa: E402
from servers.postgres import DATABASE, PASSWORD, USER, Postgres, postgres  # noqa: E402

import tidelake  # noqa: E402

TARGET = "<= 1.67"
"""Of seconds: 0.6 of the rate."""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    rows: int
    chunk_rows: int
    rounds: int


SIZES = {"small": Size(100_000, 25_000, 1), "full": Size(10_000_000, 500_000, 3)}


def cpu_seconds() -> float:
    """Seconds of this process, of its children, and of those that have ended.

    A process that ends between two looks is in nobody's account for a moment, so the most of
    several sums counts.
    """
    found = []
    for _ in range(3):
        time.sleep(0.05)
        ended = os.times()
        found.append(tree_cpu_seconds() + ended.children_user + ended.children_system)
    return max(found)


def bare(server: Postgres) -> Callable[[], object]:
    """COPY whose lines nobody keeps."""
    command = [
        str(server.bin_path / "psql"), "-q", "-h", "127.0.0.1", "-p", str(server.port), "-U", USER,
        "-d", DATABASE, "-c", "COPY t TO STDOUT (FORMAT csv)",
    ]  # fmt: skip
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def to_arrow(place: Place, rows: int, chunk_rows: int) -> Callable[[], object]:
    """The copy to Arrow, chunk by chunk; the batches are dropped."""
    source = place.source()
    tables = source.tables()

    def act() -> None:
        with source.first_copy([]) as first:
            found = sum(
                batch.rows.num_rows
                for chunk in first.chunks(tables[0], rows_max=chunk_rows)
                for batch in first.read(chunk)
            )
        source.drop()
        if found != rows:
            message = f"{found} rows were copied of {rows}"
            raise AssertionError(message)

    return act


def by_job(server: Postgres, place: Path, rows: int) -> Callable[[], object]:
    """The whole copy by the command."""
    file = job_file(server, place, "t")

    def act() -> None:
        command = [sys.executable, "-m", "tidelake", "cdc"]
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*command, "run", str(file), "--once"], **quiet)
        found = len(tidelake.open(place / "lake").table("ods.t").scan())
        if found != rows:
            message = f"{found} rows were copied of {rows}"
            raise AssertionError(message)
        tidelake.cdc.from_file(file).drop()
        shutil.rmtree(place / "lake")

    return act


def lines(size_name: str) -> Iterator[Line]:
    """All lines of this file."""
    size = SIZES[size_name]
    with (
        scratch() as place,
        postgres(18, *SETTINGS, "shared_buffers=256MB", "max_wal_size=8GB") as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        source = Place(server, DATABASE, connection)
        source.run(POSTGRES_TABLE, POSTGRES_ROWS.format(size.rows), "VACUUM ANALYZE t")
        reference = bare(server)
        reference()
        for what, ours in (
            ("to Arrow", to_arrow(source, size.rows, size.chunk_rows)),
            ("to a table, by the command", by_job(server, place, size.rows)),
        ):
            found = paired(ours, reference, rounds=size.rounds, cpu=cpu_seconds, warm=False)
            what = f"first copy of {size.rows:,} rows {what}"
            yield Line("CDC", what, "a bare COPY by psql to /dev/null", found, TARGET)
