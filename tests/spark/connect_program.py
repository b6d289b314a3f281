"""Run by test_connect.py in a process of its own: a client of Spark Connect, without a JVM.

Takes the work folder and names of scenarios to leave out, with SPARK_REMOTE set. Prints one JSON
object: what each scenario saw.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidelake.spark
from tidelake.errors import TidelakeError
from tidelake.spark.versions import FORMAT_STREAMS_READ, has

WORK = Path(sys.argv[1])
WAREHOUSE = WORK / "warehouse"


def rows(frame) -> list[list[object]]:
    """All rows as JSON can say them, in order."""

    def plain(value):
        return str(value) if isinstance(value, Decimal | datetime) else value

    return sorted([plain(v) for v in row] for row in frame.collect())


def refused(run) -> dict[str, str]:
    """What an error says, and whose it is."""
    try:
        given = run()
    except TidelakeError as error:
        return {"kind": error.kind, "class": type(error).__name__, "text": str(error)}
    except Exception as error:  # noqa: BLE001 # the test tells whether Spark may say it
        said = str(error).partition("JVM stacktrace")[0]
        return {"kind": "spark", "class": type(error).__name__, "text": said}
    return {"kind": "none", "class": "none", "text": repr(given)}


def unregistered(spark, lake) -> object:
    """Before anything was attached, Spark finds the data source by its name."""
    table = tidelake.open(WAREHOUSE).create_table("db.found", {"k": "BIGINT", "v": "STRING"})
    table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    place = str(WAREHOUSE / "db.db" / "found")
    spark.range(3, 5).selectExpr("id AS k", "'new' AS v").write.format("tidelake").mode(
        "append"
    ).save(place)
    return rows(spark.read.format("tidelake").load(place))


def session(spark, lake) -> object:
    """The session of this process is taken; one is made where there is none."""
    return tidelake.spark.session("any") is spark


def definitions(spark, lake) -> object:
    lake.sql("CREATE DATABASE shop; USE shop")
    lake.sql(
        "CREATE TABLE orders (id BIGINT, day STRING, price DECIMAL(10, 2), placed TIMESTAMP(3),"
        " PRIMARY KEY (id, day) NOT ENFORCED) PARTITIONED BY (day)"
        " WITH ('bucket' = '2', 'changelog-producer' = 'lookup')"
    )
    lake.sql("CREATE TABLE items (item STRING, n INT, PRIMARY KEY (item) NOT ENFORCED)")
    lake.sql("CREATE TABLE log (id BIGINT, line STRING) WITH ('deletion-vectors.enabled' = 'true')")
    lake.sql("ALTER TABLE items ADD COLUMN note STRING")
    lake.sql("CREATE TEMPORARY VIEW cheap AS SELECT id, price FROM orders WHERE price < 3")
    shown = [row[1] for row in lake.sql("SHOW TABLES").collect()]
    return [sorted(shown), [row[0] for row in lake.sql("DESCRIBE items").collect()]]


def inserts(spark, lake) -> object:
    lake.sql(
        "INSERT INTO orders VALUES"
        " (1, 'mon', 1.50, TIMESTAMP '2026-11-21 10:00:00'),"
        " (2, 'mon', 2.50, NULL), (3, 'tue', 3.50, TIMESTAMP '2026-11-21 12:00:00')"
    )
    lake.sql("INSERT INTO orders SELECT id + 10, 'wed', 9.00, NULL FROM range(3)")
    lake.sql("INSERT INTO items (item, n) VALUES ('tea', 1), ('oil', 2), ('rye', 3)")
    lake.sql("INSERT INTO log SELECT id, concat('line ', id) FROM range(100)")
    lake.sql("INSERT OVERWRITE orders PARTITION (day = 'wed') VALUES (20, 9.00, NULL)")
    return [
        rows(lake.sql("SELECT id, day, price, placed FROM orders")),
        rows(lake.sql("SELECT * FROM items")),
        rows(lake.sql("SELECT count(*), sum(id) FROM log")),
    ]


def queries(spark, lake) -> object:
    joined = lake.sql(
        "WITH late AS (SELECT id, day FROM orders WHERE placed >= TIMESTAMP '2026-11-21 11:00:00')"
        " SELECT o.id, i.item, l.line FROM orders o JOIN items i ON o.id = i.n"
        " LEFT JOIN log l ON l.id = o.id WHERE o.id IN (SELECT id FROM late) OR o.id = 1"
    )
    travelled = lake.sql("SELECT count(*) FROM orders VERSION AS OF 1")
    hinted = lake.sql("SELECT id FROM orders /*+ OPTIONS('scan.snapshot-id' = '1') */ WHERE id < 3")
    named = lake.sql("SELECT item FROM items WHERE n = :n", {"n": 2})
    system = lake.sql("SELECT snapshot_id, commit_kind FROM orders$snapshots")
    spark.createDataFrame([(3, "x")], "id int, mark string").createOrReplaceTempView("marks")
    mixed = lake.sql("SELECT m.mark, o.day FROM marks m JOIN orders o USING (id)")
    view = lake.sql("SELECT id FROM cheap")
    return [rows(f) for f in (joined, travelled, hinted, named, system, mixed, view)]


def changes_rows(spark, lake) -> object:
    lake.sql("UPDATE orders SET price = price + 1 WHERE day = 'mon' AND id = 1")
    lake.sql("UPDATE items SET note = 'few' WHERE n < (SELECT max(n) FROM items)")
    lake.sql("DELETE FROM orders WHERE id = 20")
    lake.sql("DELETE FROM log WHERE id % 10 <> 0")
    lake.sql("UPDATE log SET line = upper(line) WHERE id IN (10, 20)")
    return [
        rows(lake.sql("SELECT id, price FROM orders")),
        rows(lake.sql("SELECT * FROM items")),
        rows(lake.sql("SELECT id, line FROM log WHERE id < 40")),
    ]


def merges(spark, lake) -> object:
    lake.sql(
        "MERGE INTO items t USING (SELECT 'tea' AS item, 50 AS n UNION ALL SELECT 'fig', 7"
        " UNION ALL SELECT 'rye', 0) s ON t.item = s.item"
        " WHEN MATCHED AND s.n = 0 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET n = t.n + s.n"
        " WHEN NOT MATCHED THEN INSERT (item, n) VALUES (s.item, s.n)"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET note = 'alone'"
    )
    lake.sql(
        "MERGE INTO log t USING (SELECT n AS id, item FROM items) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, line) VALUES (s.id, s.item)"
    )
    source = spark.createDataFrame([("oil", 9)], "item string, n int")
    lake.merge("shop.items", source, on="item").when_matched_update({"n": "s.n"}).execute()
    twice = "(SELECT 'tea' AS item, id FROM range(2)) s ON t.item = s.item"
    ambiguous = refused(
        lambda: lake.sql(f"MERGE INTO items t USING {twice} WHEN MATCHED THEN UPDATE SET n = s.id")
    )
    return [
        rows(lake.sql("SELECT * FROM items")),
        rows(lake.sql("SELECT id, line FROM log WHERE id < 60")),
        ambiguous,
    ]


def procedures(spark, lake) -> object:
    lake.sql("CALL sys.create_tag(`table` => 'shop.orders', tag => 'now', snapshot => 1)")
    lake.sql("CALL sys.compact(`table` => 'shop.orders', compact_strategy => 'full')")
    kinds = rows(lake.sql("SELECT DISTINCT commit_kind FROM orders$snapshots"))
    return [
        kinds,
        rows(lake.sql("SELECT count(*) FROM orders VERSION AS OF 'now'")),
        rows(lake.sql("SELECT id, price FROM orders")),
    ]


def frames(spark, lake) -> object:
    lake.sql("CREATE TABLE copied WITH ('bucket' = '1', 'bucket-key' = 'id') AS SELECT * FROM log")
    source = spark.range(0, 1000).selectExpr("id", "id % 3 AS part", "cast(id AS string) AS text")
    lake.create_table("shop.wide", source, primary_keys=["id"])
    lake.write(source, "shop.wide")
    lake.write(source.where("id < 10").withColumn("text", F.lit("new")), "shop.wide")
    lake.update("shop.wide", {"text": "concat(text, '!')"}, "id = 3")
    lake.delete("shop.wide", F.expr("id % 2 = 0"))
    lake.compact("shop.wide", full=True)
    place = str(WAREHOUSE / "shop.db" / "orders")
    written = spark.sql("SELECT 7L AS id, 'sun' AS day, 7.00BD AS price")
    written.selectExpr("*", "cast(null AS timestamp_ntz) AS placed").write.format("tidelake").mode(
        "append"
    ).save(place)
    read = spark.read.format("tidelake").option("columns", "id,day").load(place)
    return [
        rows(lake.table("shop.wide", columns=["id", "text"], where="id < 8")),
        lake.table("shop.wide").count(),
        rows(lake.changes("shop.wide", 1, 2, columns=["id"], where="id = 5")),
        rows(read.where("id < 10")),
        rows(lake.sql("SELECT count(*) FROM copied")),
    ]


def errors(spark, lake) -> object:
    place = str(WAREHOUSE / "shop.db" / "orders")
    lake.sql("CREATE TABLE strict (id INT NOT NULL, n TINYINT, PRIMARY KEY (id) NOT ENFORCED)")
    one = spark.range(1).selectExpr("id", "'mon' AS day", "'much' AS price")
    texts = {
        "table": "SELECT * FROM ordres",
        "column": "SELECT prize FROM orders",
        "token": "SELECT id FORM orders",
        "type": "INSERT INTO strict VALUES (1, 'much')",
        "null": "INSERT INTO strict VALUES (NULL, 1)",
        "width": "INSERT INTO strict SELECT 2, int(id) FROM range(300, 301)",
        "arity": "INSERT INTO strict VALUES (1)",
        "value": "SELECT CAST(item AS INT) FROM items",
        "procedure": "CALL sys.compcat(`table` => 'shop.orders')",
    }
    seen = {name: refused(lambda t=text: lake.sql(t).collect()) for name, text in texts.items()}
    seen["source option"] = refused(
        lambda: spark.read.format("tidelake").option("colums", "id").load(place).collect()
    )
    seen["source table"] = refused(
        lambda: spark.read.format("tidelake").load(place + "x").collect()
    )
    seen["source write"] = refused(lambda: one.write.format("tidelake").mode("append").save(place))
    seen["frame"] = refused(lambda: lake.write(one, "shop.orders"))
    seen["strict"] = {"text": str(rows(lake.sql("SELECT * FROM strict")))}
    return seen


def plain_sql(spark, lake) -> object:
    """What Connect cannot: catalogs of Python objects."""
    return {
        "sql": refused(lambda: spark.sql("SELECT * FROM tidelake.shop.orders").collect()),
        "asked": refused(lambda: tidelake.spark.attach(spark, WAREHOUSE, spark_sql=True)),
        "not asked": refused(lambda: tidelake.spark.attach(spark, WAREHOUSE, spark_sql=False)),
    }


def streams(spark, lake) -> object:
    """The sink's body runs in a Python process of the server's; a batch comes again."""
    source = WORK / "stream"
    spark.range(0, 6, 1, 3).selectExpr("id AS k", "id * 10 AS v").write.parquet(str(source))
    lake.sql("CREATE TABLE sunk (k BIGINT, v BIGINT)")
    checkpoint = WORK / "checkpoint"

    def run() -> str | None:
        reader = spark.readStream.schema("k bigint, v bigint").option("maxFilesPerTrigger", 1)
        query = lake.write_stream(
            reader.parquet(str(source)), "shop.sunk", checkpoint=checkpoint, trigger="availableNow"
        )
        query.awaitTermination()
        error = query.exception()
        return None if error is None else str(error)[:2000]

    errors = [run()]
    done = checkpoint / "commits"
    last = max(int(path.name) for path in done.iterdir() if path.name.isdecimal())
    (done / str(last)).unlink()
    (done / f".{last}.crc").unlink(missing_ok=True)
    errors.append(run())
    log = rows(
        lake.sql("SELECT commit_identifier FROM sunk$snapshots WHERE commit_kind = 'APPEND'")
    )
    copied = partial(_copied, spark, lake)
    return [
        errors,
        rows(lake.table("shop.sunk")),
        log,
        copied() if has(FORMAT_STREAMS_READ) else refused(copied),
    ]


def _copied(spark, lake) -> list[list[object]]:
    """The Python reader gives the table as a stream, with what it pushes down."""
    lake.sql("CREATE TABLE streamed (k BIGINT)")
    reader = spark.readStream.format("tidelake").option("columns", "k").option("where", "v > 10")
    query = lake.write_stream(
        reader.load(str(WAREHOUSE / "shop.db" / "sunk")),
        "shop.streamed",
        checkpoint=WORK / "copying",
        trigger="availableNow",
    )
    query.awaitTermination()
    assert query.exception() is None, query.exception()
    return rows(lake.table("shop.streamed"))


def stored(spark, lake) -> object:
    """Client and server find an object store, and keys for it, in their environment."""
    there = tidelake.spark.attach(spark, "s3://lake/house", catalog="cloud")
    there.create_table("db.t", spark.range(4))
    there.write(spark.range(4), "db.t")
    there.sql("DELETE FROM db.t WHERE id = 2")
    given = {"s3.access-key": "k", "s3.secret-key": "hush"}
    asked = refused(lambda: tidelake.spark.attach(spark, "s3://lake/house", storage=given))
    return [rows(there.table("db.t")), asked]


SCENARIOS = [
    session,
    definitions,
    inserts,
    queries,
    changes_rows,
    merges,
    procedures,
    frames,
    streams,
    errors,
    plain_sql,
    stored,
]


def tried(scenario, spark, lake) -> object:
    try:
        return scenario(spark, lake)
    except Exception:  # noqa: BLE001 # the test of this scenario shows it
        return {"failed": traceback.format_exc().partition("JVM stacktrace")[0][-3000:]}


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    seen = {"unregistered": tried(unregistered, spark, None)}
    lake = tidelake.spark.attach(spark, WAREHOUSE)
    chosen = [one for one in SCENARIOS if one.__name__ not in sys.argv[2:]]
    seen |= {scenario.__name__: tried(scenario, spark, lake) for scenario in chosen}
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
