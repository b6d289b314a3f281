"""Tables with dynamic buckets, written by many tasks: a key stays in one bucket."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from unit.table.dynamic_tables import check_index

from tidelake.errors import ConflictError, InvalidInputError
from tidelake.options import Options
from tidelake.spark import write as spark_write
from tidelake.spark.assign import assigners_of

SMALL = {"dynamic-bucket.target-row-num": 40}


def make(lake, frame, *, keys=("k",), partitions=(), **options):
    return lake.create_table(
        "db.dyn", frame, primary_keys=keys, partition_keys=partitions, options=SMALL | options
    )


def content(table):
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def test_keys_stay_in_their_buckets_whoever_writes(spark, lake):
    frame = spark.range(0, 300, numPartitions=3).selectExpr("concat('key', id) AS k", "id AS v")
    table = make(lake, frame)
    lake.write(frame, "db.dyn")
    named = check_index(table)
    table.write([{"k": f"key{n}", "v": -n} for n in range(200, 400)])
    lake.write(frame.where("v < 100").withColumn("v", F.col("v") + 1000), "db.dyn", tasks=5)
    after = check_index(table)
    assert all(set(hashes) <= set(after[place]) for place, hashes in named.items())
    model = {f"key{n}": n for n in range(300)} | {f"key{n}": -n for n in range(200, 400)}
    model |= {f"key{n}": n + 1000 for n in range(100)}
    assert content(table) == sorted(model.items())
    assert max(Counter({p: len(h) for p, h in after.items()}).values()) <= 40


def test_partitions_deletes_and_overwrites(spark, lake):
    frame = spark.range(200).selectExpr(
        "id % 2 = 0 AS p", "CAST(id AS decimal(20, 2)) AS k", "id AS v"
    )
    table = make(lake, frame, keys=("p", "k"), partitions=("p",))
    lake.write(frame, "db.dyn")
    check_index(table, key="k", key_type="DECIMAL(20, 2)")
    gone = frame.where("v < 50").withColumn("_row_kind", F.lit("-D"))
    lake.write(gone, "db.dyn")
    assert [row[2] for row in content(table)] == [*range(51, 200, 2), *range(50, 200, 2)]
    lake.write(frame.where("p AND v < 30"), "db.dyn", mode="overwrite")
    check_index(table, key="k", key_type="DECIMAL(20, 2)")
    assert [row[2] for row in content(table)] == [*range(51, 200, 2), *range(0, 30, 2)]


def test_bad_rows_are_told_as_in_any_table(spark, lake):
    frame = spark.range(10).selectExpr("id % 2 AS p", "id AS k", "id AS v")
    make(lake, frame, keys=("p", "k"), partitions=("p",))
    for bad in ("CAST(NULL AS bigint) AS p, id AS k", "id AS p, CAST(NULL AS bigint) AS k"):
        wrong = spark.range(3).selectExpr(*bad.split(", "), "id AS v")
        with pytest.raises(InvalidInputError, match="null"):
            lake.write(wrong, "db.dyn")


def test_a_data_source_write_is_refused(spark, lake, tmp_path):
    place = str(tmp_path / "warehouse" / "db.db" / "dyn")
    frame = spark.range(10).selectExpr("id AS k", "id AS v")
    make(lake, frame)
    write = frame.write.format("tidelake").mode("append")
    with pytest.raises(AnalysisException, match="dynamic buckets"):
        write.save(place)


def test_a_key_that_tasks_put_into_two_buckets_is_not_committed(spark, lake, monkeypatch):
    """As it would be if Spark ran an assigning task again, with its rows in another order."""
    frame = spark.range(10).selectExpr("id AS k", "id AS v")
    table = make(lake, frame)

    def twice(handle, rows, tasks, base_snapshot_id):
        other = rows.withColumn(spark_write.BUCKET_COLUMN, F.lit(1))
        both = rows.withColumn(spark_write.BUCKET_COLUMN, F.lit(0)).unionByName(other)
        return both.repartition(2, spark_write.BUCKET_COLUMN)

    monkeypatch.setattr(spark_write, "_assigned", twice)
    with pytest.raises(ConflictError, match=r"two buckets|another bucket"):
        lake.write(frame, "db.dyn")
    assert table.latest_snapshot_id is None


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 8),
        ({"dynamic-bucket.assigner-parallelism": "3"}, 3),
        ({"dynamic-bucket.initial-buckets": "2"}, 2),
        ({"dynamic-bucket.max-buckets": "5"}, 5),
        ({"dynamic-bucket.max-buckets": "50"}, 8),
    ],
)
def test_options_say_how_many_share_the_keys(options, count):
    assert assigners_of(Options.parse(options), 8) == count
