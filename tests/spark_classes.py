"""Make the archive of Spark's classes that the JVMs of a test run map (``quick_spark.CLASSES``).

A JVM reads, checks and links 15,000 classes before Spark has run its first statements; a run of all
tests starts about forty. Out of the archive each takes 4 s of CPU less.

1. A session runs statements of all kinds; its JVM writes what it loaded when it ends.
2. The file gets its name when it is whole. A JVM takes it if its jars are those of the archive.

Run by ``make``; without it the tests only take longer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import quick_spark

import tidelake.spark

STATEMENTS = (
    "CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')",
    "CREATE TABLE s (k INT, v STRING)",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO t VALUES (1, 'c'), (3, 'b')",
    "MERGE INTO t USING (SELECT 1 AS k, 'z' AS v) s ON t.k = s.k"
    " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
    "UPDATE t SET v = 'q' WHERE k = 3",
    "SELECT k, v, count(*) FROM t GROUP BY k, v ORDER BY k",
)


def main() -> None:
    """Make the archive, also where there is one."""
    partial = quick_spark.CLASSES.with_suffix(".partial")
    options = f"{quick_spark.FLAGS} -XX:ArchiveClassesAtExit={partial}"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        spark = quick_spark.session(work, {"spark.driver.extraJavaOptions": options})
        lake = tidelake.spark.attach(spark, work / "warehouse")
        for text in STATEMENTS:
            lake.sql(text).collect()
        lake.write_stream(
            lake.read_stream("default.t", options={"read.changelog": False}).drop("_row_kind"),
            "default.s",
            checkpoint=work / "checkpoint",
            trigger="availableNow",
        ).awaitTermination()
        jvm = spark.sparkContext._gateway.proc
        spark.stop()
        jvm.stdin.close()  # with it the JVM ends
        jvm.wait()
    partial.rename(quick_spark.CLASSES)


if __name__ == "__main__":
    main()
