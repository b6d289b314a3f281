"""A database and the lake: ``make demo-cdc``.

A PostgreSQL holds a year of flights, and two programs change it all the time. One command keeps
four tables equal in the lake. On the way a column is added, and the job is killed and started
again, while Spark reads the tables. At the end each table is compared with its source, row by row.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from airline import TABLES, Work, fill
from rich.console import Console
from rich.table import Table
from server import DATABASE, PASSWORD, USER, postgres

import tidelake
import tidelake.spark

OUT = Path("out") / "cdc"
WAREHOUSE = OUT / "warehouse"
JOB = OUT / "job.toml"
VARIABLE = "AIRLINE_PASSWORD"
WORK_SECONDS = 20
DELAYS = """
SELECT a.name, count(*) AS flights, round(avg(f.dep_delay), 2) AS delay
FROM ods.flights f JOIN ods.airlines a USING (carrier)
GROUP BY a.name ORDER BY flights DESC LIMIT 3
"""


def write_job(reach: dict[str, Any]) -> None:
    """Write the job's file: all that the command needs but the password."""
    JOB.write_text(
        f'''command = "postgres_sync_database"
warehouse = "{WAREHOUSE}"
database = "ods"
table_conf = {{ bucket = 2 }}

[postgres_conf]
hostname = "{reach["host"]}"
port = {reach["port"]}
username = "{USER}"
password = "env:{VARIABLE}"
database-name = "{DATABASE}"
slot.name = "demo"
'''
    )


def begin(log: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "tidelake", "cdc", "run", str(JOB), "--json", *more]
    environment = {**os.environ, VARIABLE: PASSWORD}
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment)


def epochs(log: Path) -> list[dict[str, Any]]:
    """What the job has said so far, an epoch a line."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


def wait_for_copy(log: Path, process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait until the tables are copied."""
    while not epochs(log):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        time.sleep(0.2)
    return epochs(log)[0]


def differences(reach: dict[str, Any], table: str) -> tuple[int, int]:
    """Rows of a table in the source, and how many rows differ in the lake."""
    with psycopg.connect(**reach) as connection:
        connection.execute("SET timezone = 'UTC'")
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column.name for column in cursor.description or ()]
        source = set(cursor.fetchall())
    rows = tidelake.open(WAREHOUSE).table(f"ods.{table}").to_arrow(columns=names)
    lake = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return len(source), len(source ^ set(lake)) + len(lake) - len(set(lake))


def main() -> int:
    """Run the demo; 0 if all tables are equal."""
    console = Console()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    log = OUT / "epochs.jsonl"
    with postgres(OUT.absolute() / "postgres") as reach:
        console.print(f"PostgreSQL holds {fill(reach):,} rows in {len(TABLES)} tables.")
        write_job(reach)
        work = Work(reach)
        work.start()
        process = begin(log)
        copied = wait_for_copy(log, process)
        console.print(f"The job copied {copied['rows_count']:,} rows while two programs worked on.")
        time.sleep(WORK_SECONDS / 4)
        work.add_column()
        console.print("A column was added: flights.gate.")
        time.sleep(WORK_SECONDS / 4)
        process.send_signal(signal.SIGKILL)
        process.wait()
        console.print(f"The job was killed after epoch {epochs(log)[-1]['epoch']}.")
        process = begin(log)
        spark = tidelake.spark.session()
        lake = tidelake.spark.attach(spark, WAREHOUSE)
        for row in lake.sql(DELAYS).collect():
            console.print(f"Spark: {row['name']}: {row['flights']:,} flights, {row['delay']} min")
        time.sleep(WORK_SECONDS / 2)
        work.stop()
        process.send_signal(signal.SIGINT)
        process.wait()
        last = begin(log, "--once")
        if last.wait():
            raise SystemExit(log.read_text())
        shown = Table("table", "rows in the source", "rows that differ in the lake")
        found = {table: differences(reach, table) for table in TABLES}
        for table, (count, differ) in found.items():
            shown.add_row(table, f"{count:,}", f"{differ:,}")
        console.print(shown)
        applied = sum(one["rows_count"] for one in epochs(log))
        console.print(
            f"{work.transactions:,} transactions, {applied:,} rows applied in"
            f" {len(epochs(log))} epochs. The lake: {WAREHOUSE}"
        )
        spark.stop()
    return 1 if any(differ for _, differ in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
