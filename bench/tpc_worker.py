"""One engine's side of a suite: loads, upserts and asks, and says what each took, in JSON.

Usage: python tpc_worker.py SUITE ENGINE WORK_DIR ROWS_DIR ROUNDS [JAR ...]

Runs in the engine's own virtualenv. The session writes plain Parquet of the final state too, by its
own Spark: each query runs on both in turn, and their answers are compared. The suite's changing
tables have keys, and 4 buckets where the engine has buckets; they get three upserts and no
compaction. The other tables are the engine's own without keys.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import ClassVar

from merging_peers import PEERS
from tpc_answers import rows_of, unlimited
from tpc_suites import BUCKETS, SUITES, UPSERTS, Suite
from tree_cpu import TreeCpu

PLAIN = "spark_catalog.default"
EXTENSIONS = "org.apache.paimon.spark.extensions"


class Engine:
    """What all engines do alike."""

    catalog = ""
    """The catalog of the tables, as USE names it."""

    def __init__(self, suite: Suite, spark, work: Path, rows: Path) -> None:
        self.suite, self.spark, self.work, self.rows = suite, spark, work, rows
        self.keys = suite.keys
        self.place = f"{self.catalog}.{suite.name}"
        found = (path.stem for path in rows.glob("*.parquet"))
        self.tables = sorted(name for name in found if "-" not in name)

    def given(self, name: str):
        """The rows of a file."""
        return self.spark.read.parquet(str(self.rows / f"{name}.parquet"))

    def make_plain(self) -> None:
        """The final state as Spark writes it."""
        for name in self.tables:
            path = str(self.work / "plain" / name)
            self.given(name).write.parquet(path)
            self.spark.sql(f"CREATE TABLE {PLAIN}.{name} USING parquet LOCATION '{path}'")

    def columns(self, name: str) -> str:
        """The columns of a table as DDL, keys not null."""
        return ", ".join(
            f"{f.name} {f.dataType.simpleString()}"
            + (" NOT NULL" if f.name in self.keys.get(name, ()) else "")
            for f in self.given(name).schema
        )

    def insert(self, name: str, rows: str) -> None:
        self.given(rows).createOrReplaceTempView("given")
        self.spark.sql(f"INSERT INTO {self.place}.{name} SELECT * FROM given")

    def merge(self, name: str, rows: str) -> None:
        """The upsert of engines that have no other one."""
        self.given(rows).createOrReplaceTempView("given")
        on = " AND ".join(f"t.{key} = s.{key}" for key in self.keys[name])
        self.spark.sql(
            f"MERGE INTO {self.place}.{name} AS t USING given AS s ON {on}"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def ask(self, text: str) -> list[str]:
        """A query on the engine's tables; the answer's rows."""
        self.spark.sql(f"USE {self.place}")
        return rows_of(self.spark.sql(text).collect())

    def ask_plain(self, text: str) -> list[str]:
        """The same on plain Parquet."""
        self.spark.sql(f"USE {PLAIN}")
        return rows_of(self.spark.sql(text).collect())

    upsert = insert

    def load(self, name: str) -> None:
        raise NotImplementedError


class Tidelake(Engine):
    """Our side, by `spark.sql`."""

    catalog = "tidelake"

    def __init__(self, suite: Suite, work: Path, rows: Path) -> None:
        import tidelake.spark as ts

        conf = {
            "spark.driver.memory": "6g",
            "spark.sql.shuffle.partitions": str(BUCKETS),
            "spark.sql.ansi.enabled": "false",
            "spark.sql.warehouse.dir": str(work / "spark"),
        }
        spark = ts.session("bench", master="local[2]", conf=conf)
        super().__init__(suite, spark, work, rows)
        self.lake = ts.attach(spark, str(work / "tidelake"))

    def load(self, name: str) -> None:
        first = self.given(f"{name}-0" if name in self.keys else name)
        if name in self.keys:
            options = self.suite.options(name)
            self.lake.create_table(
                f"{self.suite.name}.{name}", first, primary_keys=self.keys[name], options=options
            )
        else:
            self.lake.create_table(f"{self.suite.name}.{name}", first)
        self.lake.write(first, f"{self.suite.name}.{name}")

    def upsert(self, name: str, rows: str) -> None:
        self.lake.write(self.given(rows), f"{self.suite.name}.{name}")


class Paimon(Engine):
    """Java Paimon; upserts are its INSERT, compaction is off as it is for ours."""

    catalog = "p"

    def __init__(self, suite: Suite, work: Path, rows: Path, jars: list[str]) -> None:
        settings = {
            "spark.sql.extensions": f"{EXTENSIONS}.PaimonSparkSessionExtensions",
            "spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.p.warehouse": f"file:{work}/paimon",
        }
        super().__init__(suite, session(settings, work, jars), work, rows)
        self.spark.sql(f"CREATE DATABASE {self.place}")

    def load(self, name: str) -> None:
        options = {}
        if name in self.keys:
            options = {"primary-key": ",".join(self.keys[name]), **self.suite.options(name)}
        said = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
        properties = f" TBLPROPERTIES ({said})" if said else ""
        self.spark.sql(f"CREATE TABLE {self.place}.{name} ({self.columns(name)}){properties}")
        self.insert(name, f"{name}-0" if name in self.keys else name)


class Delta(Engine):
    """Delta with deletion vectors."""

    catalog = "spark_catalog"

    def __init__(self, suite: Suite, work: Path, rows: Path, jars: list[str]) -> None:
        settings = {key: str(value) for key, value in PEERS["delta"].settings.items()}
        super().__init__(suite, session(settings, work, jars), work, rows)
        self.spark.sql(f"CREATE DATABASE {self.place}")

    def load(self, name: str) -> None:
        self.given(f"{name}-0" if name in self.keys else name).createOrReplaceTempView("given")
        self.spark.sql(
            f"CREATE TABLE {self.place}.{name} USING delta"
            " TBLPROPERTIES ('delta.enableDeletionVectors'='true') AS SELECT * FROM given"
        )

    upsert = Engine.merge


class Iceberg(Engine):
    """Iceberg, format 2, merge on read, buckets of the key."""

    catalog = "i"

    def __init__(self, suite: Suite, work: Path, rows: Path, jars: list[str]) -> None:
        settings = {k: str(v).format(work=work) for k, v in PEERS["iceberg"].settings.items()}
        super().__init__(suite, session(settings, work, jars), work, rows)
        self.spark.sql(f"CREATE NAMESPACE {self.place}")

    def load(self, name: str) -> None:
        bucketed, modes = "", ""
        if name in self.keys:
            bucketed = f" PARTITIONED BY (bucket({self.suite.buckets(name)}, {self.keys[name][0]}))"
            modes = "".join(f", 'write.{w}.mode'='merge-on-read'" for w in ("merge", "update"))
        self.spark.sql(
            f"CREATE TABLE {self.place}.{name} ({self.columns(name)}) USING iceberg{bucketed}"
            f" TBLPROPERTIES ('format-version'='2'{modes})"
        )
        self.insert(name, f"{name}-0" if name in self.keys else name)

    upsert = Engine.merge


class Hudi(Engine):
    """Hudi, merge on read, by its own upsert; tables without keys are plain Parquet."""

    catalog = "spark_catalog"
    options: ClassVar = {
        **PEERS["hudi"].options,
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.upsert.shuffle.parallelism": str(BUCKETS),
        "hoodie.bulkinsert.shuffle.parallelism": str(BUCKETS),
    }

    def __init__(self, suite: Suite, work: Path, rows: Path, jars: list[str]) -> None:
        settings = {key: str(value) for key, value in PEERS["hudi"].settings.items()}
        super().__init__(suite, session(settings, work, jars), work, rows)
        self.spark.sql(f"CREATE DATABASE {self.place}")

    def load(self, name: str) -> None:
        if name in self.keys:
            self._write(name, f"{name}-0", "bulk_insert")
            return
        path = str(self.work / "hudi" / name)
        self.given(name).write.parquet(path)
        self.spark.sql(f"CREATE TABLE {self.place}.{name} USING parquet LOCATION '{path}'")

    def upsert(self, name: str, rows: str) -> None:
        self._write(name, rows, "upsert")

    def ask(self, text: str) -> list[str]:
        self.spark.sql(f"USE {self.place}")  # else it looks at the plain table of that name
        for name in self.keys:
            frame = self.spark.read.format("hudi").load(str(self.work / "hudi" / name))
            meta = [column for column in frame.columns if column.startswith("_hoodie")]
            frame.drop(*meta).createOrReplaceTempView(name)
        try:
            return super().ask(text)
        finally:
            for name in self.keys:  # a view goes before the plain table of that name
                self.spark.catalog.dropTempView(name)

    def _write(self, name: str, rows: str, operation: str) -> None:
        options = {
            **self.options,
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": ",".join(self.keys[name]),
            "hoodie.datasource.write.precombine.field": self.keys[name][0],
            "hoodie.bucket.index.hash.field": self.keys[name][0],
            "hoodie.datasource.write.operation": operation,
        }
        writer = self.given(rows).write.format("hudi").options(**options)
        writer.mode("append").save(str(self.work / "hudi" / name))


ENGINES = {"paimon": Paimon, "delta": Delta, "iceberg": Iceberg, "hudi": Hudi}


def session(settings: dict[str, str], work: Path, jars: list[str]):
    """A session of a peer's Spark."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars))
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(BUCKETS),
        "spark.sql.ansi.enabled": "false",  # a ratio of no sales is NULL
        "spark.sql.warehouse.dir": str(work / "spark"),
    }
    for key, value in {**common, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    """Do all of it, and print one line a step."""
    suite, name, work, rows = SUITES[sys.argv[1]], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    rounds, jars = int(sys.argv[5]), sys.argv[6:]
    tree = TreeCpu()
    ours = name == "tidelake"
    engine = Tidelake(suite, work, rows) if ours else ENGINES[name](suite, work, rows, jars)

    def measure(call, *arguments) -> tuple[object, tuple[float, float]]:
        cpu, began = tree.seconds(), time.perf_counter()
        answer = call(*arguments)
        wall = time.perf_counter() - began
        return answer, (tree.seconds() - cpu, wall)

    def say(**figures: object) -> None:
        print(json.dumps(figures), flush=True)

    engine.make_plain()
    for table in engine.tables:
        say(step="load", table=table, taken=measure(engine.load, table)[1])
    for number in range(1, UPSERTS + 1):
        for table in suite.keys:
            taken = measure(engine.upsert, table, f"{table}-{number}")[1]
            say(step="upsert", table=table, taken=taken)
    some = os.environ.get("TPC_QUERIES", "").split(",")
    for query, text in json.loads((rows / "queries.json").read_text()).items():
        if some != [""] and query not in some:
            continue
        right, found = engine.ask_plain(text), engine.ask(text)
        if found != right:  # rows may tie at the end of a LIMIT
            right, found = engine.ask_plain(unlimited(text)), engine.ask(unlimited(text))
        if found != right:
            raise AssertionError(f"{query}: {name} has {found[:3]}, plain Parquet {right[:3]}")
        own, plain = [], []
        for number in range(rounds):
            pairs = [(engine.ask, own), (engine.ask_plain, plain)]
            for call, kept in pairs[:: 1 if number % 2 else -1]:
                kept.append(measure(call, text)[1])
        say(step="query", query=query, own=own, plain=plain)


main()
