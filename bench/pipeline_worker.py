"""One engine's side of the Spark benchmark: takes commands on stdin, answers in JSON on stdout.

Usage: python pipeline_worker.py {tidelake,paimon,delta,iceberg,hudi} WORK_DIR DATA_DIR [JAR ...]

The driver (`pipeline.py`) starts one worker per engine, each in its own virtualenv, and gives
them commands in turn, so that both engines are measured side by side on the same rows. Every
answer holds CPU seconds of the JVM and its Python workers, wall seconds, and the answer's digest.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from merging_peers import PEERS
from plain_spark import BUCKETS, MERGE, Common
from tree_cpu import TreeCpu

ENGINE, WORK, DATA = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
EXTENSIONS = "org.apache.paimon.spark.extensions"


class Tidelake(Common):
    """Our side."""

    def __init__(self) -> None:
        import tidelake.spark as ts

        super().__init__(
            ts.session(
                "bench",
                master="local[2]",
                conf={"spark.driver.memory": "6g", "spark.sql.shuffle.partitions": str(BUCKETS)},
            ),
            WORK,
            DATA,
        )
        self.lake = ts.attach(self.spark, str(WORK / "tidelake"))
        self.name = ""

    def load(self, number: int) -> None:
        self.name = f"db.t{number}"
        frame = self.base()
        self.lake.create_table(
            self.name, frame, primary_keys=["k"], options={"bucket": str(BUCKETS)}
        )
        self.lake.write(frame, self.name)

    def upsert(self, number: int) -> None:
        self.lake.write(self.upsert_rows(number), self.name)

    def merge(self, number: int) -> None:
        self.changes(number)
        self.lake.sql(MERGE.format(self.name))

    def scan(self) -> list[str]:
        return self.aggregate(self.lake.table(self.name, columns=["k", "i", "s20", "d", "m", "t"]))

    def compact(self) -> None:
        assert self.lake.compact(self.name, full=True).snapshot_ids, "there is something to compact"

    def files(self) -> list[str]:
        table = self.lake.catalog.table(f"{self.name}$files")
        return sorted(table.to_arrow()["file_path"].to_pylist())


class Paimon(Common):
    """Java Paimon on Spark."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.jars", sys.argv[4])
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "6g",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": str(BUCKETS),
            "spark.sql.extensions": f"{EXTENSIONS}.PaimonSparkSessionExtensions",
            "spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.p.warehouse": f"file:{WORK}/paimon",
            "spark.sql.catalog.p.cache-enabled": "false",
        }.items():
            builder = builder.config(key, value)
        super().__init__(builder.getOrCreate(), WORK, DATA)
        self.spark.sql("CREATE DATABASE IF NOT EXISTS p.db")
        self.name = ""

    def load(self, number: int) -> None:
        self.name = f"p.db.t{number}"
        self.base().createOrReplaceTempView("src")
        types = {f.name: f.dataType.simpleString() for f in self.base().schema}
        types["k"] += " NOT NULL"
        columns = ", ".join(f"{n} {t}" for n, t in types.items())
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns}) "
            f"TBLPROPERTIES ('primary-key'='k', 'bucket'='{BUCKETS}')"
        )
        self.spark.sql(f"INSERT INTO {self.name} SELECT * FROM src")

    def upsert(self, number: int) -> None:
        rows = self.upsert_rows(number)
        rows.filter("_row_kind = '+I'").drop("_row_kind").createOrReplaceTempView("ups")
        rows.filter("_row_kind = '-D'").createOrReplaceTempView("dels")
        self.spark.sql(f"INSERT INTO {self.name} SELECT * FROM ups")
        self.spark.sql(f"DELETE FROM {self.name} WHERE k IN (SELECT k FROM dels)")

    def merge(self, number: int) -> None:
        self.changes(number)
        self.spark.sql(MERGE.format(self.name))

    def scan(self) -> list[str]:
        return self.aggregate(self.spark.table(self.name))

    def compact(self) -> None:
        bare = self.name.removeprefix("p.")
        self.spark.sql(f"CALL p.sys.compact(table => '{bare}')").collect()

    def files(self) -> list[str]:
        rows = self.spark.sql(
            f"SELECT file_path FROM `{self.name}$files`".replace("`p.db.", "p.db.`")
        )
        return sorted(r[0] for r in rows.collect())


def main() -> None:
    """Answer commands until stdin ends."""
    tree = TreeCpu()
    if ENGINE in PEERS:
        engine = PEERS[ENGINE](WORK, DATA, sys.argv[4:])
    else:
        engine = Tidelake() if ENGINE == "tidelake" else Paimon()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        cpu, began = tree.seconds(), time.perf_counter()
        answer = getattr(engine, name)(*arguments)
        wall = time.perf_counter() - began
        figures = {"wall": wall, "cpu": tree.seconds() - cpu, "answer": answer}
        print(json.dumps(figures), flush=True)


main()
