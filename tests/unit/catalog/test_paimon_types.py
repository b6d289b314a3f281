from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.types import parse_type


def test_columns_may_be_given_by_paimons_types(tmp_path):
    catalog = tidelake.open(tmp_path)
    columns = {
        "k": "INT NOT NULL",
        "a": pa.int8(),
        "b": "int64",
        "c": parse_type("VARIANT"),
        "d": {"type": "MULTISET", "element": "CHAR(2)"},
        "e": {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "DATE"}]},
        "f": "map<string, row<y int, z array<char(2)>>>",
        "g": "bigint",
        "h": "binary",
    }
    schema = catalog.create_table("db.t", columns).handle.schema
    assert [str(f.type) for f in schema.fields] == [
        "INT NOT NULL",
        "TINYINT",
        "BIGINT",
        "VARIANT",
        "MULTISET<CHAR(2)>",
        "ROW<`x` DATE>",
        "MAP<STRING, ROW<`y` INT, `z` ARRAY<CHAR(2)>>>",
        "BIGINT",
        "BYTES",
    ]
    assert schema.field("e").type.child_fields == ((6, "x"),)
    assert schema.field("f").type.children[1].child_fields == ((8, "y"), (9, "z"))
    assert schema.highest_field_id == 11


def test_a_column_may_be_added_by_the_text_of_a_nested_type(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", {"k": "int"})
    table.add_column("m", "MAP<STRING,INT>")
    table.write([{"k": 1, "m": {"a": 1}}])
    assert table.to_arrow().to_pylist() == [{"k": 1, "m": [("a", 1)]}]


@pytest.mark.parametrize("wrong", ["INTEGRAL", "DECIMAL(50, 2)", {"type": "ARRAY"}, {"type": 1}])
def test_types_that_are_none_are_refused(tmp_path, wrong):
    with pytest.raises(InvalidInputError, match="column 'c'"):
        tidelake.open(tmp_path).create_table("db.t", {"k": pa.int64(), "c": wrong, "d": "INT"})
