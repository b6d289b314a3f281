"""Which changes let a table take rows of other columns and types."""

from __future__ import annotations

import pytest

from tidelake.sql.syntax.cursor import Cursor
from tidelake.sql.syntax.tokens import tokenize
from tidelake.sql.syntax.types import Spelling, read_type
from tidelake.table.schema.schema_merging import merging_changes
from tidelake.types import DataField


def type_of(text):
    return read_type(Cursor(text, tokenize(text)), Spelling.FLINK)


def fields(types):
    return [DataField(n, name, type_of(text)) for n, (name, text) in enumerate(types.items())]


def changes(table, rows, *, explicit=False):
    found = merging_changes(fields(table), fields(rows), explicit=explicit)
    return [(type(c).__name__, c.column, str(c.type).replace("`", "")) for c in found]


@pytest.mark.parametrize(
    ("old", "new", "becomes"),
    [
        ("INT", "INT", None),
        ("INT NOT NULL", "BIGINT", "BIGINT"),
        ("BIGINT", "INT", None),
        ("TINYINT", "DOUBLE", "DOUBLE"),
        ("DOUBLE", "INT", None),
        ("DECIMAL(10, 2)", "DECIMAL(8, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 2)", None),
        ("DECIMAL(38, 2)", "DECIMAL(38, 4)", None),
        ("VARCHAR(3)", "STRING", None),
        ("CHAR(3)", "STRING", None),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", None),
        ("STRING", "INT", None),
        ("INT", "STRING", None),
        ("INT", "ARRAY<INT>", None),
        ("ROW<a INT>", "INT", None),
    ],
)
def test_columns_get_a_wider_type_and_keep_one_that_is_wide_enough(old, new, becomes):
    expected = [] if becomes is None else [("UpdateColumnType", "c", becomes)]
    assert changes({"c": old}, {"C": new}) == expected


def test_a_cast_that_may_lose_something_must_be_allowed():
    assert changes({"c": "STRING"}, {"c": "INT"}) == []
    assert changes({"c": "BOOLEAN"}, {"c": "INT"}, explicit=True) == [
        ("UpdateColumnType", "c", "INT")
    ]


def test_columns_and_fields_are_added_nullable_and_behind_the_others():
    assert changes(
        {"id": "INT", "r": "ROW<a INT, b ARRAY<ROW<x INT>>>", "m": "MAP<STRING, ROW<y INT>>"},
        {
            "new": "ROW<z INT NOT NULL> NOT NULL",
            "r": "ROW<B ARRAY<ROW<x BIGINT, y INT NOT NULL>>, c STRING>",
            "m": "MAP<STRING, ROW<y INT, z DATE>>",
        },
    ) == [
        ("AddColumn", "new", "ROW<z INT NOT NULL>"),
        ("UpdateColumnType", ("r", "b", "element", "x"), "BIGINT"),
        ("AddColumn", ("r", "b", "element", "y"), "INT"),
        ("AddColumn", ("r", "c"), "STRING"),
        ("AddColumn", ("m", "value", "z"), "DATE"),
    ]
