"""Tables with dynamic buckets, written by many tasks: a key stays in one bucket."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from unit.table.bucketing.dynamic_tables import check_index

from tidelake.errors import ConflictError, InvalidInputError
from tidelake.options import Options
from tidelake.spark.write import bucketing
from tidelake.spark.write.attempt_guard import ATTEMPT_COLUMN, BUCKET_COLUMN, NOTE_COLUMN
from tidelake.spark.write.dynamic_bucket_assigner import assigners_of

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


def test_rows_of_every_type_go_by_way_of_the_tasks_that_place_them(spark, lake):
    """Spark takes batches of one schema, so notes are typed as rows are, in the session's zone."""
    frame = spark.sql(
        "SELECT id AS k, DATE'2024-01-01' + int(id) AS d, CAST(id AS decimal(38, 3)) AS large,"
        " TIMESTAMP'2024-03-10 01:59:59.5' + make_dt_interval(0, int(id)) AS instant,"
        " TIMESTAMP_NTZ'1960-01-01 00:00:00' + make_dt_interval(int(id)) AS at,"
        " binary(string(id)) AS b,"
        " IF(id = 3, NULL, array(TIMESTAMP'2024-01-01 00:00:00', NULL)) AS list,"
        " map(string(id), named_struct('x', id, 'at', now())) AS m,"
        " parse_json(concat('{\"a\": ', id, '}')) AS v FROM range(0, 60, 1, 3)"
    ).localCheckpoint()
    make(lake, frame)
    lake.write(frame, "db.dyn")
    columns = [F.to_json(F.struct("*")).alias("j")]
    found = lake.table("db.dyn").select(columns).toArrow()["j"].to_pylist()
    assert sorted(found) == sorted(frame.select(columns).toArrow()["j"].to_pylist())


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

    assigned = bucketing.assigned_rows

    def twice(handle, rows, **arguments):
        placed = assigned(handle, rows, **arguments)
        is_row = F.col(BUCKET_COLUMN).isNotNull()
        again = placed.where(is_row).withColumn(BUCKET_COLUMN, F.col(BUCKET_COLUMN) + 2)
        return placed.unionByName(again).coalesce(1)

    monkeypatch.setattr(bucketing, "assigned_rows", twice)
    with pytest.raises(ConflictError, match=r"two buckets|another bucket"):
        lake.write(frame, "db.dyn")
    assert table.latest_snapshot_id is None


def heard_of_two_attempts(placed):
    """As if one writing task had been done before Spark ran an assigning task again."""
    first = F.spark_partition_id() == 0
    note = F.regexp_replace(NOTE_COLUMN, r'"attempt": (\d+)', r'"attempt": 9$1')
    number = F.concat(F.lit("9"), F.col(ATTEMPT_COLUMN).cast("string")).cast("bigint")
    return placed.withColumns(
        {
            NOTE_COLUMN: F.when(first, F.col(NOTE_COLUMN)).otherwise(note),
            ATTEMPT_COLUMN: F.when(first, F.col(ATTEMPT_COLUMN)).otherwise(number),
        }
    )


def test_rows_of_two_attempts_of_an_assigning_task_are_not_committed(spark, lake, monkeypatch):
    """A key that both place, each in a bucket of another writing task, would be in two or none."""
    frame = spark.range(100, numPartitions=2).selectExpr("id AS k", "id AS v")
    table = make(lake, frame)
    assigned = bucketing.assigned_rows
    tries = []

    def once_again(*arguments, **named):
        tries.append(1)
        placed = assigned(*arguments, **named)
        return heard_of_two_attempts(placed) if len(tries) == 1 else placed

    monkeypatch.setattr(bucketing, "assigned_rows", once_again)
    assert lake.write(frame, "db.dyn", tasks=2).rows == 100
    assert (len(tries), table.latest_snapshot_id) == (2, 1)
    assert content(table) == [(n, n) for n in range(100)]


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
