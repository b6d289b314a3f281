"""Joins and groups on bucket keys: no shuffle where buckets agree, and the rows of a shuffle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from quick_spark import settings

import tidelake.spark
from tidelake.spark.catalog.scans.scan_rule import BUCKETED_JOINS

pytestmark = pytest.mark.usefixtures("production_conf")

BUCKETED = "Buckets 4 by "
SHUFFLE = "Exchange hashpartitioning"
SORT = "Sort ["
SHUFFLES_ONE_SIDE = "spark.sql.sources.v2.bucketing.shuffle.enabled"


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """Tables of four buckets by a BIGINT, and others that do not agree with them."""
    place = tmp_path_factory.mktemp("buckets")
    lake = tidelake.spark.attach(spark, place / "warehouse", catalog="buckets")
    lake.sql(
        "CREATE TABLE db.a (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED)"
        " WITH ('bucket' = '4', 'write-only' = 'true');"
        "CREATE TABLE db.b (k BIGINT, n INT, x DOUBLE, PRIMARY KEY (k, n) NOT ENFORCED)"
        " WITH ('bucket' = '4', 'bucket-key' = 'k');"
        "CREATE TABLE db.parts (p INT, id BIGINT, w STRING) PARTITIONED BY (p)"
        " WITH ('bucket' = '4', 'bucket-key' = 'id');"
        "CREATE TABLE db.two (n INT, k BIGINT, PRIMARY KEY (n, k) NOT ENFORCED)"
        " WITH ('bucket' = '4');"
        "CREATE TABLE db.three (k BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '3');"
        "CREATE TABLE db.ints (k INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '4');"
        "CREATE TABLE db.sums (k BIGINT, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ("
        "'bucket' = '4', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum',"
        "'write-only' = 'true');"
        "CREATE TABLE db.grown (k INT, w STRING) WITH ('bucket' = '4', 'bucket-key' = 'k')"
    )
    numbers = spark.range(0, 60, 1, 1)
    lake.write(numbers.selectExpr("id AS k", "concat('v', id) AS v"), "db.a")
    lake.write(numbers.selectExpr("id * 3 AS k", "concat('w', id) AS v"), "db.a")
    lake.sql("DELETE FROM db.a WHERE k % 10 = 3")
    every = numbers.selectExpr("id % 40 AS k", "int(id / 7) AS n", "double(id) AS x")
    lake.write(every, "db.b")
    parts = numbers.selectExpr("int(id % 2) AS p", "id * 2 AS id", "string(id) AS w")
    lake.write(parts, "db.parts")
    lake.write(every.select("n", "k"), "db.two")
    for name in ("three", "ints"):
        lake.write(numbers.selectExpr("id AS k"), f"db.{name}")
    for _ in range(2):
        lake.write(numbers.selectExpr("id AS k", "int(id) AS n"), "db.sums")
    ints = pa.table({"k": pa.array(range(60), pa.int32()), "w": [str(n) for n in range(60)]})
    for _ in range(3):
        lake.catalog.table("db.grown").write(ints)
    lake.sql("ALTER TABLE db.grown MODIFY k BIGINT")
    assert lake.catalog.table("db.grown").compact(full=True).files
    numbers.selectExpr("id AS k").write.parquet(str(place / "plain"))
    spark.read.parquet(str(place / "plain")).createOrReplaceTempView("plain")
    spark.sql("USE buckets.db")
    yield lake
    spark.sql("USE spark_catalog.default")


@pytest.fixture
def no_broadcast(spark):
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        yield


def rows_of(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def check(spark, text, *, buckets, shuffles):
    """The rows of a shuffle; so many scans by bucket, and so many shuffles."""
    with settings(spark, {"spark.sql.optimizer.excludedRules": BUCKETED_JOINS}):
        frame = spark.sql(text)
        assert BUCKETED not in plan_of(frame)
        expected = rows_of(frame)
    frame = spark.sql(text)
    plan = plan_of(frame)
    assert (plan.count(BUCKETED), plan.count(SHUFFLE)) == (buckets, shuffles), plan
    assert rows_of(frame) == expected
    assert expected


WITHOUT_SHUFFLE = {
    "inner": "SELECT a.k, v, n, x FROM a JOIN b ON a.k = b.k WHERE v > 'v2' AND x < 50",
    "left": "SELECT a.k, v, n FROM a LEFT JOIN b ON a.k = b.k",
    "full": "SELECT a.k, b.k, v, n FROM b FULL JOIN a ON a.k = b.k",
    "semi": "SELECT v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.n > 2)",
    "anti": "SELECT v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "other names, partitions": "SELECT v, w FROM (SELECT k AS i, v FROM a) JOIN parts ON i = id",
    "with itself": "SELECT l.v, r.v FROM a l JOIN a r ON l.k = r.k",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", WITHOUT_SHUFFLE)
def test_equal_buckets_are_joined_without_a_shuffle(spark, warehouse, no_broadcast, name):
    check(spark, WITHOUT_SHUFFLE[name], buckets=2, shuffles=0)


def test_groups_by_the_bucket_key_need_none(spark, warehouse, no_broadcast):
    check(spark, "SELECT k, count(*), sum(x) FROM b GROUP BY k", buckets=1, shuffles=0)
    check(
        spark,
        "SELECT a.v, g.t FROM a JOIN (SELECT k, sum(x) t FROM b GROUP BY k HAVING sum(x) > 20) g"
        " ON a.k = g.k JOIN parts ON parts.id = a.k",
        buckets=3,
        shuffles=0,
    )


WITH_SHUFFLE = {
    "more columns": "SELECT l.x, r.k FROM b l JOIN b r ON l.n = r.n AND l.k = r.k",
    "another number": "SELECT v FROM a JOIN three ON a.k = three.k",
    "another type": "SELECT v FROM a JOIN ints ON a.k = ints.k",
    "not the bucket key": "SELECT v, x FROM a JOIN b ON a.k = b.n",
    "two bucket keys": "SELECT l.n, r.k FROM two l JOIN two r ON l.k = r.k AND l.n = r.n",
    "an expression": "SELECT v, x FROM a JOIN b ON a.k = b.k + 1",
    "a file of Spark's": "SELECT v FROM a JOIN plain ON a.k = plain.k",
    "rows that are merged": "SELECT v, n FROM a JOIN sums ON a.k = sums.k",
    "a key of another type before": "SELECT v, w FROM a JOIN grown ON a.k = grown.k",
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", WITH_SHUFFLE)
def test_other_joins_are_shuffled(spark, warehouse, no_broadcast, name):
    check(spark, WITH_SHUFFLE[name], buckets=0, shuffles=2)


def test_more_columns_are_compared_without_a_shuffle_where_the_session_allows_it(
    spark, warehouse, no_broadcast
):
    with settings(spark, {"spark.sql.requireAllClusterKeysForCoPartition": "false"}):
        check(spark, WITH_SHUFFLE["more columns"], buckets=2, shuffles=0)


def test_tasks_know_spark_s_classes_alone(spark, warehouse, no_broadcast):
    """Generated code of a sort holds the plan below it, and only the driver has our classes."""
    plan = spark.sql(WITHOUT_SHUFFLE["inner"])._jdf.queryExecution().sparkPlan()
    assert "mask[" in plan.toString()
    assert BUCKETED in plan.toString()
    conf = spark.sparkContext._jsc.sc().conf()
    serializer = spark._jvm.org.apache.spark.serializer.JavaSerializer(conf).newInstance()
    tag = getattr(getattr(spark._jvm, "scala.reflect.ClassTag$"), "MODULE$").AnyRef()
    sent = bytes(serializer.serialize(plan, tag).array())
    assert b"FileSourceScanExec" in sent
    assert b"datasources.Tidelake" not in sent


PREFIXES = "'b', 'B', 'é', '\U0001f600', '\ufffd', ''"
KEYS = {
    "longs": ("BIGINT", "id - 30"),
    "texts": ("STRING", f"concat(elt(id % 6 + 1, {PREFIXES}), int(id / 6))"),
}


@pytest.fixture(scope="module")
def ordered(spark, warehouse):
    """Pairs of tables with a bucket's rows in several files; partitions are up or down in keys."""
    for name, (kind, key) in KEYS.items():
        rows = spark.range(0, 60, 1, 1).selectExpr(f"{key} AS k")
        rows = rows.selectExpr("k", "ntile(3) OVER (ORDER BY k) AS third").coalesce(1)
        for table, part in ((f"{name}_up", "third"), (f"{name}_down", "3 - third")):
            warehouse.sql(
                f"CREATE TABLE db.{table} (p INT, k {kind}, PRIMARY KEY (p, k) NOT ENFORCED)"
                " PARTITIONED BY (p) WITH ('bucket' = '4', 'bucket-key' = 'k')"
            )
            warehouse.write(rows.selectExpr(f"{part} AS p", "k"), f"db.{table}")
    return warehouse


@pytest.mark.parametrize("name", KEYS)
def test_files_of_a_bucket_that_do_not_overlap_need_no_sort(spark, ordered, no_broadcast, name):
    """One after the other, whatever their order in the plan and however Spark cuts them."""
    text = f"SELECT u.k, u.p, d.p FROM {name}_up u JOIN {name}_down d ON u.k = d.k"
    with settings(spark, {"spark.sql.files.maxPartitionBytes": "300"}):
        check(spark, text, buckets=2, shuffles=0)
        frame = spark.sql(text)
        assert SORT not in plan_of(frame)
        assert frame.count() == 60
        scan = frame._jdf.queryExecution().sparkPlan().collectLeaves().apply(0)
        packed = scan.inputRDD().filePartitions()
        read = parts_of(scan.productElement(0).location().byBucket(packed.reverse()))
    assert sorted(read) == sorted(parts_of(packed))
    assert any(start > 0 for _, start in read)
    places = {path: place for place, (path, _) in enumerate(read)}
    assert read == sorted(read, key=lambda part: (places[part[0]], part[1]))


def parts_of(packed):
    """The path and the start of each part of a file, task after task."""
    tasks = [list(packed.apply(number).files()) for number in range(packed.size())]
    return [(part.filePath().toString(), part.start()) for own in tasks for part in own]


@pytest.mark.parametrize("shuffles_one_side", ["false", "true"])
def test_where_spark_shuffles_one_side_to_the_other_nothing_is_read_by_bucket(
    spark, warehouse, no_broadcast, shuffles_one_side
):
    """Spark cannot compute our buckets for rows of its own."""
    text = "SELECT v, plain.k FROM a JOIN b ON a.k = b.k JOIN plain ON plain.k = b.k"
    with settings(spark, {SHUFFLES_ONE_SIDE: shuffles_one_side}):
        by_bucket = shuffles_one_side == "false"
        check(spark, text, buckets=2 if by_bucket else 0, shuffles=2 if by_bucket else 3)


def test_a_cache_by_bucket_is_shuffled_where_spark_shuffles_one_side(
    spark, warehouse, no_broadcast
):
    spark.sql("CACHE TABLE kept AS SELECT k, sum(x) AS t FROM b GROUP BY k")
    try:
        with settings(spark, {SHUFFLES_ONE_SIDE: "true"}):
            found = spark.sql("SELECT kept.k, t FROM kept JOIN plain ON kept.k = plain.k")
            assert len(rows_of(found)) == 40
    finally:
        spark.sql("UNCACHE TABLE kept")


@pytest.mark.parametrize("kind", ["FULL", "RIGHT"])
def test_a_small_right_side_that_is_not_sent_to_all_tasks_is_read_by_bucket(spark, warehouse, kind):
    """Spark sends the left side of a right join alone, and no side of a full join."""
    left, right = (
        spark.sql(text)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        for text in ("SELECT k, v FROM a", "SELECT k, n FROM b")
    )
    assert right < left
    text = f"SELECT a.k, v, n FROM a {kind} JOIN b ON a.k = b.k"
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": str(right)}):
        check(spark, text, buckets=2, shuffles=0)


def test_buckets_and_a_shuffle_of_sparks_do_not_mix(spark, warehouse, no_broadcast):
    """A side that Spark's own hash spreads is never taken for one of our buckets."""
    text = "SELECT v, x FROM a JOIN b ON a.k = b.k JOIN plain ON plain.k = b.k"
    check(spark, text, buckets=2, shuffles=2)
    text = "SELECT v, n FROM b JOIN plain ON plain.k = b.k JOIN a ON a.k = b.k"
    check(spark, text, buckets=2, shuffles=3)


def test_a_side_that_is_sent_to_all_tasks_needs_no_buckets(spark, warehouse):
    plan = plan_of(spark.sql("SELECT v, x FROM a JOIN b ON a.k = b.k"))
    assert BUCKETED not in plan
    assert "BroadcastHashJoin" in plan


def test_tl_sql_reads_by_bucket_too(spark, warehouse, no_broadcast):
    frame = warehouse.sql("SELECT v, n FROM db.a JOIN db.b ON a.k = b.k")
    assert plan_of(frame).count(BUCKETED) == 2
    assert rows_of(frame) == rows_of(spark.sql("SELECT v, n FROM a JOIN b ON a.k = b.k"))


def test_one_row_reader_and_a_cache_keep_the_buckets(spark, warehouse, no_broadcast):
    """Spark's row-based scan of the files, and its cache of a table that is read by bucket."""
    vectors = "spark.sql.parquet.enableVectorizedReader"
    with settings(spark, {vectors: "false"}):
        check(spark, WITHOUT_SHUFFLE["inner"], buckets=2, shuffles=0)
    spark.sql("CACHE TABLE grouped AS SELECT k, sum(x) AS t FROM b GROUP BY k")
    try:
        text = "SELECT v, t FROM a JOIN grouped ON a.k = grouped.k"
        found = rows_of(spark.sql(text))
        with settings(spark, {"spark.sql.optimizer.excludedRules": BUCKETED_JOINS}):
            assert found == rows_of(spark.sql(text))
    finally:
        spark.sql("UNCACHE TABLE grouped")
