"""Nested columns and variants on Spark: in and out, scanned by Spark and merged by the kernel."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import tidelake
from tidelake.types import DataField, parse_type

SELECT = """
SELECT id AS k,
       IF(id % 3 = 0, NULL, transform(sequence(1, id % 4), i -> IF(i = 2, NULL, i * id))) AS ints,
       map(concat('k', id), named_struct('x', id / 4, 'at', timestamp_micros(id))) AS m,
       IF(id % 5 = 0, NULL, named_struct('day', date_from_unix_date(int(id)),
                                         'd', cast(id AS decimal(30, 4)),
                                         'deep', array(named_struct('b', binary(string(id))))
                                        )) AS s,
       IF(id % 7 = 0, NULL, concat('t', id)) AS t
FROM range({n})
"""


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def shown(frame):
    """Rows as text; a map has one entry, so its order does not matter."""
    return sorted(frame.select(F.to_json(F.struct("*")).alias("j")).toArrow()["j"].to_pylist())


@pytest.fixture
def frame(spark):
    return spark.sql(SELECT.format(n=60))


def test_nested_columns_go_in_and_come_out(lake, frame):
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 2})
    lake.write(frame, "db.t")
    native = lake.table("db.t")
    assert "MapInArrow" not in plan_of(native)
    assert shown(native) == shown(frame)
    lake.write(frame.where("k % 2 = 0"), "db.t")
    merged = lake.table("db.t")
    assert "MapInArrow" not in plan_of(merged)
    assert shown(merged) == shown(frame)
    assert lake.table("db.t", where="s is null").count() == 12
    rows = lake.catalog.table("db.t").to_arrow(where="k = 11").to_pylist()
    assert rows[0]["ints"] == [11, None, 33]
    assert rows[0]["s"]["d"] == Decimal("11.0000")


def test_newer_rows_over_a_large_run_of_nested_columns(lake, frame):
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 1})
    lake.write(frame, "db.t")
    lake.catalog.table("db.t").compact(full=True)
    newer = frame.where("k < 5").withColumn("ints", F.array(F.lit(-1)).cast("array<bigint>"))
    lake.write(newer.select(*frame.columns), "db.t")
    read = lake.table("db.t")
    assert "row_index" in plan_of(read)
    assert shown(read) == shown(frame.where("k >= 5").unionAll(newer.select(*frame.columns)))


def test_variants_go_in_and_come_out(spark, lake):
    texts = ['{"a":[1,"x",null]}', "5", '"text"', "null", None]
    frame = spark.createDataFrame([(i, t) for i, t in enumerate(texts)], "k int, t string")
    frame = frame.select("k", F.parse_json("t").alias("v"))
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 1})
    lake.write(frame, "db.t")
    table = lake.catalog.table("db.t")
    expected = [{"a": [1, "x", None]}, 5, "text", None, None]
    assert tidelake.variant_objects(table.to_arrow().sort_by("k")["v"]) == expected
    table.write([{"k": 9, "v": {"b": 2.5}}])
    read = lake.table("db.t").select("k", F.to_json("v").alias("j")).orderBy("k")
    found = [row.j if row.j is None else json.loads(row.j) for row in read.collect()]
    assert found == [*expected, {"b": 2.5}]
    picked = lake.table("db.t").select(F.variant_get("v", "$.b", "double").alias("b"))
    assert [r.b for r in picked.where("b is not null").collect()] == [2.5]


def test_types_that_spark_has_not_are_shown_as_others(spark, lake):
    fields = [
        DataField(0, "k", parse_type("INT NOT NULL")),
        DataField(0, "m", parse_type({"type": "MULTISET", "element": "STRING"})),
        DataField(0, "ts", parse_type({"type": "ARRAY", "element": "TIMESTAMP(9)"})),
    ]
    catalog = lake.catalog
    table = catalog.create_table("db.t", fields, primary_keys=["k"], options={"bucket": 1})
    moments = pa.array([[1_000, None]], pa.list_(pa.timestamp("ns")))
    table.write(
        pa.table(
            {"k": [1], "m": pa.array([[("a", 2)]], pa.map_(pa.string(), pa.int32())), "ts": moments}
        )
    )
    read = lake.table("db.t")
    assert dict(read.dtypes)["m"] == "map<string,int>"
    row = read.select("m", F.col("ts")[0].cast("string").alias("t")).first()
    assert (row.m, row.t) == ({"a": 2}, "1970-01-01 00:00:00.000001")


def test_comments_are_kept_both_ways(spark, lake):
    spark.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 1 AS k, named_struct('a', 2) AS s")
    frame = spark.table("v")
    frame = frame.withMetadata("k", {"comment": "the key"})
    lake.create_table("db.t", frame, primary_keys=["k"], options={"bucket": 1})
    lake.write(frame, "db.t")
    assert lake.table("db.t").schema["k"].metadata["comment"] == "the key"
