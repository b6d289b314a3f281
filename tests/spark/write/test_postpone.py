"""The postpone bucket, and options of a session, on Spark."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError


def test_rows_wait_and_are_moved_in_order_by_executors(spark, lake):
    lake.create_table(
        "db.t",
        "p string, k bigint, v string, ts timestamp_ntz",
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": -2, "postpone.default-bucket-num": 3},
    )

    def rows(keys, value):
        return spark.createDataFrame(
            [(p, k, value) for p in "ab" for k in keys], "p string, k bigint, v string"
        ).selectExpr("*", "timestamp_ntz'2024-01-02 03:04:05.678901' AS ts")

    lake.write(rows(range(40), "first").repartition(2), "db.t")
    lake.write(rows(range(10), "second"), "db.t")
    table = lake.catalog.table("db.t")
    table.delete([{"p": "a", "k": 3}])
    table.write([{"p": "a", "k": 4, "v": "third", "ts": None}])
    assert lake.table("db.t").count() == 0
    assert lake.compact("db.t").rows == 102
    found = {(r["p"], r["k"]): r["v"] for r in lake.table("db.t").collect()}
    wanted = {(p, k): "second" if k < 10 else "first" for p in "ab" for k in range(40)}
    del wanted["a", 3]
    wanted["a", 4] = "third"
    assert found == wanted
    assert table.system_table("buckets").to_arrow().num_rows == 6
    assert lake.compact("db.t").snapshot_ids == ()


def test_options_of_the_session_hold_for_its_tables(spark, lake):
    frame = spark.createDataFrame([(1, "a")], "k bigint, v string")
    for name in ("db.t", "db.u"):
        lake.create_table(name, frame, primary_keys=["k"], options={"bucket": 1})
        lake.write(frame, name)
        lake.write(spark.createDataFrame([(2, "b")], "k bigint, v string"), name)
    spark.conf.set("spark.tidelake.db.t.scan.snapshot-id", "1")
    try:
        assert lake.table("db.t").count() == 1
        assert lake.table("db.u").count() == 2
        assert lake.table("db.t", options={"scan.snapshot-id": None}).count() == 2
        spark.conf.set("spark.tidelake.write-onyl", "true")
        with pytest.raises(InvalidInputError, match="write-only"):
            lake.table("db.u")
    finally:
        spark.conf.unset("spark.tidelake.db.t.scan.snapshot-id")
        spark.conf.unset("spark.tidelake.write-onyl")
