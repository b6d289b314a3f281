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
    }
    schema = catalog.create_table("db.t", columns).handle.schema
    assert [str(f.type) for f in schema.fields] == [
        "INT NOT NULL",
        "TINYINT",
        "BIGINT",
        "VARIANT",
        "MULTISET<CHAR(2)>",
        "ROW<`x` DATE>",
    ]
    assert schema.field("e").type.child_fields == ((6, "x"),)
    assert schema.highest_field_id == 6


@pytest.mark.parametrize("wrong", ["INTEGRAL", "DECIMAL(50, 2)", {"type": "ARRAY"}, {"type": 1}])
def test_types_that_are_none_are_refused(tmp_path, wrong):
    with pytest.raises(InvalidInputError, match="column 'c'"):
        tidelake.open(tmp_path).create_table("db.t", {"k": pa.int64(), "c": wrong, "d": "INT"})
