"""The driver's part of the ways of rows on ``docs/internals/hops.md``."""

from __future__ import annotations

from collections import Counter

import pytest
from proving.hops import hops, listed, traced
from pyspark.sql import DataFrame

GIVEN_TO_TASKS = frozenset({"spark/expression/mapped.py:mapped"})
READ_BY_SPARK = frozenset({"spark/read/native_scan.py:native_frame"})


@pytest.fixture
def frame(spark, lake):
    rows = spark.range(10).selectExpr("id AS k", "id AS v")
    lake.create_table("db.t", rows, primary_keys=["k"], options={"bucket": 2})
    lake.write(rows, "db.t")
    return rows


def in_this_thread(_spark, work):
    """The tracer follows one thread; a write waits in another, so that Ctrl-C ends it."""
    return work()


def is_frame(value: object) -> bool:
    return isinstance(value, DataFrame)


def test_a_read_goes_the_way_that_the_page_says(lake, frame):
    root = traced(lambda: lake.table("db.t"), is_frame)
    assert hops(root, READ_BY_SPARK) == listed("tl.table")


def test_a_write_goes_the_way_that_the_page_says(lake, frame, monkeypatch):
    monkeypatch.setattr("tidelake.spark.lake.interruptible", in_this_thread)
    root = traced(lambda: lake.write(frame, "db.t"), is_frame)
    found = hops(root, GIVEN_TO_TASKS)
    assert found == listed("tl.write")
    assert max(Counter(hop.split(":")[0] for hop in found).values()) <= 2
