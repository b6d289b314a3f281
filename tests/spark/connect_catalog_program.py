"""Run by test_connect.py in a process of its own: clients of a server of ours, with PySpark alone.

Takes the work folder, the seconds of the proof, and the server's URL with its token by SPARK_URL.
Prints one JSON object: what each scenario saw.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from pathlib import Path
from time import monotonic

import pyspark
from pyspark.sql import SparkSession

WORK = Path(sys.argv[1])
PROOF_S = float(sys.argv[2])
URL = os.environ["SPARK_URL"]
WAIT_S = 120
KEYS = 40
IS_OLDEST = pyspark.__version__.startswith("4.0.")
"""It has no `FROM STREAM`, and no `PRIMARY KEY`."""


def rows(frame) -> list[list[object]]:
    return sorted(list(row) for row in frame.collect())


def refused(run) -> dict[str, str]:
    try:
        given = run()
    except Exception as error:  # noqa: BLE001 # the test tells what may be said
        said = str(error).partition("JVM stacktrace")[0]
        return {"class": type(error).__name__, "text": said}
    return {"class": "none", "text": repr(given)}


def client() -> SparkSession:
    return SparkSession.builder.remote(URL).create()


def create_keyed(spark, name: str, columns: str) -> None:
    """A table whose key is its first column."""
    key = columns.partition(" ")[0]
    word = "" if IS_OLDEST else f", PRIMARY KEY ({key}) NOT ENFORCED"
    options = "'bucket' = '2'" + (f", 'primary-key' = '{key}'" if IS_OLDEST else "")
    spark.sql(f"CREATE TABLE served.shop.{name} ({columns}{word}) TBLPROPERTIES ({options})")


def stranger(one, other) -> object:
    """Who does not know the token gets nothing."""
    place = URL.partition("token=")[0] + "token=" + "0" * 30
    return refused(lambda: SparkSession.builder.remote(place).create().sql("SELECT 1").collect())


def statements(one, other) -> object:
    one.sql("CREATE DATABASE served.shop")
    create_keyed(one, "items", "item STRING, n INT")
    one.sql("INSERT INTO served.shop.items VALUES ('tea', 1), ('oil', 2), ('rye', 3)")
    one.sql("INSERT INTO served.shop.items SELECT 'tea', 10")
    other.range(2).selectExpr("concat('x', id) AS item", "int(id) AS n").writeTo(
        "served.shop.items"
    ).append()
    other.sql(
        "MERGE INTO served.shop.items t USING (SELECT 'oil' AS item, 0 AS n UNION ALL"
        " SELECT 'fig', 7) s ON t.item = s.item WHEN NOT MATCHED THEN INSERT *"
    )
    other.sql("CREATE TABLE served.shop.copied AS SELECT item, n FROM served.shop.items")
    plan = "\n".join(row[0] for row in one.sql("EXPLAIN SELECT n FROM served.shop.items").collect())
    return [
        rows(one.table("served.shop.items")),
        rows(other.sql("SELECT count(*) FROM served.shop.items VERSION AS OF 1")),
        rows(one.sql("SELECT sum(n) FROM served.shop.copied")),
        [row[0] for row in other.sql("CALL served.sys.compact('shop.items')").collect()] != [],
        "FileScan parquet served.shop.items" in plan,
    ]


def changes(one, other) -> object:
    """UPDATE, DELETE and MERGE by one client are seen by the other."""
    one.sql("CREATE TABLE served.shop.moved (item STRING, n INT)")
    one.sql("INSERT INTO served.shop.moved VALUES ('tea', 1), ('oil', 2), ('rye', 3)")
    one.sql("UPDATE served.shop.moved SET n = n * 10 WHERE item = :item", args={"item": "oil"})
    other.sql("DELETE FROM served.shop.moved WHERE n = (SELECT min(n) FROM served.shop.moved)")
    other.createDataFrame([("oil", 5), ("fig", 7)], "item string, n int").createOrReplaceTempView(
        "came"
    )
    merge = "MERGE INTO served.shop.moved t USING {} s ON t.item = s.item WHEN MATCHED THEN"
    other.sql(
        merge.format("came") + " UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    twice = merge.format("(SELECT 'oil' AS item, id FROM range(2))") + " UPDATE SET n = s.id"
    return [
        rows(one.table("served.shop.moved")),
        refused(lambda: one.sql("UPDATE served.shop.items SET item = 'x'").collect()),
        refused(lambda: one.sql(twice).collect()),
        rows(one.table("served.shop.moved")),
    ]


def apart(one, other) -> object:
    """Views, settings and the current database are each client's own."""
    one.sql("USE served.shop")
    one.sql("CREATE TEMPORARY VIEW few AS SELECT * FROM items WHERE n < 3")
    one.conf.set("spark.tidelake.shop.items.scan.snapshot-id", "1")
    seen = [one.sql("SELECT count(*) FROM items").first()[0]]
    seen.append(other.sql("SELECT count(*) FROM served.shop.items").first()[0])
    one.conf.unset("spark.tidelake.shop.items.scan.snapshot-id")
    seen.append(one.sql("SELECT count(*) FROM few").first()[0])
    one.sql("USE spark_catalog.default")
    return [seen, refused(lambda: other.sql("SELECT * FROM few").collect())]


def wrong(one, other) -> object:
    texts = {
        "table": "SELECT * FROM served.shop.itemz",
        "null": "INSERT INTO served.shop.items VALUES (NULL, 1)",
        "option": "CREATE TABLE served.shop.bad (n INT) TBLPROPERTIES ('bukcet' = '2')",
    }
    return {name: refused(lambda t=text: one.sql(t).collect()) for name, text in texts.items()}


def streams(one, other) -> object:
    one.sql("CREATE TABLE served.shop.said (n BIGINT)")
    one.sql("CREATE TABLE served.shop.heard (n BIGINT)")
    one.sql("INSERT INTO served.shop.said SELECT id FROM range(5)")
    for _ in range(2):
        _stream(one, "said", "heard")
        other.sql("INSERT INTO served.shop.said VALUES (7)")
    one.sql("CREATE TABLE served.shop.merged (n BIGINT, seen INT)")
    said = "served.shop.said"
    by_name = one.readStream.table
    frame = by_name(said) if IS_OLDEST else one.sql(f"SELECT n FROM STREAM {said}")
    query = (
        frame.writeStream.foreachBatch(_merge)
        .option("checkpointLocation", str(WORK / "of-merged"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None, query.exception()
    return [rows(one.table("served.shop.heard")), rows(one.table("served.shop.merged"))]


def _merge(batch, number: int) -> None:
    batch.groupBy("n").count().createOrReplaceTempView("came")
    batch.sparkSession.sql(
        "MERGE INTO served.shop.merged t USING came s ON t.n = s.n"
        " WHEN MATCHED THEN UPDATE SET seen = t.seen + s.count"
        " WHEN NOT MATCHED THEN INSERT (n, seen) VALUES (s.n, s.count)"
    )


def _stream(spark, source: str, target: str) -> None:
    query = (
        spark.readStream.table(f"served.shop.{source}")
        .writeStream.option("checkpointLocation", str(WORK / f"of-{target}"))
        .trigger(availableNow=True)
        .toTable(f"served.shop.{target}")
    )
    assert query.awaitTermination(WAIT_S)
    assert query.exception() is None, query.exception()


def leaves(one, other) -> object:
    """A client that goes in the middle of a write leaves the table as it was."""
    one.sql("CREATE TABLE served.shop.left (n BIGINT)")
    one.sql("INSERT INTO served.shop.left VALUES (1)")
    goes, runs, ended = client(), threading.Event(), []

    class Seen:
        def __call__(self, stages, inflight_tasks, operation_id, done):
            if inflight_tasks:
                runs.set()

    goes.registerProgressHandler(Seen())

    def write():
        # hours of rows
        text = (
            "INSERT INTO served.shop.left SELECT sum(a.id * b.id) FROM range({0}) a, range({0}) b"
        )
        ended.append(refused(lambda: goes.sql(text.format(10_000_000)).collect()))

    writing = threading.Thread(target=write)
    writing.start()
    assert runs.wait(WAIT_S)
    goes.stop()
    writing.join(WAIT_S)
    assert not writing.is_alive()
    one.sql("INSERT INTO served.shop.left VALUES (2)")
    snapshots = one.sql("SELECT snapshot_id FROM served.shop.`left$snapshots`")
    return [rows(one.table("served.shop.left")), rows(snapshots), ended[0]["class"] != "none"]


def proof(one, other) -> object:
    """Two clients write, merge and stream for some seconds; each knows what its keys must hold."""
    create_keyed(one, "kept", "k BIGINT, v BIGINT, who STRING")
    one.sql("CREATE TABLE served.shop.log (k BIGINT, v BIGINT) ")
    for name in ("a", "b"):
        one.sql(f"CREATE TABLE served.shop.copy_{name} (k BIGINT, v BIGINT)")
    until, models, logged, failed = monotonic() + PROOF_S, [{}, {}], [[], []], []

    def work(spark, at: int, name: str) -> None:
        model, first, turn = models[at], at * KEYS, 0
        while turn < 1 or monotonic() < until:
            turn += 1
            written = {first + (turn * 7 + i) % KEYS: turn * 100 + i for i in range(5)}
            values = ", ".join(f"({k}, {v}, '{name}')" for k, v in written.items())
            spark.sql(f"INSERT INTO served.shop.kept VALUES {values}")
            model |= written
            merged = {first + (turn * 3 + i) % KEYS: -turn * 100 - i for i in range(8)}
            values = ", ".join(f"({k}, {v})" for k, v in merged.items())
            spark.sql(
                f"MERGE INTO served.shop.kept t USING (VALUES {values} AS s(k, v)) s"
                " ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v, who)"
                f" VALUES (s.k, s.v, '{name}')"
            )
            model |= {k: v for k, v in merged.items() if k not in model}
            frame = spark.createDataFrame([(first + turn, turn)], "k bigint, v bigint")
            frame.writeTo("served.shop.log").append()
            logged[at].append([first + turn, turn])
            _stream(spark, "log", f"copy_{name}")

    def tried(*given) -> None:
        try:
            work(*given)
        except Exception:  # noqa: BLE001 # the test shows it
            failed.append(traceback.format_exc().partition("JVM stacktrace")[0][-3000:])

    both = [
        threading.Thread(target=tried, args=given) for given in ((one, 0, "a"), (other, 1, "b"))
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    for spark, name in ((one, "a"), (other, "b")):
        _stream(spark, "log", f"copy_{name}")
    model = sorted(
        [k, v, name] for held, name in zip(models, "ab", strict=True) for k, v in held.items()
    )
    log = sorted(logged[0] + logged[1])
    return {
        "failed": failed,
        "turns": [len(one) for one in logged],
        "kept": rows(one.table("served.shop.kept")) == model,
        "log": rows(other.table("served.shop.log")) == log,
        "copies": [rows(one.table(f"served.shop.copy_{name}")) == log for name in "ab"],
    }


SCENARIOS = [stranger, statements, changes, apart, wrong, streams, leaves, proof]


def tried(scenario, one, other) -> object:
    print(scenario.__name__, file=sys.stderr, flush=True)  # where it stands, if it hangs
    try:
        return scenario(one, other)
    except Exception:  # noqa: BLE001 # the test of this scenario shows it
        return {"failed": traceback.format_exc().partition("JVM stacktrace")[0][-3000:]}


def main() -> None:
    one, other = client(), client()
    seen = {scenario.__name__: tried(scenario, one, other) for scenario in SCENARIOS}
    one.stop()
    other.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
