"""The driver's part of the ways of rows on ``docs/internals/hops.md``."""

from __future__ import annotations

import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from proving.hops import Call, assert_way, hops, leading, traced
from py4j.clientserver import ClientServerConnection
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

HOPS_MAX = 12
HOPS_TO_TASKS_MAX = 5
"""A batch of a stream is bound to 14 hops with those of ``Table.write`` in a task."""
GIVEN_TO_TASKS = frozenset({"spark/expression/mapped.py:mapped"})
WORKED_BY_TASKS = frozenset({"spark/expression/mapped.py:in_workers"})
READ_BY_SPARK = frozenset({"spark/read/native_scan.py:native_frame"})
WRITTEN_HERE = frozenset({"table/write/transaction.py:WriteTransaction.write"})
BIGINTS = "k BIGINT, v BIGINT"


@pytest.fixture
def frame(spark, lake):
    rows = spark.range(10).selectExpr("id AS k", "id AS v")
    lake.create_table("db.t", rows, primary_keys=["k"], options={"bucket": 2})
    lake.write(rows, "db.t")
    return rows


@pytest.fixture
def calls_of_java_traced(monkeypatch):
    """Java calls Python on threads that began before the tracer did."""
    call_proxy = ClientServerConnection._call_proxy

    def followed(connection, obj_id, stream):
        before = sys.getprofile()
        sys.setprofile(threading.getprofile())
        try:
            return call_proxy(connection, obj_id, stream)
        finally:
            sys.setprofile(before)

    monkeypatch.setattr(ClientServerConnection, "_call_proxy", followed)


def in_this_thread(_spark, work):
    """The tracer follows one thread; a write waits in another, so that Ctrl-C ends it."""
    return work()


def is_frame(value: object) -> bool:
    return isinstance(value, DataFrame)


def is_frame_or_java(value: object) -> bool:
    """Frames are given to Java as objects of Java's."""
    return isinstance(value, (DataFrame, JavaObject))


def that_lead(root: Call, ends: frozenset[str]) -> Call:
    """The calls of Java's that lead to an end, without those that only look at the table."""
    leads = leading(root, ends)
    return Call("", "", calls=[call for call in root.calls if id(call) in leads])


def test_a_read_goes_the_way_that_the_page_says(lake, frame):
    root = traced(lambda: lake.table("db.t"), is_frame)
    assert_way(hops(root, READ_BY_SPARK), "tl.table", hops_max=HOPS_MAX)


def test_a_write_goes_the_way_that_the_page_says(lake, frame, monkeypatch):
    monkeypatch.setattr("tidelake.spark.lake.interruptible", in_this_thread)
    root = traced(lambda: lake.write(frame, "db.t"), is_frame)
    assert_way(hops(root, GIVEN_TO_TASKS), "tl.write", hops_max=HOPS_MAX)


def test_a_query_goes_the_way_that_the_page_says(spark, lake, frame, calls_of_java_traced):
    lake.table("db.t")  # the first read of a session defines classes
    query = "SELECT * FROM tidelake.db.t WHERE v > 1"
    root = traced(lambda: spark.sql(query).collect(), is_frame_or_java)
    found = hops(that_lead(root, READ_BY_SPARK), READ_BY_SPARK)
    assert_way(found, "spark.sql", hops_max=HOPS_MAX)


@pytest.mark.parametrize(
    ("options", "ends", "way"),
    [
        ({}, WRITTEN_HERE, "write_stream, few rows"),
        ({"sink.local-rows": 0}, GIVEN_TO_TASKS, "write_stream, many rows"),
    ],
    ids=["few", "many"],
)
def test_a_batch_of_the_sink_goes_the_way_that_the_page_says(
    spark, lake, frame, tmp_path, calls_of_java_traced, options, ends, way
):
    (tmp_path / "in").mkdir()
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.array([3, 4], pa.int64())})
    pq.write_table(rows, tmp_path / "in/0.parquet")
    stream = spark.readStream.schema(BIGINTS).parquet(str(tmp_path / "in"))
    given = {"checkpoint": tmp_path / "checkpoint", "trigger": "availableNow", "options": options}

    def written():
        lake.write_stream(stream, "db.t", **given).awaitTermination(60)

    root = traced(written, is_frame)
    found = hops(that_lead(root, ends), ends)
    assert_way(found, way, hops_max=HOPS_TO_TASKS_MAX)


def test_a_batch_of_the_source_goes_the_way_that_the_page_says(
    lake, frame, tmp_path, calls_of_java_traced
):
    lake.write(frame, "db.t")  # files that overlap
    stream = lake.read_stream("db.t")

    def read():
        out = stream.writeStream.format("noop").trigger(availableNow=True)
        query = out.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(60)

    root = traced(read, is_frame_or_java)
    found = hops(that_lead(root, WORKED_BY_TASKS), WORKED_BY_TASKS)
    assert_way(found, "tl.read_stream", hops_max=HOPS_MAX)
