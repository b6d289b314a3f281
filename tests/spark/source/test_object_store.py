"""A warehouse in an object store on Spark: all that a directory does, and Python's answers."""

from __future__ import annotations

import pickle

import pytest
from proving.fsck import check_table
from pyspark.errors import PySparkException
from servers.s3 import SECRET, S3Server

import tidelake
import tidelake.spark
from tidelake.errors import InvalidInputError, UnsupportedError

HOUSE = "s3://lake/house"


@pytest.fixture(scope="module")
def store():
    with S3Server(("lake", "other")) as server:
        yield server


@pytest.fixture(scope="module")
def lake(spark, store):
    """The warehouse, with its keys given by the program; executors get them in a broadcast."""
    return tidelake.spark.attach(spark, HOUSE, storage=store.storage(), catalog="cloud")


@pytest.fixture(scope="module")
def python(store):
    """The same warehouse without Spark."""
    return tidelake.open("s3a://lake/house", storage=store.storage())


def rows(frame):
    return sorted(map(tuple, frame.collect()))


@pytest.fixture
def same(lake, python):
    """The rows of a table on Spark, which are those of Python, of files that are all there."""

    def read(name):
        table = python.table(name)
        found = rows(lake.table(name))
        assert found == sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
        check_table(table.fileio, table.paths.location)
        return found

    return read


def test_a_primary_key_table_is_written_changed_merged_and_compacted(spark, lake, same, python):
    options = {"bucket": 2, "changelog-producer": "input"}
    lake.create_table("db.t", "k bigint, v string", primary_keys=["k"], options=options)
    lake.write(spark.range(6).selectExpr("id AS k", "'a' AS v"), "db.t")
    spark.sql("INSERT INTO cloud.db.t VALUES (4, 'b'), (6, 'b')")
    lake.sql("UPDATE db.t SET v = 'c' WHERE k = 0")
    lake.sql("DELETE FROM db.t WHERE k = 1")
    lake.sql(
        "MERGE INTO db.t USING (SELECT * FROM VALUES (2L, 'm'), (9L, 'm') AS s(k, v)) AS s"
        " ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    wanted = [(0, "c"), (2, "m"), (3, "a"), (4, "b"), (5, "a"), (6, "b"), (9, "m")]
    assert same("db.t") == wanted
    assert rows(spark.table("cloud.db.t").where("k > 4").select("k")) == [(5,), (6,), (9,)]
    assert lake.compact("db.t", full=True).files == 2
    assert same("db.t") == wanted
    assert rows(lake.table("db.t", snapshot_id=1)) == [(k, "a") for k in range(6)]
    told = rows(lake.changes("db.t", 1, 2, mode="changelog"))
    assert told == [("+I", 4, "b"), ("+I", 6, "b")]
    assert told == sorted(
        tuple(row.values())
        for row in python.table("db.t").changes(1, 2, mode="changelog").to_pylist()
    )


def test_an_append_table_is_overwritten_deleted_from_and_altered(spark, lake, same):
    lake.sql(
        "CREATE TABLE db.a (day STRING, n INT) PARTITIONED BY (day)"
        " WITH ('deletion-vectors.enabled' = 'true')"
    )
    frame = spark.createDataFrame([("x/y", 1), ("x/y", 2), ("ü z", 3)], "day string, n int")
    frame.writeTo("cloud.db.a").append()
    lake.write(frame.where("n = 2").withColumn("n", frame.n + 10), "db.a", mode="overwrite")
    assert same("db.a") == [("x/y", 12), ("ü z", 3)]
    spark.sql("ALTER TABLE cloud.db.a ADD COLUMN s STRING")
    lake.sql("INSERT INTO db.a VALUES ('x/y', 4, 's'), ('x/y', 5, 's')")
    lake.sql("DELETE FROM db.a WHERE n IN (12, 5)")
    lake.sql("UPDATE db.a SET s = 'u' WHERE n = 3")
    assert same("db.a") == [("x/y", 4, "s"), ("ü z", 3, "u")]


def test_rows_find_buckets_that_grow_move_and_wait(spark, lake, same):
    frame = spark.range(40).selectExpr("id % 2 AS p", "id AS k", "'a' AS v")
    growing = {"dynamic-bucket.target-row-num": 8}
    lake.create_table("db.grows", frame, primary_keys=["p", "k"], partition_keys=["p"],
                      options=growing)  # fmt: skip
    lake.create_table("db.moves", frame, primary_keys=["k"], partition_keys=["p"], options=growing)
    lake.create_table("db.waits", frame, primary_keys=["k"], options={"bucket": -2})
    for name in ("db.grows", "db.moves", "db.waits"):
        lake.write(frame, name)
    change = spark.range(3).selectExpr("(id + 1) % 2 AS p", "id AS k", "'b' AS v")
    lake.write(change, "db.moves")
    lake.write(change, "db.waits")
    assert lake.table("db.waits").count() == 0
    lake.compact("db.waits")
    assert len(same("db.grows")) == 40
    assert same("db.moves") == same("db.waits")
    assert same("db.moves")[0] == (0, 1, "b")


def test_a_catalog_made_by_a_statement_has_tables_procedures_and_system_tables(lake, store, python):
    keys = ", ".join(f"'{key}' = '{value}'" for key, value in store.storage().items())
    lake.sql(f"CREATE CATALOG second WITH ('type' = 'paimon', 'warehouse' = 's3://other', {keys})")
    lake.sql("CREATE TABLE second.db.c AS SELECT id AS k, id % 3 AS g FROM range(9)")
    lake.sql("CALL second.sys.create_tag(`table` => 'db.c', tag => 'one')")
    assert rows(lake.sql("SELECT tag_name FROM second.db.`c$tags`")) == [("one",)]
    assert rows(lake.sql("SELECT g, count(*) FROM second.db.c GROUP BY g")) == [
        (0, 3), (1, 3), (2, 3)
    ]  # fmt: skip
    other = tidelake.open("s3://other", storage=store.storage())
    assert other.table("db.c").count() == 9
    assert python.list_databases() == ["db"]
    with pytest.raises(UnsupportedError, match="db/c cannot be renamed"):
        lake.sql("ALTER TABLE second.db.c RENAME TO d")
    with pytest.raises(UnsupportedError, match="cannot be made beside its place"):
        lake.sql("CREATE OR REPLACE TABLE second.db.c AS SELECT 1 AS k")
    lake.sql("DROP TABLE second.db.c")
    assert store.listing("db.db/c", bucket="other") == []


def test_streams_read_and_write_tables_by_each_way_to_name_them(spark, lake, same, tmp_path):
    lake.create_table("db.src", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    targets = ["db.by_tl", "db.by_table", "db.by_option"]
    for name in targets:
        lake.create_table(name, "k bigint, v string")
    lake.write(spark.range(4).selectExpr("id AS k", "'a' AS v"), "db.src")
    plain = lake.read_stream("db.src", options={"read.changelog": False})
    of_spark = [
        spark.readStream.table("cloud.db.src")
        .writeStream.format(tidelake.spark.STREAM)
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / name))
        for name in targets[1:]
    ]
    queries = [
        lake.write_stream(plain, "db.by_tl", checkpoint=tmp_path / "by_tl", trigger="availableNow"),
        of_spark[0].toTable("cloud.db.by_table"),
        of_spark[1].option("table", "db.by_option").option("warehouse", "s3a://lake/house").start(),
    ]
    for query in queries:
        query.awaitTermination()
    assert [same(name) for name in targets] == [[(k, "a") for k in range(4)]] * 3
    with pytest.raises(UnsupportedError, match="checkpoint s3://lake/c of a stream into table"):
        lake.write_stream(plain, "db.by_tl", checkpoint="s3://lake/c")


def test_rows_are_looked_up_in_files_and_by_a_service(spark, lake, python):
    lake.create_table("db.d", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    lake.catalog.table("db.d").write([{"k": k, "v": f"v{k}"} for k in range(5)])
    asked = spark.range(3, 7).toDF("k")
    wanted = [(3, "v3"), (4, "v4"), (5, None), (6, None)]
    assert rows(lake.lookup_join(asked, "db.d", on="k", via="local")) == wanted
    with lake.serve(["db.d"], parallelism=1) as service:
        service.wait_ready(30)
        with tidelake.lookup_client(python, "db.d", deadline_seconds=30) as client:
            assert client.get(4) == {"k": 4, "v": "v4"}
        assert rows(lake.lookup_join(asked, "db.d", on="k", via="service")) == wanted


def test_the_data_source_reaches_attached_warehouses(spark, lake, same):
    lake.create_table("db.f", "k bigint", options={"bucket": -1})
    spark.range(3).toDF("k").write.format("tidelake").mode("append").save(f"{HOUSE}/db.db/f")
    assert same("db.f") == [(0,), (1,), (2,)]
    read = spark.read.format("tidelake").option("warehouse", "s3a://lake/house")
    assert rows(read.option("table", "db.f").load()) == [(0,), (1,), (2,)]
    with pytest.raises(PySparkException, match="would show in plans"):
        rows(read.option("s3.secret-key", "x").option("table", "db.f").load())


def test_files_are_read_by_python_workers_which_open_the_store_themselves(spark, lake, python):
    lake.create_table("db.plain", "k bigint")
    lake.write(spark.range(3).toDF("k"), "db.plain")
    plan = lake.table("db.plain")._jdf.queryExecution().toString()
    assert "read s3://lake/house/db.db/plain" in plan
    assert "FileScan" not in plan
    files = python.fileio

    def opened(batches):
        import os

        yield from batches
        with open(f"/proc/{os.getppid()}/maps") as daemon:
            assert "_obstore" not in daemon.read()
        assert files.exists("/house/db.db/plain")

    assert spark.range(1).mapInArrow(opened, "id long").count() == 1


def test_keys_do_not_show(lake, python):
    shown = [repr(lake), lake._repr_html_(), repr(python.fileio)]
    shown.append(pickle.dumps(lake.catalog.table("db.t").handle).decode("latin-1"))
    assert not [text for text in shown if SECRET in text]
    with pytest.raises(InvalidInputError, match="was given an opened catalog"):
        tidelake.spark.attach(lake.spark, lake.catalog, storage={"s3.region": "x"})


def test_tables_in_google_cloud_storage_are_read_and_written_by_python_workers(spark, store):
    """The server speaks its form of a condition; without keys nothing asks for a token."""
    storage = {"gs.endpoint": store.url}
    cloud = tidelake.spark.attach(spark, "gs://other/gs", storage=storage, catalog="gcs")
    cloud.create_table("db.t", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    for first, value in ((0, "a"), (2, "b")):
        frame = spark.range(first, first + 3).selectExpr("id AS k", f"'{value}' AS v")
        cloud.write(frame, "db.t")
    cloud.compact("db.t", full=True)
    found = cloud.table("db.t")
    assert "read gs://other" in found._jdf.queryExecution().toString()
    assert rows(found) == [(0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "b")]
    table = tidelake.open("gs://other/gs", storage=storage).table("db.t")
    check_table(table.fileio, table.paths.location)
