"""Spark's own Parquet scan reads tables on MinIO by ``s3a``, where it has the jars and keys."""

from __future__ import annotations

import itertools

import pytest
import quick_spark
from servers.hadoop_aws import s3a_jars
from servers.program import AbsentError
from stores.chosen import BY_MAKE_STORES
from stores.spark_settings import s3a_settings

import tidelake
import tidelake.spark
from tidelake.errors import UnsupportedError

pytestmark = [BY_MAKE_STORES, pytest.mark.spark]
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def spark(minio, tmp_path_factory):
    try:
        jars = s3a_jars("4.3")
    except AbsentError as reason:
        pytest.skip(str(reason))
    directory = tmp_path_factory.mktemp("python")
    session = quick_spark.session(directory, conf=s3a_settings(minio, jars))
    yield session
    session.stop()


@pytest.fixture
def lake(spark, minio):
    opened = tidelake.spark.attach(
        spark, minio.fresh(), catalog=f"cloud{next(NUMBERS)}", storage=minio.storage()
    )
    opened.create_table("db.a", "day string, n int", partition_keys=["day"])
    opened.write(spark.sql("SELECT * FROM VALUES ('a b/ü', 1), ('x=1%', 2) AS t(day, n)"), "db.a")
    return opened


def plan(frame):
    return frame._jdf.queryExecution().toString()


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_files_that_need_no_merge_are_read_by_sparks_own_scan(spark, lake):
    frame = lake.table("db.a", where="n > 0")
    assert "FileScan parquet" in plan(frame)
    assert "s3a://lake/" in plan(frame)
    assert "MapInArrow" not in plan(frame)
    assert rows(frame) == [("a b/ü", 1), ("x=1%", 2)]
    assert rows(lake.sql("SELECT sum(n) FROM db.a")) == [(3,)]
    of_spark = spark.sql(f"SELECT n FROM {lake.catalog_name}.db.a WHERE n > 1")
    assert "FileScan parquet" in plan(of_spark)
    assert rows(of_spark) == [(2,)]
    never = lake.table("db.a", options={"read.native": "never"})
    assert "by Python workers: read.native = never" in plan(never)
    assert "FileScan" not in plan(never)
    assert rows(never) == rows(frame)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_files_under_newer_ones_are_masked_or_merged_by_python_workers(spark, lake, engine):
    lake.sql("DROP TABLE IF EXISTS db.k")
    options = {"bucket": 2, "merge-engine": engine, "partial-update.remove-record-on-delete": True}
    if engine == "deduplicate":
        del options["partial-update.remove-record-on-delete"]
    lake.create_table("db.k", "k bigint, v string", primary_keys=["k"], options=options)
    lake.write(spark.range(50).selectExpr("id AS k", "'a' AS v"), "db.k")
    lake.compact("db.k", full=True)
    both = {"read.native": "always"}
    assert "MapInArrow" not in plan(lake.table("db.k", options=both))
    lake.catalog.table("db.k").write([{"k": 7, "v": "b"}])
    frame = lake.table("db.k", options=both)
    assert "FileScan parquet" in plan(frame)
    assert ("MapInArrow" in plan(frame)) == (engine == "partial-update")
    expected = [(k, "b" if k == 7 else "a") for k in range(50)]
    assert rows(frame) == expected
    lake.sql("DELETE FROM db.k WHERE k < 48")
    assert rows(lake.table("db.k", options=both)) == expected[48:]


def test_a_stream_reads_files_by_sparks_own_reader(spark, lake, tmp_path):
    lake.create_table("db.s", "k bigint")
    lake.write(spark.range(3).toDF("k"), "db.s")
    lake.create_table("db.copy", "k bigint")
    for more in (None, 5):
        if more:
            lake.write(spark.range(3, more).toDF("k"), "db.s")
        lake.write_stream(
            lake.read_stream("db.s", options={"read.native": "always"}),
            "db.copy",
            checkpoint=tmp_path / "c",
            trigger="availableNow",
        ).awaitTermination()
    assert rows(lake.table("db.copy")) == [(k,) for k in range(5)]


def test_no_key_of_tidelakes_goes_to_hadoop(spark, minio, lake):
    """Hadoop's are taken away, so its scan is not the one; ours still are enough."""
    lake.table("db.a").collect()
    settings = dict.fromkeys(("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.endpoint"), "")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    kept = {key: conf.get(key) for key in settings}
    for key in settings:
        conf.unset(key)
    try:
        frame = lake.table("db.a")
        assert "by Python workers: fs.s3a.* has no keys and no endpoint" in plan(frame)
        assert rows(frame) == [("a b/ü", 1), ("x=1%", 2)]
        with pytest.raises(UnsupportedError, match="has no keys and no endpoint") as caught:
            lake.table("db.a", options={"read.native": "always"})
        assert caught.value.kind == "native_read"
        conf.set("fs.s3a.access.key", "wrong")
        conf.set("fs.s3a.secret.key", "wrong key")
        conf.set("fs.s3a.endpoint", kept["fs.s3a.endpoint"])
        shown = plan(lake.table("db.a"))
        assert "'s3a' did not find a file of it" in shown
        assert minio.options["s3.secret-key"] not in shown
    finally:
        for key, value in kept.items():
            conf.set(key, value)
    assert "FileScan parquet" in plan(lake.table("db.a"))


def test_a_stream_with_state_goes_on_from_its_checkpoint_in_the_store(spark, minio, lake):
    """Also where the driver died after a commit and before Spark noted the batch."""
    lake.create_table("db.s", "k bigint, v bigint")
    lake.create_table("db.sums", "k bigint, v bigint", primary_keys=["k"], options={"bucket": 1})
    place = f"s3://lake/checkpoints-{next(NUMBERS)}"
    files = tidelake.open(place, storage=minio.storage()).fileio

    def run():
        sums = lake.read_stream("db.s").groupBy("k").sum("v").toDF("k", "v")
        query = lake.write_stream(
            sums, "db.sums", checkpoint=f"{place}/one", mode="update", trigger="availableNow"
        )
        query.awaitTermination()
        assert query._sink.run.wait(60)
        return query

    ids = []
    for value in (1, 10):
        lake.write(spark.range(3).selectExpr("id AS k", f"{value}L AS v"), "db.s")
        ids.append(run().id)
    assert rows(lake.table("db.sums")) == [(k, 11) for k in range(3)]
    folder = f"/{place.rpartition(chr(47))[2]}/one"
    commits = [int(s.name) for s in files.list_dir(f"{folder}/commits") if s.name.isdecimal()]
    before = lake.catalog.table("db.sums").latest_snapshot_id
    assert files.delete(f"{folder}/commits/{max(commits)}")
    query = run()
    assert [*ids, query.id] == [ids[0]] * 3
    assert lake.catalog.table("db.sums").latest_snapshot_id == before
    assert rows(lake.table("db.sums")) == [(k, 11) for k in range(3)]
    assert files.list_dir(f"{folder}/state") != []
