"""Aggregates of Spark's connector interfaces that metadata answers; no JVM is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tidelake
from tidelake.spark.catalog.scans import aggregate as module
from tidelake.spark.catalog.scans.aggregate import Aggregates, asked_aggregates
from tidelake.spark.catalog.scans.scan_builder import LakeScanBuilder
from tidelake.types import parse_type

TYPES = {
    name: parse_type(text)
    for name, text in {
        "k": "BIGINT",
        "p": "INT",
        "x": "DOUBLE",
        "f": "FLOAT",
        "v": "STRING",
    }.items()
}


def java(kind, **methods):
    made = {name: lambda value=value: value for name, value in methods.items()}
    return SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind), **made)


def column(name):
    return java("FieldReference", fieldNames=[name])


def aggregation(*groups, asked=None):
    return java(
        "Aggregation",
        groupByExpressions=[
            one if isinstance(one, SimpleNamespace) else column(one) for one in groups
        ],
        aggregateExpressions=[java("CountStar")] if asked is None else asked,
    )


def test_groups_by_partition_columns_are_asked():
    asked = [java("CountStar"), java("Max", column=column("k"))]
    found = asked_aggregates(aggregation("p", "v", asked=asked), TYPES, ["p", "v"])
    assert found == Aggregates(("p", "v"), (("count", None), ("max", "k")))


@pytest.mark.parametrize("groups", [["x"], ["p", "f"], ["k"], [java("GeneralScalarExpression")]])
def test_groups_that_python_may_tell_apart_otherwise_are_left_to_spark(groups):
    """NaN differs from itself, and -0.0 is 0.0, unlike in Spark's groups of floating numbers."""
    assert asked_aggregates(aggregation(*groups), TYPES, ["p", "x", "f", "v"]) is None


@pytest.mark.parametrize("kind", ["Min", "Max"])
def test_extremes_that_statistics_do_not_hold_are_not_asked(kind):
    asked = [java(kind, column=column("v"))]
    assert asked_aggregates(aggregation(asked=asked), TYPES, ["v"]) is None


def test_spark_asks_twice_and_metadata_is_read_once(tmp_path, monkeypatch):
    """Also where it does not tell: these rows are merged."""
    catalog = tidelake.open(tmp_path)
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("db.t", {"k": "BIGINT"}, primary_keys=["k"], options=options)
    for _ in range(2):
        table.write([{"k": 1}])
    planned = []
    monkeypatch.setattr(LakeScanBuilder, "_scan", lambda _: planned.append(1) or table.scan())
    builder = LakeScanBuilder(None, table, table.table_schema.fields, {}, "t")
    wanted = aggregation(asked=[java("Max", column=column("k"))])
    assert not builder.supportCompletePushDown(wanted)
    assert not builder.pushAggregation(wanted)
    assert len(planned) == 1
    table.compact(full=True)
    counted = aggregation()
    assert builder.supportCompletePushDown(counted)
    assert builder.pushAggregation(counted)
    assert len(planned) == 2


def test_many_partitions_are_one_total_but_not_as_many_groups(tmp_path, monkeypatch):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table(
        "db.t", {"k": "BIGINT", "p": "INT"}, partition_keys=["p"], options={"bucket": "-1"}
    )
    table.write([{"k": n, "p": n % 4} for n in range(12)])
    monkeypatch.setattr(module, "GROUPS_MAX", 3)
    total = Aggregates((), (("count", None), ("max", "k"))).answer(table.scan())
    assert [tuple(row.values()) for row in total.to_pylist()] == [(12, 11)]
    assert Aggregates(("p",), (("count", None),)).answer(table.scan()) is None
