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
        {"bucket": "2", "pk-clustering-override": "true", "clustering.columns": "v"},
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
    assert "row_index" in plan  # files with deleted rows, under a mask of their vectors
    assert "MapInArrow" not in plan
    assert lake.table("db.t", where="v = 'new'").count() == 17
    table = lake.catalog.table("db.t")
    assert "rows deleted" in str(table.explain())
    check_table(LocalFileIO(), table.paths.location)
    assert lake.compact("db.t", full=True).compactions_dropped == 0
    assert state(lake) == expected
    assert "row_index" not in plan_of(lake.table("db.t"))
    assert "rows deleted" not in str(table.explain())
    check_table(LocalFileIO(), table.paths.location)


BETWEEN = {
    "deduplicate": {**MARKS, "file.format": "orc"},
    "clustered": {**MARKS, "pk-clustering-override": "true", "clustering.columns": "n,v"},
    "sequence": {**MARKS, "sequence.field": "n"},
    "partial-update": {**MARKS, "merge-engine": "partial-update", "changelog-producer": "lookup"},
    "aggregation": {
        **MARKS,
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "file.format": "avro",
        "bucket": "-1",
        "dynamic-bucket.target-row-num": "100",
    },
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
}
DELETING = ("deduplicate", "clustered", "sequence")


@pytest.mark.share(2)
@pytest.mark.parametrize("engine", BETWEEN)
def test_all_readers_see_the_same_rows_before_and_after_the_compaction(spark, lake, engine):
    table = lake.catalog.create_table(
        "db.t",
        {"k": "INT", "v": "BIGINT", "n": "INT"},
        primary_keys=["k"],
        options={"bucket": "2", **BETWEEN[engine]},
    )

    def rows(keys, v):
        return [{"k": k, "v": None if k % 7 == v else v, "n": (k * 7) % (v + 2)} for k in keys]

    table.write(rows(range(300), 1))
    ids = table.write(rows(range(250, 320), 2)).snapshot_ids
    table.write(rows(range(240, 325), 3), options={"write-only": "true"})
    if engine in DELETING:
        gone = [row | {"n": 99} for row in rows(range(5), 4)]
        table.write(gone, row_kinds=["-D"] * 5, options={"write-only": "true"})
    ids = (*ids, table.latest_snapshot_id, *table.compact().snapshot_ids)
    assert len(ids) == 4

    def seen(snapshot_id):
        rows = table.to_arrow(snapshot_id=snapshot_id).to_pylist()
        own = sorted((tuple(row.values()) for row in rows), key=repr)
        frame = lake.table("db.t", snapshot_id=snapshot_id)
        assert sorted(map(tuple, frame.collect()), key=repr) == own
        assert frame.count() == table.count(snapshot_id=snapshot_id) == len(own)
        few = frame.where("v = 2").selectExpr("k").collect()
        named = table.to_arrow(snapshot_id=snapshot_id, where="v = 2", columns=["k"])
        assert sorted(row.k for row in few) == sorted(named["k"].to_pylist())
        return own

    appended, compacted, waiting, last = map(seen, ids)
    assert appended == compacted != waiting == last
    assert len(last) == (320 if engine in DELETING else 325)


def test_what_is_only_written_is_merged_until_a_job_compacts_it(spark, lake):
    frame = spark.sql("SELECT id AS k, 1 AS v FROM range(200)")
    lake.create_table("db.t", frame, primary_keys=["k"], options={**MARKS, "bucket": "2"})
    lake.write(frame, "db.t")
    later = spark.sql("SELECT id AS k, 2 AS v FROM range(190, 210)")
    lake.write(later, "db.t", options={"write-only": "true"})
    expected = {**dict.fromkeys(range(190), 1), **dict.fromkeys(range(190, 210), 2)}
    assert state(lake) == expected
    lake.compact("db.t")
    assert state(lake) == expected
    lake.write(spark.sql("SELECT id AS k, 3 AS v FROM range(5)"), "db.t", mode="overwrite")
    assert state(lake) == dict.fromkeys(range(5), 3)
    check_table(LocalFileIO(), lake.catalog.table("db.t").paths.location)
