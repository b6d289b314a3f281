"""Lets Delta write a table with deletion vectors: ``tests/golden/delta_vectors``.

Usage: ``python record_delta_vectors.py JAR ...``, with the PySpark and the jars of Delta that
``bench/merging_peers.py`` names. It was run once, with Delta 4.4.0 on Spark 4.1.2; a new run
replaces the table, as its files have other names each time.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

RECORDED = Path(__file__).parents[3] / "golden" / "delta_vectors"
PLACE = RECORDED / "table"
STATEMENTS = (
    "DELETE FROM {t} WHERE g = 3 OR (g > 60 AND v = 5)",
    "DELETE FROM {t} WHERE g BETWEEN 64 AND 66",
    "INSERT INTO {t} VALUES (-1, 1), (-1, 2)",
    "UPDATE {t} SET v = -5 WHERE v = 2 AND g < 2",
    "DELETE FROM {t} WHERE g = 0",
)
"""With a checkpoint behind every third version. The second crosses a border of 65,536 rows."""


def main(jars: list[str]) -> None:
    """Write the table, and what Delta reads of it."""
    shutil.rmtree(RECORDED, ignore_errors=True)
    builder = SparkSession.builder.master("local[1]").config("spark.jars", ",".join(jars))
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for rows_count in (70_000, 100):  # one file each
        rows = spark.range(0, rows_count, 1, 1)
        rows = rows.selectExpr("int(id div 1000) AS g", "int(id % 7) AS v")
        writer = rows.write.format("delta").mode("append")
        writer.option("delta.enableDeletionVectors", "true").option(
            "delta.checkpointInterval", "3"
        ).save(str(PLACE))
    for statement in STATEMENTS:
        spark.sql(statement.format(t=f"delta.`{PLACE}`"))
    found = spark.sql(f"SELECT g, v, count(*) FROM delta.`{PLACE}` GROUP BY g, v ORDER BY g, v")
    counts = [list(row) for row in found.collect()]
    (RECORDED / "expected.json").write_text(json.dumps(counts) + "\n", encoding="utf-8")
    spark.stop()
    for path in PLACE.rglob("*"):
        if path.suffix == ".crc" or path.name.endswith(".crc"):
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
