"""What Spark cached of a table is read again only while the table is as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake.spark

ROWS = "CREATE OR REPLACE TABLE db.t AS SELECT id FROM range({first}, {last})"


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """Catalog ``kept``."""
    return tidelake.spark.attach(spark, tmp_path_factory.mktemp("kept"), catalog="kept")


@pytest.fixture
def cached(spark, warehouse):
    """Table ``kept.db.t`` with the ids 0 to 9, cached."""
    warehouse.sql(ROWS.format(first=0, last=10))
    frame = spark.table("kept.db.t").cache()
    assert ids(spark) == list(range(10))
    yield frame
    spark.catalog.clearCache()
    warehouse.sql("DROP TABLE db.t")


def ids(spark):
    return sorted(row.id for row in spark.table("kept.db.t").collect())


def is_cached(spark):
    plan = spark.table("kept.db.t")._jdf.queryExecution().withCachedData().toString()
    return "InMemoryRelation" in plan


def test_what_is_cached_is_read_while_the_table_is_as_it_was(spark, cached):
    assert is_cached(spark)


def test_rows_that_came_later_are_read(spark, warehouse, cached):
    warehouse.write(spark.range(10, 12), "db.t")
    assert ids(spark) == list(range(12))
    assert is_cached(spark)
    tidelake.open(warehouse.catalog.warehouse).table("db.t").write(pa.table({"id": [12]}))
    assert ids(spark) == list(range(13))
    spark.sql("INSERT INTO kept.db.t VALUES (13)")
    assert ids(spark) == list(range(14))
    assert is_cached(spark)


def test_another_warehouse_has_the_name_in_another_session(spark, cached, tmp_path):
    other = spark.newSession()
    lake = tidelake.spark.attach(other, tmp_path, catalog="kept")
    lake.sql(ROWS.format(first=70, last=72))
    assert ids(other) == [70, 71]
    assert ids(spark) == list(range(10))
    assert ids(other) == [70, 71]


@pytest.mark.parametrize(
    "ends",
    [
        lambda lake: lake.sql(ROWS.format(first=20, last=22)),
        lambda lake: lake.sql(f"DROP TABLE db.t; {ROWS.format(first=20, last=22)}"),
        lambda lake: lake.spark.sql(
            "CREATE OR REPLACE TABLE kept.db.t AS SELECT id FROM range(20, 22)"
        ),
    ],
    ids=["replaced", "dropped", "replaced by Spark"],
)
def test_a_table_that_was_made_anew_is_another_one(spark, warehouse, cached, ends):
    ends(warehouse)
    assert ids(spark) == [20, 21]


def test_a_snapshot_after_a_rollback_is_another_one(spark, warehouse, cached):
    warehouse.write(spark.range(10, 11), "db.t")
    spark.table("kept.db.t").cache()
    assert ids(spark) == list(range(11))
    warehouse.sql("CALL sys.rollback(`table` => 'db.t', snapshot => 1)")
    warehouse.write(spark.range(50, 51), "db.t")
    assert ids(spark) == [*range(10), 50]


def test_settings_of_the_session_are_part_of_what_was_read(spark, warehouse, cached):
    warehouse.write(spark.range(10, 11), "db.t")
    spark.conf.set("spark.tidelake.scan.snapshot-id", "1")
    try:
        spark.table("kept.db.t").cache()
        assert ids(spark) == list(range(10))
    finally:
        spark.conf.unset("spark.tidelake.scan.snapshot-id")
    assert ids(spark) == list(range(11))


def test_columns_that_were_added_are_there(spark, warehouse, cached):
    warehouse.sql("ALTER TABLE db.t ADD (v STRING)")
    assert spark.table("kept.db.t").columns == ["id", "v"]
    assert ids(spark) == list(range(10))
