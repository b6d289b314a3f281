"""Scans of large and small files: tasks of even length, the same rows."""

import pytest
from pyspark.sql import functions as F
from quick_spark import settings

import tidelake.spark
from tidelake.spark.catalog.scans.scan_rule import BUCKETED_JOINS

pytestmark = pytest.mark.usefixtures("production_conf")

ROWS = 700_000
UPSERTS = 3
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture(scope="module")
def uneven(spark, tmp_path_factory):
    """Four large files, and twelve of a few rows each, which hide rows of the large ones."""
    lake = tidelake.spark.attach(spark, tmp_path_factory.mktemp("even"), catalog="even")
    rows = spark.range(ROWS).selectExpr("id AS k", "xxhash64(id) AS v", "int(id % 7) AS g")
    lake.create_table("db.t", rows, primary_keys=["k"], options={"bucket": 4, "write-only": "true"})
    lake.write(rows, "db.t")
    for number in range(UPSERTS):
        some = spark.range(40).selectExpr("id * 1000 AS k", f"{number} AS v", "-1 AS g")
        lake.write(some.selectExpr("k", "bigint(v) AS v", "int(g) AS g"), "db.t")
    assert len(lake.catalog.table("db.t").to_arrow(columns=["k"])) == ROWS
    return lake


@pytest.fixture(params=["tl.sql", "spark.sql"])
def ask(request, uneven, spark):
    if request.param == "tl.sql":
        return lambda text: uneven.sql(text.replace("{t}", "db.t"))
    return lambda text: spark.sql(text.replace("{t}", "even.db.t"))


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_every_task_has_a_share(ask):
    frame = ask("SELECT k, v FROM {t}")
    assert "EvenTasks" in plan_of(frame)
    counts = [row["count"] for row in frame.groupBy(F.spark_partition_id()).count().collect()]
    assert sum(counts) == ROWS
    assert len(counts) == frame.rdd.getNumPartitions() > 1
    assert max(counts) < 1.3 * ROWS / len(counts)


def test_the_rows_are_those_of_the_table(ask, spark):
    own = spark.range(ROWS).selectExpr("id AS k", "xxhash64(id) AS v", "int(id % 7) AS g")
    newer = "k < 40000 AND k % 1000 = 0"
    own = own.selectExpr("k", f"if({newer}, {UPSERTS - 1}, v) AS v", f"if({newer}, -1, g) AS g")
    sums = "g, count(*) AS n, sum(k) AS k, bit_xor(v) AS v"
    expected = own.groupBy("g").agg(F.count("*"), F.sum("k"), F.bit_xor("v")).orderBy("g")
    found = ask(f"SELECT {sums} FROM {{t}} GROUP BY g ORDER BY g")
    assert found.collect() == expected.collect()
    joined = ask(
        "SELECT count(*), sum(b.v) FROM {t} a JOIN (SELECT * FROM {t} WHERE g = -1) b ON a.k = b.k"
    )
    assert "EvenTasks" in plan_of(joined)
    assert tuple(joined.first()) == (40, 40 * (UPSERTS - 1))


def test_a_cached_scan_and_one_of_a_filter_that_leaves_files_out(ask):
    frame = ask("SELECT * FROM {t}").cache()
    assert frame.count() == ROWS
    assert frame.where("g < 0").count() == 40
    frame.unpersist()
    assert ask("SELECT v FROM {t} WHERE k = 5000").collect() == [(UPSERTS - 1,)]


def test_rows_that_are_read_one_by_one(ask, spark):
    """Spark sends the plan to the tasks then, which know no class of ours."""
    with settings(spark, {"spark.sql.codegen.wholeStage": "false", BROADCAST: "-1"}):
        frame = ask("SELECT k, v FROM {t}")
        assert "EvenTasks" in plan_of(frame)
        assert frame.where("v >= 0 AND v < 9").count() == 40
        grouped = ask("SELECT k, count(*) AS n FROM {t} GROUP BY k")
        assert "Buckets 4 by k" in plan_of(grouped)
        assert tuple(grouped.agg(F.count("*"), F.max("n")).first()) == (ROWS, 1)


def test_it_can_be_turned_off(ask, spark):
    with settings(spark, {"spark.sql.optimizer.excludedRules": BUCKETED_JOINS}):
        assert "EvenTasks" not in plan_of(ask("SELECT k, v FROM {t}"))


def test_small_tables_and_even_ones_keep_the_tasks_of_spark(spark, uneven):
    rows = spark.range(100).selectExpr("id AS k")
    uneven.create_table("db.small", rows, primary_keys=["k"], options={"bucket": 4})
    uneven.write(rows, "db.small")
    assert "EvenTasks" not in plan_of(uneven.sql("SELECT k FROM db.small"))
    large = spark.range(ROWS).selectExpr("id AS k", "xxhash64(id) AS v")
    uneven.create_table("db.even", large, primary_keys=["k"], options={"bucket": 4})
    uneven.write(large, "db.even")
    assert "EvenTasks" not in plan_of(uneven.sql("SELECT k FROM db.even"))
