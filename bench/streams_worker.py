"""One engine's side of the streams' benchmark: commands on stdin, answers in JSON on stdout.

Usage: python streams_worker.py {tidelake,paimon} WORK_DIR WAREHOUSE [JAR]

As `pipeline_worker.py`: `streams.py` starts a worker for each engine, which all read the same
tables. Spark's own streams of the same files run in the same process, as the limit.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import time
from pathlib import Path

from tree_cpu import TreeCpu

ENGINE, WORK, WAREHOUSE = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
EXTENSIONS = "org.apache.paimon.spark.extensions"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
TYPES = "k bigint, i int, s20 string, d double, m decimal(18,2), t timestamp_ntz"
LOOK_S = 0.05
WINDOW = 20
"""Batches whose CPU is compared, about the 20th and before the last."""
BATCHES_MAX_S = 170


class Streams:
    """What both engines do alike: Spark's own file streams, and how a stream is run to its end."""

    def __init__(self, spark) -> None:
        self.spark = spark
        self.numbers = itertools.count()
        self.tree: TreeCpu | None = None

    # ---- Spark's own

    def files(
        self, table: str, glob: str, columns: list[str], *, kinds: bool = False, limit: int = 1
    ):
        """A file stream over the data files of a table, so many in a batch."""
        schema = f"{TYPES}, _VALUE_KIND tinyint" if kinds else TYPES
        reader = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", limit)
        reader = reader.option("recursiveFileLookup", "true").option("pathGlobFilter", glob)
        frame = reader.parquet(str(WAREHOUSE / "db.db" / table))
        return frame.select(*columns, *(["_VALUE_KIND"] if kinds else []))

    def plain(self, table: str, glob: str, columns: list[str], **how):
        return self.drain(self.files(table, glob, columns, **how).writeStream.format("noop"))

    def plain_to_parquet(self, table: str, columns: list[str]):
        out = self.fresh("parquet")
        writer = self.files(table, "*.parquet", columns).writeStream.format("parquet")
        found = self.drain(writer.option("path", str(out)))
        return [*found, self.spark.read.parquet(str(out)).count()]

    def plain_each(self, table: str, columns: list[str]):
        out = self.fresh("parquet")

        def append(batch, _):
            batch.write.mode("append").parquet(str(out))

        found = self.drain(self.files(table, "*.parquet", columns).writeStream.foreachBatch(append))
        return [*found, self.spark.read.parquet(str(out)).count()]

    # ---- how a stream runs

    def fresh(self, name: str) -> Path:
        """A folder that is not there."""
        for old in WORK.glob(f"{ENGINE}-{name}-*"):
            shutil.rmtree(old)
        return WORK / f"{ENGINE}-{name}-{next(self.numbers)}"

    def drain(self, writer) -> list[int]:
        """Run a query over all that is there; its rows and batches."""
        writer = writer.option("checkpointLocation", str(self.fresh("checkpoint")))
        return self.ended(writer.trigger(availableNow=True).start())

    def ended(self, query) -> list[int]:
        query.awaitTermination()
        assert query.exception() is None, query.exception()
        counted = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
        return [sum(counted), len(counted)]

    def source(self, name: str, **options):
        raise NotImplementedError

    def start(self, frame, name: str, **options):
        raise NotImplementedError

    def make(self, name: str, keys: list[str]) -> None:
        raise NotImplementedError

    def count(self, name: str) -> int:
        raise NotImplementedError

    # ---- the engine's

    def read(self, name: str, columns: list[str], *, kinds: bool = False, **options):
        frame = self.source(name, **options)
        wanted = [*columns, self.kind] if kinds else columns
        return self.drain(frame.select(*wanted).writeStream.format("noop"))

    def copy(self, name: str, columns: list[str]):
        """A stream of one table into a new one."""
        target = self.fresh_table([])
        found = self.ended(self.start(self.source(name).select(*columns), target))
        return [*found, self.count(target)]

    def sink(self, name: str, columns: list[str], keys: list[str]):
        """Files into a new table."""
        target = self.fresh_table(keys)
        found = self.ended(self.start(self.files(name, "*.parquet", columns), target))
        return [*found, self.count(target)]

    def fresh_table(self, keys: list[str]) -> str:
        name = f"{ENGINE}{next(self.numbers)}"
        self.make(name, keys)
        return name

    def growth(self, keys: list[str], batches: int, rows: int):
        """CPU of early and of late batches of one query, and where there were fewer, how many."""
        frame = self.spark.readStream.format("rate-micro-batch")
        frame = frame.option("rowsPerBatch", rows).option("numPartitions", 1).load()
        frame = frame.selectExpr(
            f"value % {20 * rows} AS k",
            "CAST(value % 1000 AS INT) AS i",
            "CAST(value AS STRING) AS s20",
            "CAST(value AS DOUBLE) AS d",
            "CAST(value % 1000 AS DECIMAL(18, 2)) AS m",
            "CAST(timestamp AS TIMESTAMP_NTZ) AS t",
        )
        query = self.start(frame, self.fresh_table(keys), bounded=False)
        used: dict[int, float] = {}
        began = time.perf_counter()
        while query.isActive and max(used, default=0) < batches:
            time.sleep(LOOK_S)
            progress = query._jsq.lastProgress()
            if progress is not None and int(progress.batchId()) not in used:
                used[int(progress.batchId())] = self.tree.seconds()
            if time.perf_counter() - began > BATCHES_MAX_S:
                break
        assert query.exception() is None, query.exception()
        query.stop()
        last = max(used)
        return [last, _between(used, WINDOW // 2), _between(used, last - WINDOW)]


def _between(used: dict[int, float], start: int) -> float:
    """CPU of a batch, of those between two looks, about a window of batches."""
    first = min(n for n in used if n >= start)
    last = max(n for n in used if n <= start + WINDOW)
    return (used[last] - used[first]) / (last - first)


class Tidelake(Streams):
    """Our side."""

    kind = "_row_kind"

    def __init__(self) -> None:
        import tidelake.spark as ts

        super().__init__(ts.session("bench", master="local[2]", conf=CONF))
        self.lake = ts.attach(self.spark, str(WAREHOUSE))

    def source(self, name: str, **options):
        given = {"read.stream.maxFilesPerTrigger": 1, **options}
        if "scan.mode" not in given:
            given |= {"scan.mode": "from-snapshot", "scan.snapshot-id": 1}
        return self.lake.read_stream(f"db.{name}", options=given)

    def start(self, frame, name: str, *, bounded: bool = True):
        place = str(self.fresh("checkpoint"))
        trigger = "availableNow" if bounded else None
        return self.lake.write_stream(frame, f"db.{name}", checkpoint=place, trigger=trigger)

    def make(self, name: str, keys: list[str]) -> None:
        options = {"bucket": 1} if keys else {}
        self.lake.create_table(f"db.{name}", TYPES, primary_keys=keys, options=options)

    def count(self, name: str) -> int:
        return self.lake.table(f"db.{name}").count()

    def changes(self, name: str, columns: list[str], wanted: str | None = None, *, place: str):
        """What all columns of changes come to; a filter is given, or applied behind the read."""
        given = wanted if place == "given" else None
        frame = self.lake.changes(f"db.{name}", 0, columns=columns, where=given, mode="changelog")
        if wanted is not None and place == "behind":
            frame = frame.where(wanted)
        others = [f"count({column})" for column in columns if column not in {"k", "i"}]
        kinds = "count_if(_row_kind = '-D' OR _row_kind = '-U')"
        sums = ["count(*)", "sum(k)", "sum(cast(i AS bigint))", kinds, *others]
        return [int(value or 0) for value in frame.selectExpr(*sums).first()]

    def sums(self, name: str, **options) -> list[int]:
        """The sums that all rows of a stream come to."""
        found = [0, 0, 0]

        def add(batch, _):
            row = batch.selectExpr("count(*)", "sum(k)", "sum(cast(i AS bigint))").first()
            for at, value in enumerate(row):
                found[at] += value or 0

        self.drain(self.source(name, **options).writeStream.foreachBatch(add))
        return found


class Paimon(Streams):
    """Java Paimon on Spark."""

    kind = "rowkind"

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.jars", sys.argv[4])
        for key, value in {
            **CONF,
            "spark.sql.extensions": f"{EXTENSIONS}.PaimonSparkSessionExtensions",
            "spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.p.warehouse": f"file:{WAREHOUSE}",
            "spark.sql.catalog.p.cache-enabled": "false",
        }.items():
            builder = builder.config(key, value)
        super().__init__(builder.getOrCreate())

    def source(self, name: str, **options):
        given = {"read.stream.maxFilesPerTrigger": 1, **options}
        if "scan.mode" not in given:
            given |= {"scan.mode": "from-snapshot", "scan.snapshot-id": 1}
        reader = self.spark.readStream.format("paimon")
        for key, value in given.items():
            reader = reader.option(key, str(value).lower() if value is True else value)
        return reader.load(f"file:{WAREHOUSE}/db.db/{name}")

    def start(self, frame, name: str, *, bounded: bool = True):
        writer = frame.writeStream.format("paimon").outputMode("append")
        writer = writer.option("checkpointLocation", str(self.fresh("checkpoint")))
        if bounded:
            writer = writer.trigger(availableNow=True)
        return writer.start(f"file:{WAREHOUSE}/db.db/{name}")

    def make(self, name: str, keys: list[str]) -> None:
        own = f"TBLPROPERTIES ('primary-key'='{keys[0]}', 'bucket'='1')" if keys else ""
        self.spark.sql(f"CREATE TABLE p.db.{name} ({TYPES}) {own}")

    def count(self, name: str) -> int:
        return self.spark.table(f"p.db.{name}").count()


def main() -> None:
    """Answer commands until stdin ends."""
    tree = TreeCpu()
    engine = Tidelake() if ENGINE == "tidelake" else Paimon()
    engine.tree = tree
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        name, positional, named = json.loads(line)
        cpu, began = tree.seconds(), time.perf_counter()
        answer = getattr(engine, name)(*positional, **named)
        wall = time.perf_counter() - began
        figures = {"wall": wall, "cpu": tree.seconds() - cpu, "answer": answer}
        print(json.dumps(figures), flush=True)


main()
