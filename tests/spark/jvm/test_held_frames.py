"""Frames hold the snapshot that they read, as long as Spark can read them, and no longer."""

from __future__ import annotations

import gc
import time

import pytest
from pyspark.sql import functions as F
from waiting import until

from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.spark.jvm import held_frames
from tidelake.spark.jvm.held_frames import FRAMES
from tidelake.spark.rowlevel import append_delta

WAIT_S = 60


def held(table):
    return ConsumerLog(table.fileio, table.handle.paths).next_ids()


def more_comes_and_all_expires(table):
    """What the frames read is in no live snapshot any more, but in those that are held."""
    table.write([{"k": k, "v": -1} for k in range(60)])
    table.compact(full=True)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)


def wait_until_nothing_is_held(spark, table):
    end = time.monotonic() + WAIT_S
    while held(table):
        assert time.monotonic() < end, held(table)
        gc.collect()
        spark._jvm.System.gc()
        FRAMES.look()


def as_dicts(rows):
    return sorted((row.asDict() for row in rows), key=lambda row: (row["k"], row["v"]))


@pytest.fixture
def table(lake):
    """Raw files, files that are merged, and some that a mask hides rows of."""
    made = lake.catalog.create_table(
        "db.t",
        {"k": "INT NOT NULL", "v": "INT"},
        primary_keys=["k"],
        options={"bucket": "2", "read.hold": "auto", "write-only": "true"},
    )
    made.write([{"k": k, "v": k} for k in range(50)])
    made.compact(full=True)
    made.write([{"k": k, "v": 100 + k} for k in range(5, 60, 9)])
    return made


def test_a_frame_reads_what_an_expiry_beside_it_would_have_taken(lake, spark, table):
    before = as_dicts(lake.table("db.t").collect())
    by_catalog = spark.sql(f"SELECT * FROM {lake.catalog_name}.db.t")
    frames = {
        "ours": lake.table("db.t"),
        "filtered": lake.table("db.t", where="k < 20").filter("v > 100"),
        "sql": lake.sql("SELECT k, v FROM db.t"),
        "audit log": lake.table("db.t$audit_log"),
        "changes": lake.changes("db.t", 0),
    }
    assert as_dicts(by_catalog.collect()) == before
    more_comes_and_all_expires(table)
    more_comes_and_all_expires(table)
    assert as_dicts(by_catalog.collect()) == before
    for name in ("ours", "sql", "changes", "audit log"):
        rows = as_dicts(frames[name].select("k", "v").collect())
        assert rows == before, name
    some = [row for row in before if row["k"] < 20 and row["v"] > 100]
    assert as_dicts(frames["filtered"].collect()) == some
    (holder,) = held(table)
    expired = table.maintenance.expire_snapshots(retain_max=1, retain_min=1, dry_run=True)
    assert [one.consumer_id for one in expired.held_by] == [holder]
    frames.clear()
    del by_catalog
    wait_until_nothing_is_held(spark, table)


@pytest.mark.parametrize("of", ["iterator", "rdd", "cached", "view"])
def test_what_is_made_of_a_frame_holds_after_it(lake, spark, table, monkeypatch, of):
    before = as_dicts(lake.table("db.t").collect())
    made = _made(lake.table("db.t"), of)
    for _ in range(2):
        gc.collect()
        spark._jvm.System.gc()
        FRAMES.look()
    assert len(held(table)) == 1
    more_comes_and_all_expires(table)
    assert as_dicts(_read(spark, made, of)) == before
    if of == "cached":
        made.unpersist(blocking=True)
    if of == "view":
        spark.catalog.dropTempView("held_rows")
    del made
    if of == "iterator":  # Spark keeps its plan: a day ends it, if not the session
        monkeypatch.setattr(held_frames, "HELD_MS_MAX", -1)
    wait_until_nothing_is_held(spark, table)


def _made(frame, of):
    if of == "iterator":
        return frame.repartition(3).toLocalIterator()
    if of == "rdd":
        return frame.rdd
    if of == "cached":
        return frame.filter("k >= 0").cache()
    frame.createOrReplaceTempView("held_rows")
    return frame.limit(0)


def _read(spark, made, of):
    if of == "iterator":
        return list(made)
    return spark.table("held_rows").collect() if of == "view" else made.collect()


def test_a_table_that_holds_nothing_gets_no_consumer(lake, table):
    with_none = lake.table("db.t", options={"read.hold": "never"})
    assert with_none.count()
    assert held(table) == {}


def test_lookups_hold_the_snapshot_in_which_rows_are_found(lake, spark, table):
    before = dict(lake.table("db.t").select("k", "v").collect())
    keys = spark.range(60).selectExpr("CAST(id AS INT) AS a")
    keys.createOrReplaceTempView("held_keys")
    gc.collect()
    wait_until_nothing_is_held(spark, table)
    query = (
        "SELECT a, d.k, d.v FROM held_keys"
        " JOIN db.t FOR SYSTEM_TIME AS OF PROCTIME() AS d ON a = d.k"
    )
    made = {
        "method": lake.lookup_join(keys, "db.t", on={"a": "k"}, how="inner"),
        "sql": lake.sql(query),
    }
    more_comes_and_all_expires(table)
    for name in tuple(made):
        assert len(held(table)) == 1
        rows = {row.a: row.v for row in made[name].collect()}
        assert rows == before, name
        del made[name]
        gc.collect()
        FRAMES.look()
    wait_until_nothing_is_held(spark, table)
    spark.catalog.dropTempView("held_keys")


def test_a_hold_lapses_when_spark_does_nothing_for_long(lake, table, monkeypatch):
    frame = lake.table("db.t")
    assert frame.count()
    FRAMES.look()
    assert len(held(table)) == 1
    monkeypatch.setattr(held_frames, "IDLE_MS_MAX", -1)

    def is_let_go():
        FRAMES.look()
        return held(table) == {}

    until(is_let_go)  # Spark may say for a moment longer that the job runs
    assert frame.count()


def test_a_change_of_an_append_table_holds_what_its_tasks_read(lake, monkeypatch):
    columns = {"k": "INT NOT NULL", "v": "INT"}
    table = lake.catalog.create_table("db.c", columns, options={"read.hold": "auto"})
    table.write([{"k": k, "v": k} for k in range(9)])
    seen, real = [], append_delta._answers

    def answers(*given):
        seen.extend(held(table).values())
        return real(*given)

    monkeypatch.setattr(append_delta, "_answers", answers)
    lake.update("db.c", {"v": "v + 1"}, where="k < 4")
    lake.delete("db.c", where=F.col("k") == 8)
    assert seen == [1, 2]
    assert held(table) == {}


def test_a_read_by_the_format_is_held_until_its_time_is_over(spark, table):
    before = as_dicts(spark.read.format("tidelake").load(table.location).collect())
    frame = spark.read.format("tidelake").load(table.location)
    partitions = frame.rdd.getNumPartitions()
    more_comes_and_all_expires(table)
    assert partitions
    assert as_dicts(frame.collect()) == before
    assert held(table)
