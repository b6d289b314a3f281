"""A warehouse in HDFS on Spark: all that a directory does, and files read by Spark's own scan."""

from __future__ import annotations

import pytest
import quick_spark
import sql_demo
from proving.fsck import check_table

import tidelake
import tidelake.spark
from tidelake.errors import UnsupportedError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(hdfs, tmp_path_factory):
    session = quick_spark.session(tmp_path_factory.mktemp("python"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def house(hdfs):
    return hdfs.uri("/spark/house")


@pytest.fixture(scope="module")
def lake(spark, house):
    return tidelake.spark.attach(spark, house, catalog="dfs")


@pytest.fixture(scope="module")
def python(house):
    """The same warehouse without Spark."""
    return tidelake.open(house)


def rows(frame):
    return sorted(map(tuple, frame.collect()))


def plan(frame):
    return frame._jdf.queryExecution().toString()


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
    spark.sql("INSERT INTO dfs.db.t VALUES (4, 'b'), (6, 'b')")
    lake.sql("UPDATE db.t SET v = 'c' WHERE k = 0")
    lake.sql("DELETE FROM db.t WHERE k = 1")
    lake.sql(
        "MERGE INTO db.t USING (SELECT * FROM VALUES (2L, 'm'), (9L, 'm') AS s(k, v)) AS s"
        " ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    wanted = [(0, "c"), (2, "m"), (3, "a"), (4, "b"), (5, "a"), (6, "b"), (9, "m")]
    assert same("db.t") == wanted
    under_masks = lake.table("db.t", options={"read.native": "always"})
    assert "FileScan parquet" in plan(under_masks)
    assert rows(under_masks) == wanted
    assert lake.compact("db.t", full=True).files == 2
    assert same("db.t") == wanted
    assert rows(spark.table("dfs.db.t").where("k > 4").select("k")) == [(5,), (6,), (9,)]
    assert rows(lake.table("db.t", snapshot_id=1)) == [(k, "a") for k in range(6)]
    told = rows(lake.changes("db.t", 1, 2, mode="changelog"))
    assert told == [("+I", 4, "b"), ("+I", 6, "b")]
    lake.sql("ALTER TABLE db.t RENAME TO u")
    assert same("db.u") == wanted
    lake.sql("CREATE OR REPLACE TABLE db.u AS SELECT 1 AS k")
    assert same("db.u") == [(1,)]
    lake.sql("DROP TABLE db.u")
    assert "u" not in python.list_tables("db")


def test_files_that_need_no_merge_are_read_by_sparks_own_scan(spark, lake, house, same):
    lake.sql(
        "CREATE TABLE db.a (day STRING, n INT) PARTITIONED BY (day)"
        " WITH ('deletion-vectors.enabled' = 'true')"
    )
    days = [("x/y", 1), ("x/y", 2), ("ü z=1%", 3)]
    spark.createDataFrame(days, "day string, n int").writeTo("dfs.db.a").append()
    frame = lake.table("db.a", where="n > 0")
    shown = plan(frame)
    assert "FileScan parquet" in shown
    assert house in shown
    assert "MapInArrow" not in shown
    assert rows(frame) == days
    never = lake.table("db.a", options={"read.native": "never"})
    assert "by Python workers: read.native = never" in plan(never)
    assert rows(never) == days
    lake.sql("DELETE FROM db.a WHERE n = 2")
    assert same("db.a") == [("x/y", 1), ("ü z=1%", 3)]


def test_streams_read_and_write_tables(spark, lake, same, hdfs):
    """Their checkpoints are in HDFS too."""
    checkpoints = hdfs.uri("/spark/checkpoints")
    lake.create_table("db.src", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    lake.create_table("db.plain", "k bigint")
    lake.create_table("db.copy", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    lake.create_table("db.plain_copy", "k bigint")
    lake.write(spark.range(4).selectExpr("id AS k", "'a' AS v"), "db.src")
    lake.write(spark.range(3).toDF("k"), "db.plain")
    for more in (None, 5):
        if more:
            lake.catalog.table("db.plain").write([{"k": 3}, {"k": 4}])
            lake.catalog.table("db.src").write([{"k": 1, "v": "b"}])
        first = lake.write_stream(
            lake.read_stream("db.src", options={"read.changelog": False}),
            "db.copy",
            checkpoint=f"{checkpoints}/keyed",
            trigger="availableNow",
        )
        second = (
            spark.readStream.table("dfs.db.plain")
            .writeStream.format(tidelake.spark.STREAM)
            .trigger(availableNow=True)
            .option("checkpointLocation", f"{checkpoints}/plain")
            .toTable("dfs.db.plain_copy")
        )
        first.awaitTermination()
        second.awaitTermination()
    assert same("db.copy") == [(0, "a"), (1, "b"), (2, "a"), (3, "a")]
    assert same("db.plain_copy") == [(k,) for k in range(5)]


def test_rows_are_looked_up_in_files_and_by_a_service(spark, lake, python):
    lake.create_table("db.d", "k bigint, v string", primary_keys=["k"], options={"bucket": 1})
    python.table("db.d").write([{"k": k, "v": f"v{k}"} for k in range(5)])
    asked = spark.range(3, 7).toDF("k")
    wanted = [(3, "v3"), (4, "v4"), (5, None), (6, None)]
    assert rows(lake.lookup_join(asked, "db.d", on="k", via="local")) == wanted
    with lake.serve(["db.d"], parallelism=1) as service:
        service.wait_ready(30)
        with tidelake.lookup_client(python, "db.d", deadline_seconds=30) as client:
            assert client.get(4) == {"k": 4, "v": "v4"}
        assert rows(lake.lookup_join(asked, "db.d", on="k", via="service")) == wanted


def test_a_catalog_of_a_statement_and_the_data_source_reach_it(spark, lake, hdfs, house, same):
    lake.sql(
        f"CREATE CATALOG second WITH ('type' = 'paimon', 'warehouse' = '{hdfs.uri('/spark/two')}')"
    )
    lake.sql("CREATE TABLE second.db.c AS SELECT id AS k, id % 3 AS g FROM range(9)")
    lake.sql("CALL second.sys.create_tag(`table` => 'db.c', tag => 'one')")
    assert rows(lake.sql("SELECT tag_name FROM second.db.`c$tags`")) == [("one",)]
    assert rows(lake.sql("SELECT g, count(*) FROM second.db.c GROUP BY g")) == [
        (0, 3), (1, 3), (2, 3)
    ]  # fmt: skip
    lake.create_table("db.f", "k bigint", options={"bucket": -1})
    spark.range(3).toDF("k").write.format("tidelake").mode("append").save(f"{house}/db.db/f")
    read = spark.read.format("tidelake").option("warehouse", house)
    assert rows(read.option("table", "db.f").load()) == same("db.f") == [(0,), (1,), (2,)]


def test_workers_open_it_themselves_and_their_parent_never_does(spark, python):
    files = python.fileio

    def opened(batches):
        import os

        yield from batches
        with open(f"/proc/{os.getppid()}/maps") as daemon:
            assert "hdfs_native" not in daemon.read()
        assert files.exists("/spark/house")

    assert spark.range(1).mapInArrow(opened, "id long").count() == 1


def test_a_name_service_is_known_to_workers_by_its_keys(spark, two_name_nodes):
    """Hadoop of this Spark has no word of it, so its own scan does not read the files."""
    keys = two_name_nodes.service("prod")
    lake = tidelake.spark.attach(spark, "hdfs://prod/house", storage=keys, catalog="ha")
    lake.create_table("db.t", "k bigint, v string", primary_keys=["k"], options={"bucket": 2})
    lake.write(spark.range(6).selectExpr("id AS k", "'a' AS v"), "db.t")
    frame = lake.table("db.t")
    assert "by Python workers: 'hdfs' did not find a file of it" in plan(frame)
    assert rows(frame) == [(k, "a") for k in range(6)]
    two_name_nodes.do("failover 0 1")
    spark.sql("INSERT INTO ha.db.t VALUES (3, 'b')")
    assert rows(lake.table("db.t").where("k = 3")) == [(3, "b")]
    with pytest.raises(UnsupportedError, match="does not read its files") as caught:
        lake.table("db.t", options={"read.native": "always"})
    assert caught.value.kind == "native_read"


@pytest.mark.timeout(1200)
def test_the_demo_in_sql(spark, hdfs, tmp_path, capsys):
    where = hdfs.uri("/spark/demo")
    flights = sql_demo.raw(tmp_path)
    sql_demo.by_tidelake_sql(["-w", where], tmp_path, capsys)
    assert tidelake.open(where).table("air.board").count() == flights > 6000
