"""A warehouse in Azure on Spark: by Python workers without a jar, by Spark's own scan with it."""

from __future__ import annotations

import itertools

import pytest
import quick_spark
from proving.fsck import check_table
from servers.hadoop_azure import abfs_jars
from servers.program import AbsentError
from servers.real_stores import ACCOUNT, ACCOUNT_KEY, BUCKET
from stores.chosen import BY_MAKE_STORES

import tidelake
import tidelake.spark

pytestmark = [BY_MAKE_STORES, pytest.mark.spark]
NUMBERS = itertools.count()
HOST = f"{ACCOUNT}.dfs.core.windows.net"


@pytest.fixture(scope="module")
def spark(azurite, tmp_path_factory):
    try:
        jars = abfs_jars("4.3")
    except AbsentError as reason:
        pytest.skip(str(reason))
    conf = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.hadoop.fs.azure.abfs.endpoint": f"127.0.0.1:{azurite.port}",
        "spark.hadoop.fs.azure.always.use.https": "false",
        "spark.hadoop.fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",  # speaks HTTP
        "spark.hadoop.fs.azure.account.hns.enabled": "false",
        "spark.hadoop.fs.azure.fns.account.service.type": "BLOB",
        f"spark.hadoop.fs.azure.account.key.{HOST}": ACCOUNT_KEY,
    }
    session = quick_spark.session(tmp_path_factory.mktemp("python"), conf=conf)
    yield session
    session.stop()


@pytest.fixture
def place(azurite):
    return azurite.fresh()


@pytest.fixture
def lake(spark, azurite, place):
    return tidelake.spark.attach(
        spark, place, catalog=f"azure{next(NUMBERS)}", storage=azurite.storage()
    )


def plan(frame):
    return frame._jdf.queryExecution().toString()


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_python_workers_write_change_merge_and_compact(spark, azurite, place, lake, tmp_path):
    never = {"read.native": "never", "bucket": 2}
    lake.create_table("db.t", "k bigint, v string", primary_keys=["k"], options=never)
    lake.write(spark.range(6).selectExpr("id AS k", "'a' AS v"), "db.t")
    lake.sql("INSERT INTO db.t VALUES (4, 'b'), (6, 'b')")
    lake.sql("DELETE FROM db.t WHERE k = 1")
    lake.sql(
        "MERGE INTO db.t USING (SELECT 2L AS k, 'm' AS v) AS s ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    wanted = [(0, "a"), (2, "m"), (3, "a"), (4, "b"), (5, "a"), (6, "b")]
    assert rows(lake.table("db.t")) == wanted
    lake.compact("db.t", full=True)
    frame = lake.table("db.t")
    assert "FileScan" not in plan(frame)
    assert rows(frame) == wanted
    lake.create_table("db.copy", "k bigint, v string", primary_keys=["k"], options=never)
    lake.write_stream(
        lake.read_stream("db.t"), "db.copy", checkpoint=tmp_path / "c", trigger="availableNow"
    ).awaitTermination()
    assert rows(lake.table("db.copy")) == wanted
    for name in ("db.t", "db.copy"):
        table = tidelake.open(place, storage=azurite.storage()).table(name)
        assert sorted(tuple(row.values()) for row in table.to_arrow().to_pylist()) == wanted
        check_table(table.fileio, table.paths.location)


def test_sparks_own_scan_reads_files_that_need_no_merge(spark, lake):
    lake.create_table("db.a", "day string, n int", partition_keys=["day"])
    lake.write(spark.sql("SELECT * FROM VALUES ('a b/ü', 1), ('x=1%', 2) AS t(day, n)"), "db.a")
    frame = lake.table("db.a", options={"read.native": "always"})
    assert "FileScan parquet" in plan(frame)
    assert f"abfs://{BUCKET}@{HOST}/" in plan(frame)
    assert ACCOUNT_KEY not in plan(frame)
    assert rows(frame) == [("a b/ü", 1), ("x=1%", 2)]
    assert "FileScan parquet" in plan(lake.table("db.a"))  # auto


def test_a_stream_goes_on_from_its_checkpoint_in_azure(spark, lake):
    lake.create_table("db.s", "k bigint")
    lake.create_table("db.copy", "k bigint")
    for more in (range(3), range(3, 5)):
        lake.write(spark.createDataFrame([(k,) for k in more], "k bigint"), "db.s")
        lake.write_stream(
            lake.read_stream("db.s"),
            "db.copy",
            checkpoint=f"abfs://{BUCKET}@{HOST}/checkpoints/one",
            trigger="availableNow",
        ).awaitTermination()
    assert rows(lake.table("db.copy")) == [(k,) for k in range(5)]
