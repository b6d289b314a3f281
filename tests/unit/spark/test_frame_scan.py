"""Scans for Spark: what they keep and how large they say they are; no JVM is needed."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import types as st

from tidelake.spark.catalog.scans import frame_scan as module
from tidelake.spark.catalog.scans import scan_rule
from tidelake.spark.catalog.scans.frame_scan import AnswerScan, FrameScan
from tidelake.spark.jvm import slower

SCHEMA = st.StructType([st.StructField("k", st.LongType())])
GATEWAY = SimpleNamespace(schema=lambda schema: schema, optional_long=lambda value: value)


class Rows:
    """Holds what a plan of many splits would."""

    asked: ClassVar = []

    def __call__(self, *, exact):
        self.asked.append(exact)
        return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: "the plan"), exact=exact)


@pytest.fixture
def scan(monkeypatch):
    monkeypatch.setattr(module, "frame_relation", lambda _gateway, frame, *_: ("RDD", frame.exact))
    monkeypatch.setattr(Rows, "asked", [])
    rows = Rows()
    return FrameScan(GATEWAY, rows, SCHEMA, "t"), weakref.ref(rows)


def test_a_plan_is_made_once_and_its_splits_are_freed(scan):
    scan, rows = scan
    assert [scan.get(), scan.get()] == ["the plan"] * 2
    gc.collect()
    assert rows() is None
    assert Rows.asked == [False]


def test_a_plan_that_the_rule_did_not_take_gives_the_rdd(scan):
    scan, _ = scan
    scan.get()
    assert [scan.toV1TableScan(None), scan.toV1TableScan(None)] == [("RDD", False)] * 2
    assert scan.get() is None


def test_an_rdd_has_exact_rows_and_no_plan(scan):
    scan, rows = scan
    assert [scan.toV1TableScan(None), scan.toV1TableScan(None)] == [("RDD", True)] * 2
    assert scan.get() is None
    gc.collect()
    assert rows() is None


def test_an_answer_is_as_small_as_its_rows():
    scan = AnswerScan(GATEWAY, pa.table({"k": [7]}), SCHEMA, "t")
    told = scan.estimateStatistics()
    assert told.numRows() == 1
    assert 0 < told.sizeInBytes() < 100
    assert scan.estimateSizeInBytes() == told.sizeInBytes()
    assert "SupportsReportStatistics" in str(scan.Java.implements)


@pytest.fixture
def old_spark(monkeypatch):
    monkeypatch.setattr(slower, "_SAID", set())
    return SimpleNamespace(spark=SimpleNamespace(version="9.9"))


def refusal(kind):
    def refuse(*_):
        raise kind("no such class o17")

    return refuse


@pytest.mark.parametrize("kind", [Py4JError, TypeError])
def test_a_rule_that_spark_does_not_take_is_told_once(monkeypatch, old_spark, kind):
    monkeypatch.setattr(scan_rule, "defined_class", refusal(kind))
    with pytest.warns(RuntimeWarning) as said:
        assert not any(scan_rule.install_rule(old_spark) for _ in range(2))
    (told,) = (str(one.message) for one in said)
    assert "by RDDs, which costs about twice as much, because Spark 9.9 does not take" in told
    assert "no such class" in told


@pytest.mark.parametrize("kind", [Py4JError, TypeError])
def test_joins_that_spark_shuffles_are_told_of_once(monkeypatch, old_spark, kind):
    monkeypatch.setattr(scan_rule, "defined_class", refusal(kind))
    with pytest.warns(RuntimeWarning, match="^Joins on bucket keys are shuffled"):
        scan_rule._install_bucketed_joins(old_spark)
    scan_rule._install_bucketed_joins(old_spark)  # a second warning would be an error
