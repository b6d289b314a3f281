"""Counts and extremes by metadata, of ``spark.sql`` and ``tl.sql``, are those of the rows."""

from __future__ import annotations

import pytest

import tidelake.spark


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """Catalog ``told``: ``t`` in partitions, ``cut`` that lost rows, ``merged``; views of rows."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("told"), catalog="told")
    rows = spark.range(0, 90, 1, 1).selectExpr(
        "id - 5 AS k",
        "if(id % 4 = 3, null, int(id % 4)) AS p",
        "if(id % 7 = 0, null, id * 3) AS n",
        "date_add(DATE '2026-11-01', int(id)) AS d",
        "if(id < 40, null, timestamp_seconds(1700000000 + id)) AS at",
        "decimal(id) / 4 AS m",
        "id % 2 = 0 AS b",
        "double(id) AS x",
        "concat('a long text that statistics cut: ', id) AS v",
        "concat('g', id % 3) AS g",
    )
    columns = "k BIGINT, p INT, n BIGINT, d DATE, at TIMESTAMP_LTZ(6), m DECIMAL(20, 6), b BOOLEAN,"
    lake.sql(
        f"CREATE TABLE db.t ({columns} x DOUBLE, v STRING, g STRING) PARTITIONED BY (p, g)"
        " WITH ('bucket' = '-1');"
        "CREATE TABLE db.cut (k BIGINT, n BIGINT)"
        " WITH ('bucket' = '-1', 'deletion-vectors.enabled' = 'true');"
        "CREATE TABLE db.merged (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('bucket' = '1', 'write-only' = 'true')"
    )
    lake.write(rows.where("k < 30"), "db.t")
    lake.write(rows.where("k >= 30"), "db.t")
    lake.write(rows.select("k", "n"), "db.cut")
    lake.sql("DELETE FROM db.cut WHERE k > 50")
    lake.write(rows.select("k", "n"), "db.merged")
    lake.write(rows.where("k < 20").select("k", "n"), "db.merged")
    for name in ("t", "cut", "merged"):
        lake.table(f"db.{name}").createOrReplaceTempView(f"rows_of_{name}")
    return lake


ANSWERED = [
    "SELECT count(*), min(k), max(k), min(d), max(d), min(m), max(b), count(n), count(v) FROM @t",
    "SELECT min(at) AS first, max(at) AS last, count(at), min(n) FROM @t",
    "SELECT count(*), max(k) FROM @t WHERE p = 1",
    "SELECT count(*) FROM @t WHERE p IS NULL AND g IN ('g1', 'g2')",
    "SELECT count(*), min(k) FROM @t WHERE p = 77",
    "SELECT MAX(P), min(x.p), count(`P`) FROM @t AS x",
    "SELECT count(*) FROM @cut",
]
BY_SPARK_ALONE = [
    "SELECT p, count(*), max(k) FROM @t GROUP BY p",
    "SELECT g, p, count(n), min(d) FROM @t WHERE p < 2 GROUP BY g, p",
    "SELECT max(k) - min(k) + count(*) FROM @t WHERE p IN (1, 2)",
]
READ = [
    "SELECT max(v) FROM @t",
    "SELECT max(x) FROM @t",
    "SELECT count(*) FROM @t WHERE k > 3",
    "SELECT count(*) FROM @t WHERE p = 1 OR k < 5",
    "SELECT v, count(*) FROM @t GROUP BY v",
    "SELECT count(DISTINCT p), max(k) FROM @t",
    "SELECT sum(k), max(k) FROM @t",
    "SELECT max(k) FROM @cut",
    "SELECT count(*), max(k) FROM @merged",
]


def rows_of(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def is_told(frame):
    """Whether no file is read."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return not any(reads in plan for reads in ("FileScan", "MapInArrow", "tidelake"))


@pytest.mark.share(2)
@pytest.mark.parametrize("text", [*ANSWERED, *BY_SPARK_ALONE])
def test_they_are_those_of_the_rows(spark, warehouse, text):
    expected = spark.sql(text.replace("@", "rows_of_"))
    told = spark.sql(text.replace("@", "told.db."))
    assert rows_of(told) == rows_of(expected)
    assert told.columns == expected.columns
    assert is_told(told)
    ours = warehouse.sql(text.replace("@", "db."))
    assert rows_of(ours) == rows_of(expected)
    assert ours.columns == expected.columns
    assert is_told(ours) == (text in ANSWERED)


@pytest.mark.share(2)
@pytest.mark.parametrize("text", READ)
def test_where_metadata_is_not_exact_rows_are_read(spark, warehouse, text):
    expected = rows_of(spark.sql(text.replace("@", "rows_of_")))
    for frame in (
        spark.sql(text.replace("@", "told.db.")),
        warehouse.sql(text.replace("@", "db.")),
    ):
        assert rows_of(frame) == expected
        assert not is_told(frame)


def test_filters_on_partitions_are_not_applied_again(spark, warehouse):
    frame = spark.sql("SELECT k FROM told.db.t WHERE p = 1 AND g <> 'g2' LIMIT 2")
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert "Filter" not in plan
    assert len(frame.collect()) == 2
    frame = spark.sql("SELECT k FROM told.db.t WHERE p = 1 AND k < 9")
    assert rows_of(frame) == rows_of(spark.sql("SELECT k FROM rows_of_t WHERE p = 1 AND k < 9"))


def test_an_answer_has_the_size_of_its_rows_in_a_join(spark, warehouse):
    """Without it Spark takes one row to be endless, and joins pairs of all rows."""
    frame = spark.sql(
        "SELECT * FROM told.db.t a JOIN (SELECT max(k) most FROM told.db.t) b ON k = most"
    )
    assert frame.count() == 1
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan
    assert "Cartesian" not in plan
    frame = spark.sql("SELECT max(k) FROM told.db.t")
    size = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert int(str(size)) < 1000


def test_a_moment_has_its_own_answer(spark, warehouse):
    text = "SELECT count(*), max(k) FROM told.db.t VERSION AS OF 1"
    assert rows_of(spark.sql(text)) == [(35, 29)]
    assert rows_of(warehouse.sql("SELECT count(*), max(k) FROM db.t VERSION AS OF 1")) == [(35, 29)]


def test_frames_of_files_are_counted_without_reading_them(spark, warehouse):
    whole = warehouse.table("db.t")
    for frame in (whole, whole.select("k", "x"), whole.withColumn("y", whole.k + 1)):
        counted = frame.groupBy().count()
        assert is_told(counted)
        assert counted.collect() == [(90,)]
    assert whole.unionAll(whole).count() == 180
    assert is_told(whole.unionAll(whole).groupBy().count())
    assert warehouse.table("db.t", where="p = 1").count() == 23
    for frame in (
        whole.where("k > 3"),
        whole.limit(3),
        whole.distinct(),
        warehouse.table("db.t", where="k > 3"),
        warehouse.table("db.cut"),
        warehouse.table("db.merged"),
    ):
        counted = frame.groupBy().count()
        assert not is_told(counted)
        assert counted.collect()[0][0] == len(frame.collect())
    text = "SELECT count(*) AS n, count(1) AS m, count(k) AS o FROM rows_of_t"
    assert rows_of(spark.sql(text)) == [(90, 90, 90)]
