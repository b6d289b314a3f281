"""Run by test_store_on_cluster.py in a process of its own: a warehouse in an object store.

It works with the warehouse on a cluster whose machines share nothing else, and prints one JSON
object: the answers, and all texts in which a key must not show.
"""

from __future__ import annotations

import json
import sys
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import quick_spark
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import functions as F

import tidelake
import tidelake.spark
from tidelake.fileio import FileIO

ROWS = 400
PAGES = ("/environment/", "/executors/", "/SQL/", "/jobs/")
API = ("environment", "sql?details=true&planDescription=true", "jobs", "stages")


def kept_pickles() -> list[bytes]:
    """All pickles that PySpark makes from now on."""
    plain, kept = CloudPickleSerializer.dumps, []

    def dumps(self, value):
        kept.append(plain(self, value))
        return kept[-1]

    CloudPickleSerializer.dumps = dumps
    return kept


def keys_given(spark, lake, work: Path) -> dict[str, object]:
    """Writes, merges, a compaction, a stream and a lookup: keys are given by the program."""
    frame = spark.range(0, ROWS, 1, 4).selectExpr("id AS k", "id * 2 AS v")
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 2})
    lake.write(frame, "db.t")
    lake.write(frame.where("k % 4 = 0").withColumn("v", F.lit(-1)), "db.t")
    merged = lake.table("db.t").agg(F.count("*"), F.sum("v")).first()
    lake.sql("DELETE FROM db.t WHERE k >= 300")
    lake.compact("db.t", full=True)
    lake.create_table("db.copy", frame)
    stream = lake.read_stream("db.t", options={"read.changelog": False})
    query = lake.write_stream(
        stream, "db.copy", checkpoint=work / "checkpoint", trigger="availableNow"
    )
    query.awaitTermination()
    asked = spark.createDataFrame([(1,), (4,), (999,)], "k long")
    joined = lake.lookup_join(asked, "db.t", on="k", via="local")
    return {
        "merged": list(merged),
        "compacted": lake.table("db.t").count(),
        "streamed": lake.table("db.copy").agg(F.sum("k")).first()[0],
        "joined": sorted(list(row) for row in joined.collect()),
        "hosts": sorted(set(workers_of(spark))),
    }


def workers_of(spark) -> list[str]:
    """The directory in which each of some tasks runs, and what it sees of the driver's."""

    def seen(_: object) -> list[str]:
        import os
        import time

        time.sleep(0.5)  # so that each has one
        return [f"{os.environ['TMPDIR']} {sorted(os.listdir(os.environ['SEES']))}"]

    return spark.sparkContext.parallelize(range(4), 4).mapPartitions(seen).collect()


def keys_found(spark, url: str) -> int:
    """Executors find keys in their own environment, and the driver in its."""
    lake = tidelake.spark.attach(
        spark, "s3://lake/named", storage={"s3.endpoint": url}, catalog="named"
    )
    lake.create_table("db.n", spark.range(9))
    lake.write(spark.range(9), "db.n")
    return lake.table("db.n").count()


def refused(spark, files: FileIO) -> list[str]:
    """What is said where a key is refused, on the driver and in a task."""

    def in_task(batches):
        yield from batches
        files.read_bytes("/house/x")

    def on_driver() -> None:
        files.list_dir("/house")

    def on_executor() -> None:
        spark.range(1).mapInArrow(in_task, "id long").collect()

    return [failure_of(call) for call in (on_driver, on_executor)]


def failure_of(call: Callable[[], None]) -> str:
    """All that an error says."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return "".join(traceback.format_exception(error)) + repr(error)
    raise AssertionError("it was not refused")


def shown(spark, lake, pickles: list[bytes], work: Path) -> dict[str, str]:
    """All texts in which somebody might find a key."""
    sc = spark.sparkContext
    sc.setLocalProperty("callSite.short", "a program that looks for keys")
    frame = lake.table("db.t", where="k > 5")
    frame.count()
    texts = {
        "plan": frame._jdf.queryExecution().toString(),
        "extended": sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended"),
        "formatted": sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"),
        "settings": str(sc.getConf().getAll()) + str(spark.conf.getAll),
        "properties": str(sc._jsc.sc().getLocalProperties().toString()),
        "repr": f"{lake!r} {lake.catalog!r} {lake.catalog.fileio!r} {lake._repr_html_()}",
        "pickles": b"".join(pickles).decode("latin-1"),
        "events": "".join(text_of(path) for path in (work / "events").rglob("*")),
    }
    for page in PAGES:
        texts[f"page {page}"] = fetched(sc.uiWebUrl + page)
    for page in API:
        place = f"{sc.uiWebUrl}/api/v1/applications/{sc.applicationId}/{page}"
        texts[f"api {page}"] = fetched(place)
    return texts


def text_of(path: Path) -> str:
    return path.read_bytes().decode("latin-1") if path.is_file() else ""


def fetched(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode("latin-1")
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"


def kept_in(roots: list[str], needle: str) -> list[tuple[str, bool]]:
    """Files in which a text is, and whether only their owner may read them."""
    found = []
    for root in roots:
        for path in Path(root).rglob("*"):
            if path.is_file() and needle in text_of(path):
                near = [path, *path.parents[: len(path.parts) - len(Path(root).parts)]]
                found.append((str(path), any(one.stat().st_mode & 0o077 == 0 for one in near)))
    return found


def main() -> None:
    given = json.loads(sys.stdin.read())
    work = Path(given["driver"])
    (work / "events").mkdir()
    pickles = kept_pickles()
    spark = tidelake.spark.session(
        "store",
        master=given["master"],
        conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "600m",
            "spark.driver.extraJavaOptions": quick_spark.JVM,
            "spark.executor.extraJavaOptions": quick_spark.JVM,
            "spark.executor.memory": "512m",
            "spark.executorEnv.SEES": str(work),
            # both workers have the name of this machine, and their disks are apart
            "spark.shuffle.readHostLocalDisk": False,
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.adaptive.enabled": False,
            "spark.eventLog.enabled": True,
            "spark.eventLog.compress": False,
            "spark.eventLog.dir": (work / "events").as_uri(),
            "spark.ui.enabled": True,
            "spark.ui.port": 0,
            "spark.log.level": "INFO",
        },
    )
    lake = tidelake.spark.attach(spark, "s3://lake/house", storage=given["storage"])
    seen: dict[str, object] = {"given": keys_given(spark, lake, work)}
    seen["found"] = keys_found(spark, given["storage"]["s3.endpoint"])
    nobody = {**given["storage"], "s3.access-key": "nobody", "s3.secret-key": given["canary"]}
    files = tidelake.open("s3://lake/house", storage=nobody).fileio
    errors = refused(spark, files)
    texts = shown(spark, lake, pickles, work) | {"errors": "\n".join(errors)}
    secrets = (given["storage"]["s3.secret-key"], given["canary"])
    seen["sizes"] = {name: len(text) for name, text in texts.items()}
    seen["leaks"] = [name for name, text in texts.items() if any(s in text for s in secrets)]
    seen["errors"] = errors
    seen["jobs_logged"] = texts["events"].count("SparkListenerJobStart")
    seen["carries"] = sum(b"BroadcastSecrets" in one for one in pickles)
    seen["files"] = [one for secret in secrets for one in kept_in(given["places"], secret)]
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
