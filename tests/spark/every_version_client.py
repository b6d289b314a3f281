"""Run by test_every_version.py in a process of its own: a client of Spark Connect, PySpark alone.

Takes the server's URL with its token, and a work folder. Prints one JSON object: what it saw.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

WAIT_S = 120


def rows(frame) -> list[list[object]]:
    return sorted(list(row) for row in frame.collect())


def main() -> None:
    url, work = sys.argv[1:]
    spark = SparkSession.builder.remote(url).getOrCreate()
    table, some = "served.default.t", "SELECT k, v FROM served.default.t WHERE k < 3 OR k > 1500"
    seen = {"counted": rows(spark.sql(f"SELECT count(*) FROM {table}"))}
    spark.sql(f"INSERT INTO {table} VALUES (2000, 'in', 1.5)")
    seen["inserted"] = rows(spark.table(table).where("k > 1500").select("k", "v"))
    spark.sql("SELECT id AS k FROM range(2) UNION ALL SELECT 3000").createOrReplaceTempView("came")
    spark.sql(
        f"MERGE INTO {table} t USING came s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'met'"
        " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 'new')"
    )
    seen["merged"] = rows(spark.sql(some))
    writer = spark.readStream.table(table).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{work}/of-client")
    query = writer.toTable("served.default.o")
    seen["streamed"] = query.awaitTermination(WAIT_S) and query.exception() is None
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
