from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from tidelake import col


@pytest.fixture
def place(spark, lake, tmp_path):
    """The directory of a partitioned primary-key table with 60 rows."""
    frame = spark.range(60).selectExpr("id AS k", "id % 3 AS p", "double(id) AS x", "id AS v")
    lake.create_table(
        "db.t", frame, primary_keys=["k", "p"], partition_keys=["p"], options={"bucket": 2}
    )
    lake.write(frame, "db.t")
    return str(tmp_path / "warehouse" / "db.db" / "t")


def load(spark, place, **options):
    return spark.read.format("tidelake").options(**options).load(place)


def test_loads_a_directory(spark, lake, place):
    frame = load(spark, place)
    assert frame.columns == ["k", "p", "x", "v"]
    assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, lake.table("db.t").collect()))
    assert frame.count() == 60


def test_loads_a_table_of_a_warehouse(spark, lake, place, tmp_path):
    reader = spark.read.format("tidelake").option("warehouse", str(tmp_path / "warehouse"))
    assert reader.option("table", "db.t").option("columns", "v, k").load().columns == ["v", "k"]


def test_issue_36_what_is_wrong_stands_behind_one_frame(spark, place, tmp_path):
    for options, message in (
        ({"tabel": "db.t"}, "has no option 'tabel'"),
        ({"table": "db.none", "warehouse": str(tmp_path / "warehouse")}, "'none' does not exist"),
    ):
        with pytest.raises(AnalysisException, match=message) as caught:
            spark.read.format("tidelake").options(**options).load()
        assert str(caught.value).count("  File ") == 1


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "condition",
    [
        "k < 7",
        "p = 1 AND k >= 40",
        "x > 50.5",
        "k IN (3, 5, 99)",
        "v IS NULL",
        "p = 2 OR k = 0",
        "NOT (k > 3)",
        "k + v > 100",
    ],
)
def test_filters_leave_sparks_rows(spark, lake, place, condition):
    found = sorted(map(tuple, load(spark, place).where(condition).collect()))
    assert found == sorted(map(tuple, lake.table("db.t").where(condition).collect()))


def test_offered_filters_become_a_predicate_of_the_kernel():
    from pyspark.sql import datasource as ds

    from tidelake.spark.expression.filter import from_spark_filters
    from tidelake.types import DataField, parse_type

    fields = [DataField(i, n, parse_type("INT")) for i, n in enumerate("ab")]
    offered = [
        ds.EqualTo(("a",), 1),
        ds.GreaterThan(("b",), 2),
        ds.In(("a",), (1, None, 2)),
        ds.IsNotNull(("b",)),
        ds.Not(ds.EqualTo(("a",), 5)),
        ds.EqualTo(("b", "inner"), 5),
        ds.EqualNullSafe(("a",), None),
    ]
    predicate = from_spark_filters(offered, fields)
    assert (
        predicate
        == (col("a") == 1) & (col("b") > 2) & col("a").isin([1, 2]) & col("b").is_not_null()
    )
    assert from_spark_filters([], fields) is None


def test_reads_a_moment_and_a_filter(spark, lake, place):
    lake.write(lake.table("db.t", where="k < 30").withColumn("_row_kind", F.lit("-D")), "db.t")
    assert load(spark, place).count() == 30
    assert load(spark, place, **{"snapshot-id": "1"}).count() == 60
    assert load(spark, place, where="k >= 50").count() == 10
    lake.catalog.table("db.t")
    with pytest.raises(AnalysisException, match="snapshot-id"):
        load(spark, place, **{"snapshot-id": "first"})


def test_appends_upsert_and_delete(spark, lake, place):
    changes = spark.sql(
        "SELECT id AS k, id % 3 AS p, 0D AS x, -1L AS v, IF(id < 5, '-D', '+I') AS _row_kind"
        " FROM range(10)"
    )
    changes.write.format("tidelake").mode("append").save(place)
    assert lake.table("db.t").count() == 55
    assert lake.table("db.t", where="v = -1").count() == 5


def test_one_row_of_a_key_survives_when_tasks_share_buckets(spark, lake, place):
    """Nothing clusters this write: four tasks write every bucket."""
    frame = spark.range(0, 240, 1, 4).selectExpr(
        "id % 60 AS k", "id % 3 AS p", "0D AS x", "1000 + id AS v"
    )
    frame.write.format("tidelake").mode("append").save(place)
    found = lake.table("db.t").collect()
    assert len(found) == 60
    assert all((row.v - 1000) % 60 == row.k for row in found)
    lake.catalog.table("db.t").compact(full=True)
    assert sorted(map(tuple, lake.table("db.t").collect())) == sorted(map(tuple, found))


def test_overwrite_replaces_the_partitions_that_rows_come_for(spark, lake, place):
    frame = lake.table("db.t", where="p = 1 AND k < 10")
    frame.write.format("tidelake").mode("overwrite").save(place)
    assert {row.k for row in lake.table("db.t", where="p = 1").collect()} == {1, 4, 7}
    assert lake.table("db.t").count() == 43


def test_overwrite_replaces_the_whole_table_where_it_is_told_so(spark, lake, place):
    frame = lake.table("db.t", where="p = 1 AND k < 10")
    writer = frame.write.format("tidelake").option("dynamic-partition-overwrite", "false")
    writer.mode("overwrite").save(place)
    assert {row.k for row in lake.table("db.t").collect()} == {1, 4, 7}


def test_wrong_columns_are_refused(spark, lake, place):
    frame = spark.range(3).selectExpr("id AS k", "id AS p")
    with pytest.raises(AnalysisException, match="'x'"):
        frame.write.format("tidelake").mode("append").save(place)
    assert lake.table("db.t").count() == 60


def test_a_null_key_makes_nothing_visible(spark, lake, place):
    frame = lake.table("db.t").withColumn("k", F.expr("nullif(k, 7)"))
    with pytest.raises(Exception, match="'k'"):
        frame.write.format("tidelake").mode("append").save(place)
    assert len(lake.catalog.table("db.t").history()) == 1


def test_a_path_that_is_no_table_says_what_is_wanted(spark, tmp_path):
    with pytest.raises(AnalysisException, match=r"<database>\.db"):
        load(spark, str(tmp_path))
    with pytest.raises(AnalysisException, match="warehouse"):
        spark.read.format("tidelake").load()


@pytest.mark.parametrize("pushes", ["true", "false"])
def test_spark_finds_the_source_in_a_session_that_never_met_it(spark, place, pushes):
    fresh = spark.newSession()
    fresh.conf.set("spark.sql.python.filterPushdown.enabled", pushes)  # false is Spark's default
    frame = fresh.read.format("tidelake").load(place)
    assert (frame.count(), frame.where("k < 7").count()) == (60, 7)


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_stream_of_parts_of_rows_is_refused_with_the_reason(spark, lake, tmp_path, engine):
    frame = spark.range(3).selectExpr("id AS k", "id AS v")
    options = {"bucket": 1, "merge-engine": engine}
    lake.create_table("db.parts", frame, primary_keys=["k"], options=options)
    lake.write(frame, "db.parts")
    place = str(tmp_path / "warehouse" / "db.db" / "parts")
    stream = spark.readStream.format("tidelake").load(place).writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "without"))
    with pytest.raises(Exception, match="changelog-producer") as refused:
        stream.start().awaitTermination(60)
    assert "parts of rows" in str(refused.value)
    assert lake.changes("db.parts", 0).count() == 3
