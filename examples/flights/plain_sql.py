"""The demo in SQL by plain ``spark.sql``: ``python plain_sql.py FOLDER WAREHOUSE``.

All of flights.sql is Spark's own SQL. The session only has the warehouse as a catalog, and the raw
flights of the folder as the view ``raw``. Any other program of Spark's can do the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import tidelake.spark

SCRIPT = Path(__file__).with_name("flights.sql")


def statements() -> list[str]:
    """The statements of the script; each ends with a semicolon at the end of a line."""
    return [part for part in SCRIPT.read_text(encoding="utf-8").split(";\n") if part.strip()]


def answers(spark: SparkSession, folder: Path) -> Iterator[tuple[str, DataFrame]]:
    """Run the statements one by one; each with what it answers."""
    flights = (folder / "flights.parquet").resolve()
    spark.sql(f"CREATE TEMPORARY VIEW raw AS SELECT * FROM parquet.`file:{flights}`")
    spark.sql("USE tidelake")
    for text in statements():
        yield text, spark.sql(text)


def main() -> None:
    """Run the script and show what it answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("warehouse")
    given = parser.parse_args()
    spark = tidelake.spark.session("flights by spark.sql", master="local[2]")
    tidelake.spark.attach(spark, given.warehouse)
    begin = time.perf_counter()
    for text, answer in answers(spark, given.folder):
        print(f"{text.strip()};")
        if answer.columns:
            answer.show(100, truncate=False)
    print(f"All by plain spark.sql, in {time.perf_counter() - begin:.0f} s.")


if __name__ == "__main__":
    main()
