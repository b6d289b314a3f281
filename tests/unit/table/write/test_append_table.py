"""Append tables end to end: unaware and bucketed, partitions with nulls, overwrite, refusals."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tidelake import InvalidInputError, UnsupportedError


def rows(table, **scan):
    return sorted(table.to_arrow(**scan).to_pylist(), key=repr)


def test_appended_rows_are_kept_all(appended):
    appended.write([{"k": 1, "v": "a", "n": 1}])
    appended.write([{"k": 1, "v": "a", "n": 1}, {"k": None, "v": None, "n": None}])
    assert appended.count() == 3
    assert rows(appended).count({"k": 1, "v": "a", "n": 1}) == 2


def test_bucketed_append_prunes_buckets(catalog):
    table = catalog.create_table(
        "db.b",
        pa.schema({"k": pa.int64(), "v": pa.string()}),
        options={"bucket": 4, "bucket-key": "k"},
    )
    table.write([{"k": k, "v": str(k)} for k in range(100)])
    assert rows(table, where="k = 42") == [{"k": 42, "v": "42"}]
    plan = table.plan(where="k = 42")
    assert (plan.files_read, plan.pruned["bucket"]) == (1, 3)
    assert table.count() == 100


def test_partitions_of_many_types_come_back(catalog):
    schema = pa.schema(
        {
            "d": pa.date32(),
            "s": pa.string(),
            "t": pa.timestamp("ms"),
            "b": pa.bool_(),
            "m": pa.decimal128(10, 2),
            "x": pa.int64(),
        }
    )
    table = catalog.create_table("db.p", schema, partition_keys=["d", "s", "t", "b", "m"])
    data = [
        {
            "d": dt.date(2024, 2, 29),
            "s": "a=b/c%d",
            "t": dt.datetime(2024, 1, 1, 12, 30, 0, 123000),
            "b": True,
            "m": 1,
            "x": 1,
        },
        {"d": None, "s": "", "t": None, "b": None, "m": None, "x": 2},
        {
            "d": dt.date(1969, 12, 31),
            "s": "é中",
            "t": dt.datetime(1970, 1, 1),
            "b": False,
            "m": -5,
            "x": 3,
        },
    ]
    source = pa.Table.from_pylist(data, schema=schema)
    table.write(source)
    assert table.to_arrow().sort_by("x") == source
    assert table.to_arrow(where="d = DATE '2024-02-29'").column("x").to_pylist() == [1]
    assert table.to_arrow(where="d IS NULL").column("x").to_pylist() == [2]
    assert table.to_arrow(where=[("s", "==", "é中")]).column("x").to_pylist() == [3]


def test_dynamic_overwrite_of_a_partitioned_append_table(catalog):
    table = catalog.create_table(
        "db.p", pa.schema({"p": pa.string(), "x": pa.int64()}), partition_keys=["p"]
    )
    table.write([{"p": p, "x": x} for p in ("a", "b") for x in range(3)])
    table.write([{"p": "a", "x": 100}], mode="overwrite")
    assert rows(table) == [{"p": "a", "x": 100}] + [{"p": "b", "x": x} for x in range(3)]


def test_row_kinds_other_than_insert_are_refused(appended):
    with pytest.raises(InvalidInputError, match="takes only inserts"):
        appended.write([{"k": 1, "v": "a", "n": 1}], row_kinds=["-D"])
    assert appended.history().num_rows == 0


def test_delete_by_key_is_refused_and_by_condition_or_partition_works(catalog, appended):
    appended.write([{"k": k, "v": "a", "n": 1} for k in (1, 2)])
    with pytest.raises(UnsupportedError, match="no primary key"):
        appended.delete([{"k": 1}])
    assert appended.count() == 2
    assert appended.delete("k = 1").rows == 1
    assert [row["k"] for row in rows(appended)] == [2]
    table = catalog.create_table(
        "db.p", pa.schema({"p": pa.string(), "x": pa.int64()}), partition_keys=["p"]
    )
    table.write([{"p": p, "x": x} for p in ("a", "b") for x in range(3)])
    table.delete("p = 'a'")
    assert {r["p"] for r in rows(table)} == {"b"}


def test_many_buckets_stay_inside_the_budget(catalog):
    table = catalog.create_table(
        "db.many",
        pa.schema({"p": pa.int32(), "x": pa.int64()}),
        partition_keys=["p"],
        options={"write-buffer-size": "1 mb"},
    )
    source = pa.table(
        {"p": pa.array([i % 300 for i in range(30_000)], pa.int32()), "x": list(range(30_000))}
    )
    table.write(source)
    assert table.count() == 30_000
    assert table.to_arrow().sort_by("x").column("x") == source.column("x")
