"""Branches on Spark: statements, DataFrames, streams and `spark.sql` name them alike."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

import tidelake.spark
from tidelake import InvalidInputError, NotFoundError


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """Table ``db.t`` with a branch ``b`` of its first snapshot that has one row more."""
    made = tidelake.spark.attach(spark, tmp_path_factory.mktemp("branched"), catalog="branched")
    made.sql("CREATE DATABASE db")
    made.sql(
        "CREATE TABLE db.t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')"
    )
    made.sql("INSERT INTO db.t VALUES (1, 'main'), (2, 'main')")
    made.sql("CALL sys.create_branch(`table` => 'db.t', branch => 'b', snapshot => 1)")
    made.sql("INSERT INTO db.`t$branch_b` SELECT 3, 'branch'")
    return made


def keys(frame) -> list[int]:
    return sorted(row.k for row in frame.collect())


def test_every_way_to_name_a_branch_reads_it(spark, lake):
    wanted = [1, 2, 3]
    assert keys(lake.sql("SELECT * FROM db.`t$branch_b`")) == wanted
    assert keys(lake.sql("SELECT k FROM db.t$branch_b WHERE v <> ''")) == wanted
    assert keys(lake.sql("SELECT * FROM db.t /*+ OPTIONS('branch' = 'b') */")) == wanted
    assert keys(lake.table("db.t$branch_b")) == wanted
    assert keys(lake.table("db.t", options={"branch": "b"})) == wanted
    assert keys(spark.table("branched.db.`t$branch_b`")) == wanted
    assert keys(spark.sql("SELECT * FROM branched.db.`t$branch_b`")) == wanted
    assert keys(spark.read.option("branch", "b").table("branched.db.t")) == wanted
    assert keys(lake.table("db.t")) == [1, 2]


def test_system_tables_of_a_branch(spark, lake):
    counted = "SELECT max(snapshot_id) AS k FROM {}"
    assert keys(lake.sql(counted.format("db.`t$branch_b$snapshots`"))) == [2]
    assert keys(spark.sql(counted.format("branched.db.`t$branch_b$snapshots`"))) == [2]
    assert lake.table("db.t$branch_b$files", options={"scan.snapshot-id": 1}).count() == 1
    assert [r.branch_name for r in lake.table("db.t$branches").collect()] == ["b"]


def test_a_stream_reads_and_writes_branches(spark, lake, tmp_path):
    lake.sql("CALL sys.create_branch('db.t', 'target')")
    lake.sql("ALTER TABLE db.`t$branch_target` SET TBLPROPERTIES ('sink.parallelism' = '1')")
    source = lake.read_stream("db.t$branch_b")
    query = lake.write_stream(
        source, "db.t$branch_target", checkpoint=tmp_path / "c", trigger="availableNow"
    )
    query.awaitTermination()
    assert set(keys(lake.table("db.t$branch_target"))) == {1, 2, 3}
    lake.catalog.table("db.t").branches.delete("target")


def test_spark_streams_into_the_branch_that_it_names(spark, lake, tmp_path):
    lake.sql("CALL sys.create_branch('db.t', 'named')")
    writer = lake.read_stream("db.t$branch_b").writeStream
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer.toTable("branched.db.`t$branch_named`").awaitTermination()
    assert keys(lake.table("db.t$branch_named")) == [1, 2, 3]
    assert keys(lake.table("db.t")) == [1, 2]
    lake.catalog.table("db.t").branches.delete("named")


def test_a_worker_looks_rows_up_in_a_table_and_its_branch(spark, lake):
    facts = spark.range(1, 4).selectExpr("cast(id AS INT) AS k").coalesce(1)
    for _ in range(2):
        for name, last in (("db.t", None), ("db.t$branch_b", "branch")):
            found = lake.lookup_join(facts, name, on="k").collect()
            assert sorted((r.k, r.v) for r in found) == [(1, "main"), (2, "main"), (3, last)]


def test_a_branch_is_written_in_every_way(spark, lake):
    lake.sql("CALL sys.create_branch('db.t', 'w', null, null, 1)")
    spark.sql("INSERT INTO branched.db.`t$branch_w` VALUES (4, 'x')")
    spark.createDataFrame([(5, "y")], "k int, v string").writeTo(
        "branched.db.`t$branch_w`"
    ).append()
    lake.write(spark.createDataFrame([(6, "z")], "k int, v string"), "db.t$branch_w")
    lake.sql("DELETE FROM db.`t$branch_w` WHERE k = 4")
    lake.sql("UPDATE db.`t$branch_w` SET v = 'new' WHERE k = 5")
    lake.sql("ALTER TABLE db.`t$branch_w` ADD COLUMN note STRING")
    assert keys(lake.table("db.t$branch_w")) == [1, 2, 5, 6]
    assert lake.table("db.t").columns == ["k", "v"]
    lake.sql("CALL sys.fast_forward('db.t', 'w')")
    assert keys(spark.sql("SELECT * FROM branched.db.t")) == [1, 2, 5, 6]
    assert lake.table("db.t").columns == ["k", "v", "note"]
    lake.sql("CALL sys.rename_branch('db.t', 'w', 'w2')")
    lake.sql("CALL sys.delete_branch('db.t', 'w2')")
    lake.sql("CALL sys.rollback(`table` => 'db.t', version => '1')")


def test_what_is_no_branch_is_said(spark, lake):
    with pytest.raises(NotFoundError, match="has no branch 'x'"):
        lake.sql("SELECT * FROM db.`t$branch_x`")
    with pytest.raises(AnalysisException, match=r"has no branch 'x'|TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM branched.db.`t$branch_x`").collect()
    with pytest.raises(InvalidInputError, match=r"contains '\$'"):
        lake.sql("DROP TABLE db.`t$branch_b`")


def test_every_door_reads_partitions_that_main_lacks_from_the_fallback_branch(spark, lake):
    """Raw files, merged ones, counts that metadata would give, and the source of Spark's own."""
    lake.sql(
        "CREATE TABLE db.p (dt STRING, k INT, v STRING, PRIMARY KEY (dt, k) NOT ENFORCED)"
        " PARTITIONED BY (dt) WITH ('bucket' = '1')"
    )
    lake.sql("CALL sys.create_branch('db.p', 'live')")
    lake.sql("INSERT INTO db.p VALUES ('a', 1, 'main'), ('b', 2, 'main')")
    lake.sql("INSERT INTO db.`p$branch_live` VALUES ('b', 3, 'live'), ('c', 4, 'live')")
    lake.sql("INSERT INTO db.`p$branch_live` VALUES ('c', 4, 'merged'), ('c', 5, 'live')")
    with pytest.raises(NotFoundError, match="no branch 'x'"):
        lake.sql("ALTER TABLE db.p SET ('scan.fallback-branch' = 'x')")
    lake.sql("ALTER TABLE db.p SET ('scan.fallback-branch' = 'live')")
    wanted = [(1, "main"), (2, "main"), (4, "merged"), (5, "live")]
    path = lake.catalog.table("db.p").paths.location
    frames = {
        "tl.sql": lake.sql("SELECT k, v FROM db.p"),
        "tl.table": lake.table("db.p", columns=["k", "v"]),
        "spark.sql": spark.sql("SELECT k, v FROM branched.db.p"),
        "spark.table": spark.table("branched.db.p"),
        "source": spark.read.format("tidelake").load(path),
    }
    for door, frame in frames.items():
        assert sorted((r.k, r.v) for r in frame.collect()) == wanted, door
        assert keys(frame.where("k = 3 OR v = 'merged'")) == [4], door
        assert frame.count() == 4, door
    for run, name in ((lake.sql, "db.p"), (spark.sql, "branched.db.p")):
        (row,) = run(f"SELECT count(*) AS n, max(dt) AS dt, count(v) AS v FROM {name}").collect()
        assert (row.n, row.dt, row.v) == (4, "c", 4)
        assert run(f"SELECT count(*) AS n FROM {name} WHERE dt = 'c'").first().n == 2
    first = lake.sql("SELECT k FROM db.p /*+ OPTIONS('scan.fallback-branch' = '') */")
    assert keys(first) == [1, 2]
    hint = "OPTIONS('scan.fallback-branch' = '', 'scan.primary-branch' = 'live')"
    assert keys(lake.sql(f"SELECT k FROM db.p /*+ {hint} */")) == [1, 3, 4, 5]
    lake.sql("DELETE FROM db.p WHERE k IN (2, 4)")  # of main alone
    lake.sql(
        "MERGE INTO db.p AS t USING (SELECT 'c' AS dt, 5 AS k) AS s ON t.dt = s.dt AND"
        " t.k = s.k WHEN MATCHED THEN DELETE"
    )
    assert keys(lake.table("db.p")) == [1, 4, 5]
