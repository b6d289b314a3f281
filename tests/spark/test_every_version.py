"""The main things, on whichever Spark is installed: `make sparks` runs these on each.

What a version lacks (:mod:`tidelake.spark.versions`) is refused by name, or goes another way with
the same answer. The table of versions in ``docs/compatibility.md`` is made of what these tests
recorded on each (``every_version.json``): the mark ``shows`` names a row of it. What other tests
try on the newest, too, is marked ``full``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import time
from pathlib import Path

import pytest
from proving import doors
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from servers.s3 import KEY_ID, S3Server

import tidelake.spark
from tidelake import UnsupportedError
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.versions import (
    ARROW_UDFS,
    CHANGELOGS,
    CONSTRAINTS,
    FILTERS,
    FORMAT_REACHES_ATTACHED,
    FORMAT_STREAMS_READ,
    FORMAT_STREAMS_WRITTEN,
    SCHEMA_EVOLUTION,
    SHUFFLES_BY_NUMBER,
    STREAM_RELATIONS,
    TABLES_ALIKE,
    TIMES,
    has,
)

OF_THE_MACHINE = "of-the-machine"
CLIENT = Path(__file__).with_name("every_version_client.py")
COLUMNS = "k BIGINT NOT NULL, v STRING, d DECIMAL(10,2), PRIMARY KEY (k) NOT ENFORCED"


@pytest.fixture(autouse=True)
def recorded(request, record_property):
    """Name the row of the table that a test proves a cell of."""
    mark = request.node.get_closest_marker("shows")
    record_property("shows", getattr(mark.args[0], "name", mark.args[0]))


@pytest.fixture
def has_recorded(record_property):
    """Whether this version has a capability; what is recorded of it."""

    def answer(capability):
        record_property("has", str(has(capability)))
        return has(capability)

    return answer


@pytest.fixture(scope="session")
def store():
    with S3Server() as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def environment(store):
    """Where the processes of the format know a store by their environment alone, it is there.

    Before the session starts: its JVM hands it on.
    """
    if not has(FORMAT_REACHES_ATTACHED):
        os.environ["AWS_ENDPOINT_URL"] = store.url
        os.environ["AWS_ACCESS_KEY_ID"] = OF_THE_MACHINE
        os.environ["AWS_SECRET_ACCESS_KEY"] = "hush"


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


@pytest.mark.shows(
    'reads by `tl.sql`, `spark.sql`, DataFrames and `format("tidelake")`; time travel; changes'
)
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


@pytest.mark.shows("`INSERT`, `DELETE`, `UPDATE` and `MERGE` by `tl.sql` and by plain `spark.sql`")
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


@pytest.mark.shows("writes into fixed and dynamic buckets, and into partitions")
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


@pytest.mark.shows("streams from table to table, by `tl` and by plain names")
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


@pytest.mark.shows("`MERGE` by plain `spark.sql` in `foreachBatch`")
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


@pytest.mark.shows("`CALL`, `SHOW` and system tables")
def test_procedures_and_system_tables_answer(spark, keyed):
    spark.sql("CALL tidelake.sys.compact(table => 'default.t')")
    kinds = "SELECT commit_kind, count(*) FROM tidelake.default.`t$snapshots` GROUP BY commit_kind"
    assert ("APPEND", 2) in values(spark.sql(kinds))
    shown = spark.sql("SHOW TABLES IN tidelake.default").collect()
    assert [row.tableName for row in shown] == ["t"]


@pytest.mark.shows("merge engines")
@pytest.mark.full
def test_merge_engines_combine_rows(spark, lake):
    options = "'bucket' = '2', 'merge-engine' = '{}'"
    engines = {
        "partial-update": "",
        "aggregation": ", 'fields.n.aggregate-function' = 'sum'",
        "first-row": "",
    }
    for engine, more in engines.items():
        name = engine.replace("-", "_")
        keyed = "k INT, n INT, s STRING, PRIMARY KEY (k) NOT ENFORCED"
        lake.sql(f"CREATE TABLE {name} ({keyed}) WITH ({options.format(engine)}{more})")
        lake.sql(f"INSERT INTO {name} VALUES (1, 1, NULL), (2, 2, 'b')")
        spark.sql(f"INSERT INTO tidelake.default.{name} VALUES (1, 10, 'a'), (2, NULL, NULL)")
    found = {e: values(lake.table(f"default.{e.replace('-', '_')}")) for e in engines}
    assert found == {
        "partial-update": [(1, 10, "a"), (2, 2, "b")],
        "aggregation": [(1, 11, "a"), (2, 2, "b")],
        "first-row": [(1, 1, None), (2, 2, "b")],
    }


@pytest.mark.shows("tables of deletion vectors, with keys and without")
@pytest.mark.full
def test_masked_files_are_read_by_every_door(spark, lake):
    by_format = spark.read.format("tidelake").option("warehouse", lake.catalog.uri)
    for name, more in (("a", ""), ("k", ", PRIMARY KEY (k) NOT ENFORCED")):
        lake.sql(
            f"CREATE TABLE {name} (k BIGINT, v STRING{more})"
            " WITH ('deletion-vectors.enabled' = 'true', 'bucket' = '1', 'bucket-key' = 'k')"
        )
        lake.write(spark.range(100).selectExpr("id AS k", "'old' AS v"), f"default.{name}")
        spark.sql(f"DELETE FROM tidelake.default.{name} WHERE k % 10 > 0")
        spark.sql(f"UPDATE tidelake.default.{name} SET v = 'new' WHERE k = 50")
        lake.compact(f"default.{name}")
        wanted = [(k, "new" if k == 50 else "old") for k in range(0, 100, 10)]
        assert values(spark.table(f"tidelake.default.{name}")) == wanted
        assert values(lake.table(f"default.{name}")) == wanted
        assert values(by_format.option("table", f"default.{name}").load()) == wanted


@pytest.mark.shows("Spark Connect, by `tidelake connect`: `SELECT`, `INSERT`, `MERGE`, streams")
@pytest.mark.full
def test_a_client_of_connect_reads_writes_merges_and_streams(spark, rows, tmp_path):
    pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
    served = tidelake.spark.attach(spark, tmp_path / "served", catalog="served")
    served.sql(f"CREATE TABLE t ({COLUMNS}) WITH ('bucket' = '2')")
    served.sql(f"CREATE TABLE o ({COLUMNS}) WITH ('bucket' = '1')")
    served.write(rows, "default.t")
    given = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    with tidelake.spark.connect_server(served) as server:
        done = subprocess.run(
            [sys.executable, str(CLIENT), server.url, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=given | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    inserted, merged = [2000, "in"], [[0, "met"], [1, "met"], [2, "v2"], [3000, "new"]]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "counted": [[1000]],
        "inserted": [inserted],
        "merged": [*merged[:3], inserted, merged[3]],
        "streamed": True,
    }
    assert values(served.table("default.o")) == values(served.table("default.t"))


@pytest.mark.shows(FILTERS)
def test_filters_of_the_format_leave_out_files(spark, lake, has_recorded):
    lake.sql("CREATE TABLE p (k BIGINT, g INT) PARTITIONED BY (g)")
    lake.sql("INSERT INTO p SELECT id, CAST(id % 3 AS INT) FROM range(30)")
    reader = spark.read.format("tidelake").option("warehouse", lake.catalog.uri)
    reader = reader.option("table", "default.p")
    filtered = reader.load().where("g = 1")
    assert filtered.count() == 10
    assert filtered.rdd.getNumPartitions() == (1 if has_recorded(FILTERS) else 3)
    by_option = reader.option("where", "g = 1").load()
    assert by_option.count() == 10
    assert by_option.rdd.getNumPartitions() == 1


@pytest.mark.shows(SHUFFLES_BY_NUMBER)
def test_rows_go_to_the_task_of_their_number(spark, has_recorded):
    frame = spark.range(100).selectExpr("CAST(id % 4 AS INT) AS n")
    placed = by_number(frame, 4, "n").select("n", F.spark_partition_id()).distinct()
    assert values(placed) == [(n, n) for n in range(4)]
    assert hasattr(frame, "repartitionById") is has_recorded(SHUFFLES_BY_NUMBER)


@pytest.mark.shows(TIMES)
def test_columns_of_time(lake, has_recorded):
    lake.catalog.create_table("default.clock", {"at": "TIME(3)"}).write([{"at": time(1)}])
    if has_recorded(TIMES):
        assert values(lake.table("default.clock")) == [(time(1),)]
    else:
        with pytest.raises(UnsupportedError, match=rf"needs Spark {TIMES.since}"):
            lake.table("default.clock")


@pytest.mark.shows(ARROW_UDFS)
def test_python_computes_in_the_middle_of_a_plan(spark, keyed, has_recorded):
    facts = spark.range(98, 102).withColumnRenamed("id", "k")
    keyed.sql(
        "CREATE TABLE x (f DOUBLE, v INT, PRIMARY KEY (f) NOT ENFORCED) WITH ('bucket' = '2')"
    )
    numbers = spark.range(4).selectExpr("CAST(id AS DOUBLE) AS f", "CAST(id AS INT) AS v")
    if has_recorded(ARROW_UDFS):
        joined = keyed.lookup_join(facts, "default.t", on="k", columns={"v": "v"})
        assert values(joined) == [(98, "new"), (99, "new"), (100, "v100"), (101, "v101")]
        keyed.write(numbers, "default.x")
        assert values(keyed.table("default.x")) == [(float(n), n) for n in range(4)]
        return
    needs = rf"needs Spark {ARROW_UDFS.since}"
    with pytest.raises(UnsupportedError, match=needs):
        keyed.lookup_join(facts, "default.t", on="k", columns={"v": "v"})
    with pytest.raises(UnsupportedError, match=needs):
        keyed.write(numbers, "default.x")


@pytest.mark.shows(FORMAT_REACHES_ATTACHED)
@pytest.mark.full
def test_the_format_reaches_the_storage_of_an_attached_warehouse(spark, store, has_recorded):
    lake = tidelake.spark.attach(spark, "s3://lake/house", storage=store.storage(), catalog="far")
    lake.create_table("db.t", spark.range(4))
    lake.write(spark.range(4), "db.t")
    seen = len(store.requests)
    reader = spark.read.format("tidelake").option("warehouse", "s3://lake/house")
    assert values(reader.option("table", "db.t").load()) == [(k,) for k in range(4)]
    used = {one.key_id for one in store.requests[seen:]}
    assert used == {KEY_ID if has_recorded(FORMAT_REACHES_ATTACHED) else OF_THE_MACHINE}


@pytest.mark.shows(FORMAT_STREAMS_WRITTEN)
@pytest.mark.full
def test_the_format_takes_streams(spark, lake, rows, tmp_path, has_recorded):
    lake.sql("CREATE TABLE o (k BIGINT, v STRING, d DECIMAL(10,2))")
    rows.write.parquet(str(tmp_path / "rows"))
    frame = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows"))
    writer = frame.writeStream.format("tidelake").option("warehouse", lake.catalog.uri)
    writer = writer.option("table", "default.o").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    if has_recorded(FORMAT_STREAMS_WRITTEN):
        assert writer.start().awaitTermination(120)
        assert values(lake.table("default.o")) == values(rows)
    else:
        with pytest.raises(PySparkException, match=f"needs Spark {FORMAT_STREAMS_WRITTEN.since}"):
            writer.start().awaitTermination(120)
        assert lake.table("default.o").count() == 0


@pytest.mark.shows(FORMAT_STREAMS_READ)
@pytest.mark.full
def test_the_format_gives_streams(spark, keyed, tmp_path, has_recorded):
    source = spark.readStream.format("tidelake").option("warehouse", keyed.catalog.uri)
    source = source.option("table", "default.t")

    def run():
        writer = source.load().writeStream.format("memory").queryName("given")
        writer = writer.option("checkpointLocation", str(tmp_path / "given"))
        return writer.trigger(availableNow=True).start().awaitTermination(120)

    if has_recorded(FORMAT_STREAMS_READ):
        assert run()
        assert spark.table("given").count() == 1000
    else:
        with pytest.raises(PySparkException, match=f"needs Spark {FORMAT_STREAMS_READ.since}"):
            run()


@pytest.mark.shows(CONSTRAINTS)
def test_plain_sql_declares_keys(spark, lake, has_recorded):
    columns = "k BIGINT NOT NULL, v STRING"
    by_word = f"CREATE TABLE tidelake.default.w ({columns}, PRIMARY KEY (k) NOT ENFORCED)"
    if has_recorded(CONSTRAINTS):
        spark.sql(by_word)
        assert lake.catalog.table("default.w").primary_keys == ("k",)
    else:
        with pytest.raises(PySparkException):
            spark.sql(by_word)
    by_property = "TBLPROPERTIES ('primary-key' = 'k')"
    spark.sql(f"CREATE TABLE tidelake.default.p ({columns}) {by_property}")
    assert lake.catalog.table("default.p").primary_keys == ("k",)


@pytest.mark.shows(TABLES_ALIKE)
def test_tables_are_made_alike(spark, keyed, has_recorded):
    plain = "CREATE TABLE tidelake.default.u LIKE tidelake.default.t"
    if has_recorded(TABLES_ALIKE):
        spark.sql(plain)
    else:
        with pytest.raises(PySparkException):
            spark.sql(plain)
        keyed.sql("CREATE TABLE u LIKE t")
    assert keyed.catalog.table("default.u").primary_keys == ("k",)


@pytest.mark.shows(SCHEMA_EVOLUTION)
def test_a_merge_by_plain_sql_brings_columns(spark, keyed, has_recorded):
    merge = (
        "MERGE WITH SCHEMA EVOLUTION INTO {}t"
        " USING (SELECT 1 AS k, 'met' AS v, 1.5BD AS d, 7 AS more) s"
        " ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
    )
    plain = merge.format("tidelake.default.")
    if has_recorded(SCHEMA_EVOLUTION):
        spark.sql(plain)
    else:
        with pytest.raises(PySparkException, match=r"the same statement with tl\.sql"):
            spark.sql(plain)
        keyed.sql(merge.format(""))
    found = spark.sql("SELECT k, v, more FROM tidelake.default.t WHERE k < 3")
    assert values(found) == [(0, "new", None), (1, "met", 7), (2, "new", None)]


@pytest.mark.shows(STREAM_RELATIONS)
def test_plain_sql_names_a_stream(spark, keyed, has_recorded):
    plain = "SELECT * FROM STREAM tidelake.default.t"
    if has_recorded(STREAM_RELATIONS):
        assert spark.sql(plain).isStreaming
    else:
        with pytest.raises(PySparkException):
            spark.sql(plain)
    assert spark.readStream.table("tidelake.default.t").isStreaming


@pytest.mark.shows(CHANGELOGS)
def test_plain_sql_asks_for_changes(spark, keyed, has_recorded):
    plain = "SELECT k FROM tidelake.default.t CHANGES FROM VERSION 2 TO VERSION 2"
    if has_recorded(CHANGELOGS):
        assert spark.sql(plain).count() == 200
    else:
        with pytest.raises(PySparkException):
            spark.sql(plain).collect()
    assert keyed.changes("default.t", 1, 2).count() == 200
