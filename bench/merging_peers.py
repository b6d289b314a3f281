"""Delta, Iceberg and Hudi on Spark, for the benchmark of MERGE: how each is fetched, set up, asked.

Jars come with Maven, and the PySpark of Hudi with pip, into ``.venv-oracle/peers/`` of the
checkout; nothing is downloaded twice. Each runs on the newest Spark that it supports: Delta and
Iceberg on 4.1, beside Java Paimon, Hudi on 3.5. Set up for merges as their own documentation says:

- Delta: deletion vectors; two partitions for the state of its log, where fifty are the default.
- Iceberg: format 2, merge-on-read, eight buckets of the key.
- Hudi: merge-on-read, bucket index of eight buckets, no cleaning and no metadata table. It has its
  own upsert, with a column that says what is deleted: quicker than its MERGE INTO, which becomes
  one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from plain_spark import BUCKETS, MERGE, Common

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".venv-oracle" / "peers"
SPARK_41 = ROOT / ".venv-oracle" / "spark41" / "bin" / "python"
SPARK_35 = KEPT / "spark35" / "bin" / "python"
JARS = {
    "delta": (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
        "io.unitycatalog:unitycatalog-client:0.6.0",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0",
    ),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    "hudi": ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",),
}
TITLES = {
    "delta": "Delta 4.4 on Spark 4.1",
    "iceberg": "Iceberg 1.12 on Spark 4.1",
    "hudi": "Hudi 1.2 on Spark 3.5 (its upsert)",
}
FETCH_SECONDS_MAX = 600


def fetched(engine: str) -> tuple[str, list[str]] | None:
    """Python and jars of a peer; None where they cannot be had."""
    python = SPARK_35 if engine == "hudi" else SPARK_41
    try:
        if engine == "hudi" and not python.exists():
            _run(sys.executable, "-m", "venv", str(python.parent.parent))
            _run(str(python), "-m", "pip", "install", "--quiet", "setuptools", "pyspark==3.5.8")
        jars = [_jar(coordinates) for coordinates in JARS[engine]]
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{engine} takes no part: {error}", file=sys.stderr)
        return None
    return (str(python), jars) if python.exists() else None


def _jar(coordinates: str) -> str:
    _, artifact, version = coordinates.split(":")
    jar = KEPT / f"{artifact}-{version}.jar"
    if not jar.exists():
        arguments = (f"-Dartifact={coordinates}", f"-DoutputDirectory={KEPT}")
        _run("mvn", "-q", "-B", "dependency:copy", *arguments)
    return str(jar)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=FETCH_SECONDS_MAX, stdout=subprocess.DEVNULL)


class _Peer(Common):
    """A Spark session with a peer's jars."""

    settings: ClassVar[dict[str, str]] = {}

    def __init__(self, work: Path, data: Path, jars: list[str]) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars))
        common = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "6g",
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": str(BUCKETS),
        }
        for key, value in {**common, **self.settings}.items():
            builder = builder.config(key, value.format(work=work))
        super().__init__(builder.getOrCreate(), work, data)
        self.name = ""

    def merge(self, number: int) -> None:
        self.changes(number)
        # MERGE gives a row of numbers on some engines, and runs when it is asked for on others
        self.spark.sql(MERGE.format(self.name)).collect()

    def scan(self) -> list[str]:
        return self.aggregate(self.spark.table(self.name))


class Delta(_Peer):
    """Delta Lake."""

    settings: ClassVar = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    }

    def load(self, number: int) -> None:
        place = self.work / f"delta-{number}"
        self.name = f"delta.`{place}`"
        writer = self.base().write.format("delta").option("delta.enableDeletionVectors", "true")
        writer.save(str(place))


class Iceberg(_Peer):
    """Apache Iceberg."""

    settings: ClassVar = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.i": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.i.type": "hadoop",
        "spark.sql.catalog.i.warehouse": "{work}/iceberg",
    }

    def load(self, number: int) -> None:
        self.name = f"i.db.t{number}"
        modes = ", ".join(
            f"'write.{what}.mode'='merge-on-read'" for what in ("merge", "update", "delete")
        )
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in self.base().schema)
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns}) USING iceberg "
            f"PARTITIONED BY (bucket({BUCKETS}, k)) "
            f"TBLPROPERTIES ('format-version'='2', {modes})"
        )
        self.base().writeTo(self.name).append()


class Hudi(_Peer):
    """Apache Hudi."""

    settings: ClassVar = {
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    options: ClassVar = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.precombine.field": "k",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        ),
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.upsert.shuffle.parallelism": str(BUCKETS),
        "hoodie.bulkinsert.shuffle.parallelism": str(BUCKETS),
    }

    def _write(self, frame, operation: str) -> None:
        writer = frame.write.format("hudi").options(**self.options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(self.name)

    def load(self, number: int) -> None:
        self.name = str(self.work / f"hudi-{number}")
        shutil.rmtree(self.name, ignore_errors=True)
        frame = self.base().selectExpr("*", "false AS _hoodie_is_deleted")
        self._write(frame, "bulk_insert")

    def merge(self, number: int) -> None:
        rows = self.upsert_rows(number).selectExpr("*", "_row_kind = '-D' AS _hoodie_is_deleted")
        self._write(rows.drop("_row_kind"), "upsert")

    def scan(self) -> list[str]:
        return self.aggregate(self.spark.read.format("hudi").load(self.name))


PEERS = {"delta": Delta, "iceberg": Iceberg, "hudi": Hudi}
