"""What every engine of the Spark benchmarks does alike: Spark's own write and read, the limits.

PySpark alone, of any version from 3.5 on: it runs in the peers' virtualenvs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

BUCKETS = 8
AGGREGATES = [
    "count(*)",
    "sum(k)",
    "sum(cast(i as bigint))",
    "max(s20)",
    "sum(d)",
    "sum(m)",
    "max(t)",
]
MERGE = """
    MERGE INTO {} AS t USING changes AS s ON t.k = s.k
    WHEN MATCHED AND s._row_kind = '-D' THEN DELETE
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED AND s._row_kind = '+I' THEN INSERT *
"""


class Common:
    """What both engines do alike: Spark's own write and read, the limits."""

    def __init__(self, spark, work: Path, data: Path) -> None:
        self.spark = spark
        self.work = work
        self.data = data

    def base(self):
        return self.spark.read.parquet(str(self.data / "base"))

    def upsert_rows(self, number: int):
        return self.spark.read.parquet(str(self.data / f"upsert-{number}"))

    def changes(self, number: int) -> None:
        """What is merged, as a view of the session."""
        self.upsert_rows(number).createOrReplaceTempView("changes")

    def sort_write(self) -> None:
        out = self.work / "sorted"
        shutil.rmtree(out, ignore_errors=True)
        frame = self.base().repartition(BUCKETS, "k").sortWithinPartitions("k")
        frame.write.option("compression", "zstd").parquet(str(out))

    def aggregate(self, frame) -> list[str]:
        return [str(v) for v in frame.selectExpr(*AGGREGATES).first()]

    def scan_plain(self, files: list[str]) -> list[str]:
        """Spark's own scan of the table's files, merging nothing."""
        columns = ["k", "i", "s20", "d", "m", "t"]
        return self.aggregate(self.spark.read.parquet(*files).select(*columns))
