"""The driver's part of the way of rows of ``tl.table`` on ``docs/internals/hops.md``."""

from __future__ import annotations

import pytest
from proving.hops import hops, listed, traced
from pyspark.sql import DataFrame

READ_BY_SPARK = frozenset({"spark/read/native_scan.py:native_frame"})


@pytest.fixture
def frame(spark, lake):
    rows = spark.range(10).selectExpr("id AS k", "id AS v")
    lake.create_table("db.t", rows, primary_keys=["k"], options={"bucket": 2})
    lake.write(rows, "db.t")
    return rows


def is_frame(value: object) -> bool:
    return isinstance(value, DataFrame)


def test_a_read_goes_the_way_that_the_page_says(lake, frame):
    root = traced(lambda: lake.table("db.t"), is_frame)
    assert hops(root, READ_BY_SPARK) == listed("tl.table")
