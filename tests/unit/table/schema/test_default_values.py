"""Defaults of columns: when rows are written, as in Paimon's TableWriteImpl."""

from dataclasses import replace

import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError
from tidelake.types import DataField, parse_type


def field(name, form, default=None):
    return DataField(0, name, parse_type(form), default_value=default)


FIELDS = [
    field("k", "INT NOT NULL"),
    field("n", "INT", "7"),
    field("s", "VARCHAR(3)", "'abcd'"),
    field("d", "DECIMAL(10, 2)", "1.5"),
    field("r", "STRING", "x"),
    field("q", "STRING NOT NULL", "y"),
]


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", FIELDS, primary_keys=["k"], options={"bucket": 1})


def test_nulls_and_columns_left_out_take_the_default(table):
    table.write([{"k": 1, "q": "a"}, {"k": 2, "n": 0, "q": "b"}])
    table.write(pa.table({"k": [3], "n": pa.nulls(1), "s": ["y"], "r": ["z"], "q": ["c"]}))
    rows = [tuple(map(str, r.values())) for r in table.to_arrow().sort_by("k").to_pylist()]
    assert rows == [
        ("1", "7", "abc", "1.50", "x", "a"),
        ("2", "0", "abc", "1.50", "x", "b"),
        ("3", "7", "y", "1.50", "z", "c"),
    ]


def test_a_null_in_a_not_null_column_is_refused_whatever_its_default(table):
    with pytest.raises(InvalidInputError, match=r"'q' .*NOT NULL"):
        table.write([{"k": 1, "q": None}])


def test_a_column_without_default_must_be_there(table):
    with pytest.raises(InvalidInputError, match="lacks the column 'k'"):
        table.write([{"n": 1}])


@pytest.mark.parametrize(
    ("form", "default"),
    [
        ("INT", "seven"),
        ({"type": "MAP", "key": "INT", "value": "INT"}, "{}"),
        ("VARIANT", "1"),
    ],
)
def test_defaults_that_are_none_are_refused(catalog, form, default):
    with pytest.raises(InvalidInputError, match=r"default of column 'c'"):
        catalog.create_table("db.t", [FIELDS[0], field("c", form, default)])


def test_files_keep_null_where_the_default_came_later(catalog):
    without = [replace(f, default_value=None) for f in FIELDS[:2]]
    table = catalog.create_table("db.t", without, primary_keys=["k"], options={"bucket": 1})
    table.write([{"k": 1, "n": None}])
    assert table.to_arrow().to_pylist() == [{"k": 1, "n": None}]
