"""Run by test_local_cluster.py in a process of its own: a cluster with executor processes.

Its arguments are a directory and the names of scenarios. Prints one JSON object: what each of them
saw, in the order of :data:`SCENARIOS`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import quick_spark
from proving.fsck import check_table
from pyspark import TaskContext
from pyspark.sql import functions as F
from servers.fake_metastore import fake_metastore
from servers.glue import glue
from servers.s3 import S3Server

import tidelake
import tidelake.spark
from tidelake.spark.write import runner
from tidelake.spark.write import write_frame as spark_write
from tidelake.spark.write.write_task import write_task

WORK = Path(sys.argv[1])
ROWS = 4000
CHECKSUMS = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"


def check(lake, name: str) -> dict[str, object]:
    """The table's rows, files and snapshots."""
    rows = lake.table(name).agg(F.count("*"), F.sum("k"), F.sum("v")).first()
    live = lake.catalog.table(f"{name}$files").to_arrow().num_rows
    return {"rows": list(rows), "live": live, "snapshots": len(lake.catalog.table(name).history())}


def plain(spark, lake, frame) -> dict[str, object]:
    lake.create_table("db.plain", frame, primary_keys=["k"], options={"bucket": 4})
    lake.write(frame, "db.plain")
    lake.write(frame.where("k % 4 = 0").withColumn("v", F.lit(-1)), "db.plain")
    return check(lake, "db.plain")


def retried(spark, lake, frame) -> dict[str, object]:
    """The first attempt of every task fails after it has seen its rows."""

    def fail_once(batches):
        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if context.attemptNumber() == 0 and number == 1:
                raise OSError("the disk of this executor is gone")
            yield batch

    lake.create_table("db.retried", frame, options={"write-buffer-size": "64 kb"})
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    result = lake.write(frame.mapInArrow(fail_once, frame.schema), "db.retried")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    return check(lake, "db.retried") | {"written": result.rows}


def kill_executor() -> None:
    """End the executor that this task runs on."""
    # the parent of the worker's daemon is the executor
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(status.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
    time.sleep(60)


def killed(spark, lake, frame, name="killed") -> dict[str, object]:
    """One executor process dies while it writes."""
    marker = str(WORK / f"{name}-once")

    def kill_once(batches):
        for batch in batches:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield batch
                continue
            kill_executor()

    lake.create_table(f"db.{name}", frame, primary_keys=["k"], options={"bucket": 4})
    lake.write(frame, f"db.{name}")
    result = lake.write(
        frame.withColumn("v", F.col("v") + 1).mapInArrow(kill_once, frame.schema), f"db.{name}"
    )
    return check(lake, f"db.{name}") | {
        "written": result.rows,
        "was_killed": Path(marker).exists(),
    }


def stored(spark, _lake, frame) -> dict[str, object]:
    """The same in an object store, whose keys the program gives."""
    with S3Server() as s3:
        lake = tidelake.spark.attach(spark, "s3://lake/w", storage=s3.storage(), catalog="cloud")
        found = killed(spark, lake, frame, "stored")
        table = lake.catalog.table("db.stored")
        return found | {"checked": check_table(table.fileio, table.paths.location)}


def moved(spark, lake, frame, name="moved") -> dict[str, object]:
    """Keys move; an executor dies when one writing task has done and the other has not begun."""
    rows = frame.selectExpr("k % 3 AS p", "k", "v")
    lake.create_table(f"db.{name}", rows, primary_keys=["k"], partition_keys=["p"])
    lake.write(rows, f"db.{name}", tasks=2)
    done, marker = WORK / f"{name}-one-is-done", WORK / f"{name}-killed-between"
    attempts = []

    def dying(task, **given):
        attempts.append(1)
        write = write_task(task, **given)

        def run(batches):
            if TaskContext.get().partitionId() == 0:
                yield from write(batches)
                done.touch()
                return
            for _ in range(600):
                if done.exists():
                    break
                time.sleep(0.1)
            time.sleep(1)
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield from write(batches)
                return
            kill_executor()

        return run

    spark_write.write_task = dying
    change = frame.selectExpr("(k + 1) % 3 AS p", "k", "v + 1 AS v")
    try:
        result = lake.write(change, f"db.{name}", tasks=2)
    finally:
        spark_write.write_task = write_task
    placed = lake.table(f"db.{name}").where("p = (k + 1) % 3").agg(F.countDistinct("k")).first()
    return check(lake, f"db.{name}") | {
        "written": result.rows,
        "was_killed": marker.exists(),
        "tries": len(attempts),
        "in_place": placed[0],
    }


def moved_unchecked(spark, lake, frame) -> dict[str, object]:
    """The same where Spark does not compare what attempts give: the driver sees it."""
    spark.conf.set(CHECKSUMS, False)
    try:
        return moved(spark, lake, frame, "moved_unchecked")
    finally:
        spark.conf.unset(CHECKSUMS)


def compacted(spark, lake, frame) -> dict[str, object]:
    """A task of a compaction dies with its executor when its files are written."""
    options = {"bucket": 4, "write-only": True, "changelog-producer": "lookup"}
    lake.create_table("db.compacted", frame, primary_keys=["k"], options=options)
    for more in range(3):
        lake.write(frame.withColumn("v", F.col("v") + more), "db.compacted")
    marker = str(WORK / "killed-compacting")
    share_frame = runner.share_frame

    def dying(spark, shares, work, schema):
        def run(share):
            answers = list(work(share))
            if TaskContext.get().partitionId() == 0:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return answers
                kill_executor()
            return answers

        return share_frame(spark, shares, run, schema)

    runner.share_frame = dying
    try:
        result = lake.compact("db.compacted", full=True)
    finally:
        runner.share_frame = share_frame
    changes = lake.catalog.table("db.compacted").changes(0, mode="changelog")
    files = list((WORK / "warehouse/db.db/compacted").rglob("data-*"))
    return check(lake, "db.compacted") | {
        "was_killed": Path(marker).exists(),
        "made": result.files,
        "dropped": result.compactions_dropped,
        "told": changes.num_rows,
        "orphans": len(files) - 3 * 4 - result.files,
        "again": len(lake.compact("db.compacted", full=True).snapshot_ids),
    }


def speculated(spark, lake, frame) -> dict[str, object]:
    """One attempt of a task hangs before its last batch; Spark starts a second one."""

    def hang_once(batches):
        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(15)

    lake.create_table("db.speculated", frame)
    source = frame.repartition(4)
    result = lake.write(source.mapInArrow(hang_once, frame.schema), "db.speculated")
    return check(lake, "db.speculated") | {"written": result.rows}


def source(spark, lake, frame) -> dict[str, object]:
    lake.create_table("db.source", frame, primary_keys=["k"], options={"bucket": 2})
    place = str(WORK / "warehouse" / "db.db" / "source")
    frame.write.format("tidelake").mode("append").save(place)
    count = spark.read.format("tidelake").load(place).where("k < 10").count()
    return check(lake, "db.source") | {"count": count}


def catalogs(spark, _lake, frame) -> dict[str, object]:
    """Tables of other catalogs: the driver asks a catalog, executors have the files alone."""
    seen: dict[str, object] = {}
    database = {"type": "jdbc", "uri": f"jdbc:sqlite:{WORK}/c.db", "lock.enabled": "true"}
    with fake_metastore() as metastore, glue() as of_glue:
        for kind, options in (("hive", metastore.options()), ("glue", of_glue), ("jdbc", database)):
            lake = tidelake.spark.attach(
                spark, tidelake.open(WORK / kind, catalog=options), catalog=kind
            )
            lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 4})
            lake.write(frame, "db.t")
            spark.sql(
                f"MERGE INTO {kind}.db.t t USING (SELECT id AS k FROM range({2 * ROWS})) s"
                " ON t.k = s.k WHEN MATCHED AND t.k < 10 THEN UPDATE SET v = -1"
                " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 1)"
            )
            spark.sql(f"DELETE FROM {kind}.db.t WHERE k >= {ROWS} AND k % 2 = 0")
            seen[kind] = check(lake, "db.t")["rows"]
    return seen


SCENARIOS = (
    *(plain, retried, speculated, source, moved, moved_unchecked, killed),
    *(compacted, stored, catalogs),
)


def main(names: set[str]) -> None:
    spark = tidelake.spark.session(
        "cluster",
        master="local-cluster[2,1,1024]",
        conf={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": quick_spark.JVM,
            "spark.executor.extraJavaOptions": quick_spark.JVM,
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": 4,
            "spark.task.maxFailures": 4,
            "spark.speculation": True,
            "spark.speculation.interval": "200ms",
            "spark.speculation.multiplier": "2",
            "spark.speculation.minTaskRuntime": "2s",
            "spark.log.level": "OFF",
        },
    )
    lake = tidelake.spark.attach(spark, WORK / "warehouse")
    frame = spark.range(0, ROWS, 1, 4).selectExpr("id AS k", "id * 2 AS v")
    chosen = [scenario for scenario in SCENARIOS if scenario.__name__ in names]
    seen: dict[str, object] = {one.__name__: one(spark, lake, frame) for one in chosen}
    seen["warehouse"] = str(WORK / "warehouse")
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(set(sys.argv[2:]))
