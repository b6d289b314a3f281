"""Runs the scripts of ``sql/`` on Java Paimon; in the virtual environment of its own.

Usage: ``python sql_dump.py PAIMON_SPARK_JAR WAREHOUSE FIXTURES ANSWERS [SCRIPT ...]``

When the answers are written, it reads a line of its input: the place of the warehouse that the
other side made. It reads every table there, and every one of its own, and writes the rows beside
the answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import SparkSession

from interop.sql_scripts import plain, run_script, scripts

LOOPBACK = "127.0.0.1"


def _rows(session: SparkSession, table: Path) -> list[str] | str:
    """The rows of a table as texts, or why it cannot be read."""
    try:
        rows = session.read.format("paimon").load(f"file:{table}").collect()
    except Exception as error:  # noqa: BLE001 - what it cannot read is what is looked for
        return f"{type(error).__name__}: {error}"[:2000]
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def main() -> None:
    """Run all scripts in one session."""
    jar, warehouse, fixtures, answered = sys.argv[1:5]
    wanted = sys.argv[5:]
    settings = {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1500m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.tidelake": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.tidelake.warehouse": f"file:{warehouse}",
        "spark.sql.catalog.tidelake.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]").appName("scripts")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def run(text: str) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
        frame = session.sql(text)
        return frame.columns, frame.collect()

    session.sql("USE tidelake")
    answers = {}
    for script in scripts():
        if wanted and script.name not in wanted:
            continue
        session.sql(f"CREATE DATABASE {script.name}")
        session.sql(f"USE {script.name}")
        answers[script.name] = run_script(
            script, run, Path(warehouse), fixtures=Path(fixtures), java=True
        )
        Path(answered).write_text(json.dumps(answers))
    print("answered", flush=True)

    other = sys.stdin.readline().strip()
    found = {}
    for side, place in (("ours", other), ("java", warehouse)):
        tables = sorted(Path(place).glob("*.db/*/schema")) if other else []
        found[side] = {
            f"{schema.parents[1].stem}.{schema.parent.name}": _rows(session, schema.parent)
            for schema in tables
        }
    Path(answered).with_suffix(".read").write_text(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main()
