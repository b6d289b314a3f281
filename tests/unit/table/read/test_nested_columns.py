"""Columns of every type, nested ones too, through the whole of a table."""

import datetime as dt
import tempfile

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.types.strategies import any_types, assert_same_columns, columns

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema

KEY = DataField(0, "k", parse_type("INT NOT NULL"))
ROWS = 6


def column_of(table):
    return table.sort_by("k").column("c").combine_chunks()


@settings(max_examples=15)
@given(st.data())
def test_any_type_is_read_as_it_was_written(data):
    data_type = data.draw(any_types)
    keyed = data.draw(st.booleans())
    values = data.draw(columns(data_type, ROWS))
    newer = data.draw(columns(data_type, ROWS // 2))
    fields = (KEY, DataField(1, "c", data_type))
    with tempfile.TemporaryDirectory() as place:
        catalog = tidelake.open(place)
        table = catalog.create_table(
            "db.t",
            fields,
            primary_keys=["k"] if keyed else [],
            options={"bucket": 1 if keyed else -1},
        )
        table.write(pa.table([pa.array(range(ROWS), pa.int32()), values], names=["k", "c"]))
        assert_same_columns(column_of(table.to_arrow()), values)
        if not keyed:
            return
        changed = range(0, ROWS, 2)
        table.write(pa.table([pa.array(changed, pa.int32()), newer], names=["k", "c"]))
        expected = pa.concat_arrays([values, newer]).take(pa.array([6, 1, 7, 3, 8, 5]))
        assert_same_columns(column_of(table.to_arrow()), expected)
        table.compact(full=True)
        assert table.to_arrow().schema == to_arrow_schema(table.handle.schema.fields)
        assert_same_columns(column_of(table.to_arrow()), expected)
        table.delete([{"k": 1}])
        assert_same_columns(column_of(table.to_arrow()), expected.take(pa.array([0, 2, 3, 4, 5])))


SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int32()),
        "place": pa.struct({"x": pa.float64(), "y": pa.list_(pa.int16())}),
    }
)
ROW = {"k": 1, "tags": ["a", None], "counts": [("n", 1)], "place": {"x": 0.5, "y": [1]}}
EMPTY = {"k": 2, "tags": [], "counts": [], "place": None}


@pytest.fixture
def table(catalog):
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": 1})
    made.write([ROW, EMPTY])
    return made


def test_python_rows_are_taken(table):
    table.write({"k": 3, "tags": ["x"], "counts": {"m": 2}, "place": {"x": 1}})
    rows = table.to_arrow().sort_by("k").to_pylist()
    third = {"k": 3, "tags": ["x"], "counts": [("m", 2)], "place": {"x": 1.0, "y": None}}
    assert rows == [ROW, EMPTY, third]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("place", {"x": 1.0, "z": 1}, "would be changed"),
        ("place", {"y": [1.5]}, "1.5 would be changed"),
        ("counts", {"n": 1.5}, "1.5 would be changed"),
        ("counts", [("n", 1.5)], "1.5 would be changed"),
        ("tags", [1], "does not fit"),
        ("tags", "text", "does not fit"),
    ],
)
def test_python_values_that_would_change_are_refused(table, column, value, words):
    with pytest.raises(InvalidInputError, match=words):
        table.write([{**ROW, column: value}])


def test_rows_go_through_other_libraries(table):
    frame = table.to_pandas()
    table.write(frame)
    assert table.to_arrow().sort_by("k").to_pylist() == [ROW, EMPTY]
    polars = table.to_polars().sort("k")
    assert polars["tags"].to_list() == [["a", None], []]
    table.write(
        polars.drop("counts")
        .to_arrow()
        .append_column("counts", pa.array([[], []], SCHEMA.field("counts").type))
    )
    assert table.count() == 2
    view = table.to_duckdb(duckdb.connect())
    assert view.filter("k = 1").fetchall() == [(1, ["a", None], {}, {"x": 0.5, "y": [1]})]


def test_changes_predicates_and_projection(table):
    table.write([{**ROW, "tags": None}, {**EMPTY, "k": 3}])
    assert [r["k"] for r in table.to_arrow(where="tags is null").to_pylist()] == [1]
    assert sorted(r["k"] for r in table.to_arrow(where="place is null").to_pylist()) == [2, 3]
    assert table.to_arrow(columns=["place"], where="k = 1").to_pylist() == [{"place": ROW["place"]}]
    with pytest.raises(InvalidInputError, match="tags"):
        table.to_arrow(where=tidelake.col("tags") == "a")
    changes = [(r["_row_kind"], r["k"], r["tags"]) for r in table.changes(1, 2).to_pylist()]
    assert sorted(changes, key=repr) == sorted(
        [("-U", 1, ["a", None]), ("+U", 1, None), ("+I", 3, [])], key=repr
    )
    files = table.system_table("files").to_arrow().to_pylist()
    assert "tags=null" in files[0]["null_value_counts"]
    table.delete("counts is not null")
    assert table.count() == 0


def test_variants_are_taken_and_given_as_python_objects(catalog):
    fields = (KEY, DataField(1, "v", parse_type("VARIANT")))
    table = catalog.create_table("db.v", fields, primary_keys=["k"], options={"bucket": 1})
    day = dt.date(2024, 1, 1)
    table.write([{"k": 1, "v": {"a": [1, "x"], "day": day}}, {"k": 2, "v": None}, {"k": 3, "v": 5}])
    read = table.to_arrow().sort_by("k")
    assert tidelake.variant_objects(read["v"]) == [{"a": [1, "x"], "day": day}, None, 5]
    table.write(read)
    table.write(read.to_pylist())
    table.write(pa.table({"k": [4], "v": tidelake.variants([[None]])}))
    found = table.to_arrow().sort_by("k")["v"]
    assert tidelake.variant_objects(found) == [{"a": [1, "x"], "day": day}, None, 5, [None]]
    with pytest.raises(InvalidInputError, match="VARIANT"):
        table.write([{"k": 1, "v": object()}])


@pytest.mark.parametrize("form", [{"type": "ARRAY", "element": "INT"}, "VARIANT"])
def test_rows_are_not_distinguished_by_nested_columns(catalog, form):
    fields = (KEY, DataField(1, "c", parse_type(form)))
    for keys, options in (
        ({"primary_keys": ["c"]}, {"bucket": 1}),
        ({"partition_keys": ["c"]}, {}),
        ({}, {"bucket": 2, "bucket-key": "c"}),
        ({"primary_keys": ["k"]}, {"bucket": 1, "sequence.field": "c"}),
    ):
        with pytest.raises(InvalidInputError, match="'c' of type"):
            catalog.create_table("db.t", fields, options=options, **keys)


def test_maps_in_another_order_are_no_change(catalog):
    schema = pa.schema({"k": pa.int64(), "m": pa.map_(pa.string(), pa.list_(pa.int32()))})
    table = catalog.create_table("db.m", schema, primary_keys=["k"], options={"bucket": 1})
    table.write([{"k": 1, "m": {"a": [1], "b": [2]}}, {"k": 2, "m": {"a": [1], "b": [2]}}])
    table.write([{"k": 1, "m": {"b": [2], "a": [1]}}, {"k": 2, "m": {"a": [2], "b": [1]}}])
    assert table.changes(1, 2).column("k").to_pylist() == [2, 2]
