"""The main things, on whichever Spark is installed: `make sparks` runs these on each.

What a version lacks (:mod:`tidelake.spark.versions`) is refused by name, or goes another way with
the same answer.
"""

from __future__ import annotations

import pytest
from proving import doors
from pyspark.sql import functions as F

from tidelake import UnsupportedError
from tidelake.spark.versions import FORMAT_STREAMS_READ, STREAM_RELATIONS, TIMES, has

COLUMNS = "k BIGINT NOT NULL, v STRING, d DECIMAL(10,2), PRIMARY KEY (k) NOT ENFORCED"


@pytest.fixture
def rows(spark):
    return spark.range(1000).select(
        F.col("id").alias("k"),
        F.concat(F.lit("v"), "id").alias("v"),
        F.col("id").cast("decimal(10,2)").alias("d"),
    )


@pytest.fixture
def keyed(lake, rows):
    lake.sql(f"CREATE TABLE t ({COLUMNS}) WITH ('bucket' = '2')")
    lake.write(rows, "default.t")
    lake.write(rows.where("k < 100").withColumn("v", F.lit("new")), "default.t")
    return lake


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_a_merged_table_is_read_by_every_door(spark, keyed, tmp_path):
    wanted = [(100, 4950)]
    total = "SELECT count(*), CAST(sum(d) AS INT) FROM {} WHERE v = 'new'"
    assert values(keyed.sql(total.format("t"))) == wanted
    assert values(spark.sql(total.format("tidelake.default.t"))) == wanted
    named = keyed.table("default.t").where("v = 'new'")
    assert values(named.agg(F.count("*"), F.sum("d").cast("int"))) == wanted
    by_format = spark.read.format("tidelake").option("warehouse", keyed.catalog.uri)
    assert (
        by_format.option("table", "default.t").load().where("k < 200 AND v = 'new'").count() == 100
    )
    assert spark.sql("SELECT * FROM tidelake.default.t VERSION AS OF 1").count() == 1000
    joined = "SELECT count(*) FROM tidelake.default.t a JOIN tidelake.default.t b USING (k)"
    assert values(spark.sql(joined)) == [(1000,)]
    assert keyed.changes("default.t", 1, 2).count() == 200


@pytest.mark.parametrize("door", doors.DOORS)
def test_statements_change_tables_with_and_without_keys(spark, keyed, door):
    doors.run(keyed, "DELETE FROM t WHERE k < 10", door)
    doors.run(keyed, "UPDATE t SET v = 'set' WHERE k BETWEEN 20 AND 29", door)
    doors.run(
        keyed,
        "MERGE INTO t USING (SELECT id AS k FROM range(15)) s ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET v = 'met'"
        " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 'in')",
        door,
    )
    counted = "SELECT v, count(*) FROM t WHERE v IN ('met', 'in', 'set', 'new') GROUP BY v"
    assert values(keyed.sql(counted)) == [("in", 10), ("met", 5), ("new", 75), ("set", 10)]
    keyed.sql("CREATE TABLE a (k INT, v STRING) WITH ('deletion-vectors.enabled' = 'true')")
    spark.sql("INSERT INTO tidelake.default.a VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    doors.run(keyed, "DELETE FROM a WHERE k IN (SELECT 2)", door)
    assert values(spark.table("tidelake.default.a")) == [(1, "a"), (3, "c")]


def test_dynamic_buckets_and_partitions_are_written(spark, lake, rows):
    lake.sql(
        f"CREATE TABLE p ({COLUMNS})"
        " WITH ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '200')"
    )
    for word in ("one", "two"):
        lake.write(rows.withColumn("v", F.lit(word)), "default.p")
    assert values(lake.sql("SELECT v, count(*) FROM p GROUP BY v")) == [("two", 1000)]
    spark.sql("CREATE TABLE tidelake.default.c (k BIGINT, v STRING, g INT) PARTITIONED BY (g)")
    rows.selectExpr("k", "v", "CAST(k % 3 AS INT) AS g").writeTo("tidelake.default.c").append()
    assert values(spark.sql("SELECT g, count(*) FROM tidelake.default.c GROUP BY g")) == [
        (0, 334),
        (1, 333),
        (2, 333),
    ]


def test_a_stream_goes_from_table_to_table(spark, keyed, tmp_path):
    keyed.sql(f"CREATE TABLE o ({COLUMNS}) WITH ('bucket' = '1')")
    for changed in ("one", "two"):
        keyed.sql(f"UPDATE t SET v = '{changed}' WHERE k < 3")
        started = keyed.write_stream(
            keyed.read_stream("default.t"),
            "default.o",
            checkpoint=str(tmp_path / "to-o"),
            trigger="availableNow",
        )
        started.awaitTermination(120)
        assert values(keyed.table("default.o")) == values(keyed.table("default.t"))
    named = spark.readStream.table("tidelake.default.t").writeStream.format("memory")
    query = named.queryName("seen").option("checkpointLocation", str(tmp_path / "seen"))
    query.trigger(availableNow=True).start().awaitTermination(120)
    assert spark.table("seen").count() == 1000
    keyed.sql(f"CREATE TABLE named ({COLUMNS}) WITH ('bucket' = '1')")
    for changed in ("three", "four"):
        keyed.sql(f"UPDATE t SET v = '{changed}' WHERE k < 3")
        in_sql = "SELECT * FROM STREAM tidelake.default.t"
        by_table = spark.readStream.table("tidelake.default.t")
        frame = spark.sql(in_sql) if has(STREAM_RELATIONS) else by_table
        by_name = frame.writeStream.option("checkpointLocation", str(tmp_path / "named"))
        by_name.trigger(availableNow=True).toTable("tidelake.default.named").awaitTermination(120)
        assert values(keyed.table("default.named")) == values(keyed.table("default.t"))


def test_a_batch_of_a_stream_is_merged_by_plain_sql(spark, keyed, tmp_path):
    def merge(batch, _number):
        batch.where("k < 2 OR k = 500").createOrReplaceTempView("came")
        batch.sparkSession.sql(
            "MERGE INTO tidelake.default.t t USING came s ON t.k = s.k AND s.k < 2"
            " WHEN MATCHED THEN UPDATE SET v = 'met'"
            " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k + 1000, 'in')"
        )

    writer = keyed.read_stream("default.t").writeStream.foreachBatch(merge)
    query = writer.option("checkpointLocation", str(tmp_path / "merging"))
    query.trigger(availableNow=True).start().awaitTermination(120)
    found = spark.sql("SELECT k, v FROM tidelake.default.t WHERE k < 2 OR k IN (500, 1500)")
    assert values(found) == [(0, "met"), (1, "met"), (500, "v500"), (1500, "in")]


def test_procedures_and_system_tables_answer(spark, keyed):
    spark.sql("CALL tidelake.sys.compact(table => 'default.t')")
    kinds = "SELECT commit_kind, count(*) FROM tidelake.default.`t$snapshots` GROUP BY commit_kind"
    assert ("APPEND", 2) in values(spark.sql(kinds))
    shown = spark.sql("SHOW TABLES IN tidelake.default").collect()
    assert [row.tableName for row in shown] == ["t"]


def test_what_a_version_lacks_is_refused_by_name(spark, keyed):
    source = spark.readStream.format("tidelake").option("warehouse", keyed.catalog.uri)
    source = source.option("table", "default.t")
    if has(FORMAT_STREAMS_READ):
        assert source.load().isStreaming
    else:
        with pytest.raises(Exception, match=rf"needs Spark {FORMAT_STREAMS_READ.since}"):
            source.load().writeStream.format("noop").trigger(
                once=True
            ).start().processAllAvailable()
    keyed.catalog.create_table("default.clock", {"at": "TIME(3)"})
    if has(TIMES):
        assert keyed.table("default.clock").count() == 0
    else:
        with pytest.raises(UnsupportedError, match=rf"needs Spark {TIMES.since}"):
            keyed.table("default.clock")
