"""What metadata says of the rows of a plan is what the rows say, or nothing."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelake
from tidelake.scan.summary import plan_summary, total_summary
from tidelake.types.values import storage_to_arrow

COLUMNS = {
    "k": "BIGINT",
    "p": "STRING",
    "i": "INT",
    "d": "DATE",
    "m": "DECIMAL(20, 2)",
    "t": "TIMESTAMP(6)",
    "b": "BOOLEAN",
    "x": "DOUBLE",
    "v": "STRING",
}
TYPES = pa.schema(
    [
        ("k", pa.int64()),
        ("p", pa.string()),
        ("i", pa.int32()),
        ("d", pa.date32()),
        ("m", pa.decimal128(20, 2)),
        ("t", pa.timestamp("us")),
        ("b", pa.bool_()),
        ("x", pa.float64()),
        ("v", pa.string()),
    ]
)
EXACT = ("k", "i", "d", "m", "t", "b")


def rows(count, start=0, **given):
    made = [
        {
            "k": n,
            "p": None if n % 4 == 3 else f"p{n % 4}",
            "i": None if n % 5 == 0 else n - 50,
            "d": dt.date(2026, 11, 1) + dt.timedelta(n),
            "m": Decimal(n * 10**12) / 100 - 3,
            "t": dt.datetime(2026, 1, 1) + dt.timedelta(microseconds=n * 1001),
            "b": n % 2 == 0,
            "x": float(n),
            "v": f"{n:040}",
            **given,
        }
        for n in range(start, start + count)
    ]
    return pa.Table.from_pylist(made, schema=TYPES)


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


def summary(table, columns=tuple(COLUMNS), **scan):
    planned = table.scan(**scan)
    found = plan_summary(planned.context, planned.plan, columns)
    return None if found is None else total_summary(found, columns)


def check(table, columns=EXACT, **scan):
    held = table.to_arrow(**scan)
    found = summary(table, tuple(held.column_names), **scan)
    assert found.rows_count == held.num_rows
    for name in columns:
        own = found.columns[name]
        ends = pc.min_max(held[name]).as_py()
        told = storage_to_arrow([own.low, own.high], table.table_schema.field(name).type)
        assert own.has_extremes
        assert told.to_pylist() == [ends["min"], ends["max"]]
        assert own.nulls_count == held[name].null_count
    return found


def test_rows_nulls_and_extremes_are_those_of_the_rows(catalog):
    table = catalog.create_table("db.t", COLUMNS, options={"bucket": "-1"})
    assert summary(table).rows_count == 0
    table.write(rows(100))
    table.write(rows(50, start=200, d=None, b=None))
    found = check(table)
    for name in ("x", "v", "p"):  # NaN is in no statistics, and text is cut
        assert not found.columns[name].has_extremes
        assert found.columns[name].nulls_count == table.to_arrow()[name].null_count
    table.write(rows(3, start=900, i=None))
    check(table)


def test_partitions_by_themselves(catalog):
    table = catalog.create_table("db.t", COLUMNS, partition_keys=["p"], options={"bucket": "-1"})
    table.write(rows(40))
    planned = table.scan()
    parts = plan_summary(planned.context, planned.plan, ["k", "p"])
    assert sorted(part.rows_count for part in parts) == [10] * 4
    assert sorted(part.columns["k"].low for part in parts) == [0, 1, 2, 3]
    assert sorted(part.columns["p"].nulls_count for part in parts) == [0, 0, 0, 10]
    assert summary(table, where="p = 'p1'").rows_count == 10
    assert summary(table, where="p = 'p1' AND k > 3") is None


def test_rows_that_are_merged_or_filtered_are_not_told(catalog):
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
    table.write(rows(10))
    check(table)
    table.write(rows(10, start=5))
    assert summary(table) is None
    table.compact(full=True)
    check(table)
    assert summary(table, where="i > 3") is None


def test_rows_that_vectors_delete_are_counted_but_may_be_the_extremes(catalog):
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    table = catalog.create_table("db.t", COLUMNS, options=options)
    table.write(rows(100))
    table.delete("k >= 90")
    found = summary(table)
    assert found.rows_count == 90
    assert not found.columns["k"].has_extremes
    assert found.columns["k"].nulls_count is None


@pytest.mark.parametrize("name", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"])
def test_times_of_orc_are_told_after_1970_only(catalog, name):
    """Java's last second before 1970 is read as the next one, whose statistics are not told."""
    options = {"bucket": "-1", "file.format": "orc"}
    table = catalog.create_table("db.o", {"t": name, "k": "INT"}, options=options)
    zone = dt.UTC if "LTZ" in name else None
    late = dt.datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=zone)
    table.write([{"t": late, "k": 1}, {"t": None, "k": 2}])
    check(table, columns=("t", "k"))
    table.write([{"t": dt.datetime(1960, 1, 1, tzinfo=zone), "k": 3}, {"t": late, "k": 4}])
    found = check(table, columns=("k",))
    assert not found.columns["t"].has_extremes
    assert found.columns["t"].nulls_count == 1


def test_columns_that_changed(catalog):
    table = catalog.create_table("db.t", {"k": "INT", "o": "INT"}, options={"bucket": "-1"})
    table.write([{"k": 1, "o": 5}])
    table = catalog.alter_table(
        "db.t",
        [
            tidelake.RenameColumn("o", "n"),
            tidelake.AddColumn("later", "INT"),
            tidelake.UpdateColumnType("k", "BIGINT"),
        ],
    )
    found = summary(table, columns=("k", "n", "later"))
    assert (found.columns["n"].low, found.columns["n"].high) == (5, 5)
    assert (found.columns["later"].low, found.columns["later"].nulls_count) == (None, 1)
    assert found.columns["later"].has_extremes
    assert not found.columns["k"].has_extremes  # its type was changed: a cast is not repeated here


@settings(max_examples=8)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=1, max_size=5)))
def test_any_files(tmp_path_factory, files):
    catalog = tidelake.open(tmp_path_factory.mktemp("w"))
    table = catalog.create_table("db.t", {"i": "INT"}, options={"bucket": "-1"})
    for values in files:
        table.write(pa.table({"i": pa.array(values, pa.int32())}))
    check(table, columns=["i"])
