"""Primary-key tables with deletion vectors on Spark: tasks look keys up and mark what they find."""

from __future__ import annotations

import pytest
from proving.fsck import check_table

from tidelake.fileio import LocalFileIO

MARKS = {"deletion-vectors.enabled": "true"}


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def state(lake):
    rows = lake.table("db.t").collect()
    found = {row.k: row.v for row in rows}
    assert len(found) == len(rows) == lake.table("db.t").count()
    assert len(found) == lake.catalog.table("db.t").count()
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": "2"},
        {"dynamic-bucket.target-row-num": "4000", "deletion-vectors.bitmap64": "true"},
        {"bucket": "1", "changelog-producer": "lookup"},
    ],
)
def test_rows_that_are_replaced_or_deleted_are_seen_no_more(spark, lake, options):
    frame = spark.sql("SELECT id AS k, concat('v', id * 7919 % 10007) AS v FROM range(9000)")
    lake.create_table("db.t", frame, primary_keys=["k"], options={**MARKS, **options})
    lake.write(frame, "db.t")
    lake.write(frame.where("k % 500 = 3").selectExpr("k", "'new' AS v"), "db.t")
    lake.write(spark.sql("SELECT id AS k, 'x' AS v, '-D' AS _row_kind FROM range(50)"), "db.t")
    expected = {k: f"v{k * 7919 % 10007}" for k in range(50, 9000)}
    expected |= dict.fromkeys(range(503, 9000, 500), "new")
    assert state(lake) == expected
    plan = plan_of(lake.table("db.t"))
    assert "MapInArrow" in plan  # files with deleted rows, by the kernel
    assert lake.table("db.t", filter="v = 'new'").count() == 17
    table = lake.catalog.table("db.t")
    assert "rows deleted" in str(table.explain())
    check_table(LocalFileIO(), table.paths.location)
    assert lake.compact("db.t", full=True).compactions_dropped == 0
    assert state(lake) == expected
    assert "MapInArrow" not in plan_of(lake.table("db.t"))
    assert "rows deleted" not in str(table.explain())
    check_table(LocalFileIO(), table.paths.location)


def test_what_is_only_written_waits_for_the_job_that_compacts(spark, lake):
    frame = spark.sql("SELECT id AS k, 1 AS v FROM range(200)")
    lake.create_table("db.t", frame, primary_keys=["k"], options={**MARKS, "bucket": "2"})
    lake.write(frame, "db.t")
    later = spark.sql("SELECT id AS k, 2 AS v FROM range(190, 210)")
    lake.write(later, "db.t", options={"write-only": "true"})
    assert state(lake) == dict.fromkeys(range(200), 1)
    lake.compact("db.t")
    assert state(lake) == {**dict.fromkeys(range(190), 1), **dict.fromkeys(range(190, 210), 2)}
    lake.write(spark.sql("SELECT id AS k, 3 AS v FROM range(5)"), "db.t", mode="overwrite")
    assert state(lake) == dict.fromkeys(range(5), 3)
    check_table(LocalFileIO(), lake.catalog.table("db.t").paths.location)
