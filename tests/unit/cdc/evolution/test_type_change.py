"""Which types convert: a table of families, Java's answers, and Paimon's own test cases."""

import itertools
import json
from pathlib import Path

import pytest

from tidelake.cdc.evolution.type_change import (
    TypeChange,
    is_same,
    keeps_values,
    type_change,
    type_changes,
)
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.types import parse_type
from tidelake.types.data_type import parse_type_text
from tidelake.types.schema_change import AddColumn, UpdateColumnNullability, UpdateColumnType

# each family from its smallest to its largest; types in one cell are as large as each other
FAMILIES = [
    ["CHAR(3) VARCHAR(3)", "VARCHAR(5)", "CHAR(10) VARCHAR(10)", "STRING"],
    ["BINARY(3) VARBINARY(3)", "VARBINARY(5)", "BYTES"],
    ["TINYINT", "SMALLINT", "INT", "BIGINT"],
    ["FLOAT", "DOUBLE"],
    ["TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"],
    ["TIME(0)", "TIME(3)"],
    ["BOOLEAN"],
    ["DATE"],
    ["TIMESTAMP_LTZ(3)"],
    ["TIMESTAMP_LTZ(6)"],
]
PLACES = {
    text: (family, size)
    for family, cells in enumerate(FAMILIES)
    for size, cell in enumerate(cells)
    for text in cell.split()
}
PAIRS = [*itertools.product(PLACES, PLACES)]
TEXTS = {text for text, (family, _) in PLACES.items() if family == 0}
WITH_TEXT = TypeMapping.of(["allow-non-string-to-string"])


LETTERS = {"convert": "C", "ignore": "I", "refuse": "E"}


def expected(old, new, *, text_allowed):
    (old_family, old_size), (new_family, new_size) = PLACES[old], PLACES[new]
    if old_family == new_family:
        return "convert" if old_size <= new_size else "ignore"
    return "convert" if text_allowed and new in TEXTS else "refuse"


def said(old, new, mapping=None):
    return str(type_change(parse_type_text(old), parse_type_text(new), mapping or TypeMapping()))


def test_all_pairs_of_plain_types():
    assert len(PAIRS) > 400
    wrong = [
        (old, new, said(old, new))
        for old, new in PAIRS
        if said(old, new) != expected(old, new, text_allowed=False)
    ]
    assert not wrong


def test_all_pairs_where_text_takes_everything():
    wrong = [
        (old, new)
        for old, new in PAIRS
        if said(old, new, WITH_TEXT) != expected(old, new, text_allowed=True)
    ]
    assert not wrong


def test_all_pairs_as_java_answers_them():
    """Java's answers, of ``canConvert`` at commit 5dacde5 with the types of Paimon 1.3.1.

    A line is an old type; its answers are those for the types of all lines, in their order: C
    convert, I ignore, E exception. The second row is with ``allow-non-string-to-string``.
    """
    golden = Path(__file__).parents[3] / "golden" / "cdc_type_changes.jsonl"
    lines = [json.loads(line) for line in golden.read_text("utf-8").splitlines()]
    types = [line["old"] for line in lines]
    ours = [
        {
            "old": old,
            "new": "".join(LETTERS[said(old, new)] for new in types),
            "new_with_text": "".join(LETTERS[said(old, new, WITH_TEXT)] for new in types),
        }
        for old in types
    ]
    assert ours == lines
    assert len(types) ** 2 > 3_000


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ((20, 9), (30, 10), "convert"), ((20, 9), (10, 3), "ignore"), ((20, 9), (20, 9), "convert"),
        ((20, 9), (10, 10), "convert"), ((20, 9), (21, 3), "convert"), ((20, 9), (20, 8), "ignore"),
        ((20, 9), (19, 9), "ignore"), ((1, 0), (38, 38), "convert"),
    ],
)  # fmt: skip
def test_a_decimal_is_smaller_only_in_both_numbers(old, new, answer):
    assert said(f"DECIMAL{old}", f"DECIMAL{new}") == answer
    assert said(f"ARRAY<DECIMAL{old}>", f"ARRAY<DECIMAL{new}>") == answer


@pytest.mark.parametrize("text", [*PLACES, "DECIMAL(9, 2)", "ARRAY<INT>", "MAP<INT, INT>"])
def test_an_equal_type_may_become_nullable_and_never_not_null(text):
    assert said(text, text) == said(f"{text} NOT NULL", text) == "convert"
    assert said(text, f"{text} NOT NULL") == "refuse"


# UpdatedDataFieldsProcessFunctionBaseTest
@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("VARCHAR(10)", "VARCHAR(20)", "convert"),
        ("VARCHAR(10)", "VARCHAR(5)", "ignore"),
        ("INT", "BIGINT", "convert"),
        ("INT", "SMALLINT", "ignore"),
        ("TIME(0)", "TIME(3)", "convert"),
        ("TIME(3)", "TIME(0)", "ignore"),
        ("TIMESTAMP(3)", "TIMESTAMP(5)", "convert"),
        ("TIMESTAMP(3)", "TIMESTAMP(2)", "ignore"),
        ("ARRAY<INT>", "ARRAY<INT> NOT NULL", "refuse"),
        ("ARRAY<INT> NOT NULL", "ARRAY<INT>", "convert"),
        ("ARRAY<INT>", "ARRAY<INT NOT NULL>", "refuse"),
        ("MULTISET<INT>", "MULTISET<INT> NOT NULL", "refuse"),
        ("MULTISET<INT> NOT NULL", "MULTISET<INT>", "convert"),
        ("MULTISET<INT>", "MULTISET<INT NOT NULL>", "refuse"),
        ("MULTISET<INT>", "MULTISET<BIGINT>", "convert"),
        ("MULTISET<INT>", "MULTISET<STRING>", "refuse"),
        ("ROW<f1 ROW<i INT, s STRING>>", "ROW<f1 ROW<i INT, s STRING> NOT NULL>", "refuse"),
        ("ROW<f1 ROW<i INT, s STRING>>", "ROW<f1 ROW<i INT NOT NULL, s STRING>>", "refuse"),
        ("ROW<f1 INT, f2 STRING>", "ROW<f1 BIGINT, f2 STRING, f3 DOUBLE>", "convert"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "convert"),
        ("ARRAY<INT>", "ARRAY<STRING>", "refuse"),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", "convert"),
        ("MAP<STRING, INT>", "MAP<STRING, BOOLEAN>", "refuse"),
        ("MAP<STRING, INT>", "MAP<VARCHAR(9), INT>", "refuse"),
        ("MAP<STRING, MAP<INT, STRING>>", "MAP<STRING, MAP<INT, VARCHAR(100)>>", "ignore"),
        ("ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<BIGINT>>", "convert"),
        ("ROW<f1 INT, f2 STRING, f3 DOUBLE>", "ROW<f1 BIGINT, f2 VARCHAR(100), f4 INT>", "convert"),
        ("ROW<f1 INT NOT NULL, f2 STRING>", "ROW<f2 STRING>", "refuse"),
        ("ROW<f1 INT>", "ROW<f1 INT, f2 VARCHAR(100) NOT NULL>", "refuse"),
        ("ROW<a ROW<i INT>>", "ROW<a ROW<i BIGINT, k DOUBLE>>", "convert"),
        ("ROW<a BIGINT>", "ROW<a INT>", "ignore"),
        (
            "MAP<STRING, ROW<f1 ARRAY<INT>, f2 ROW<x INT, y STRING>>>",
            "MAP<STRING, ROW<f1 ARRAY<BIGINT>, f2 ROW<x BIGINT, y STRING, z DOUBLE>>>",
            "convert",
        ),
        (
            "MAP<STRING, ROW<f1 ARRAY<INT>, f2 ROW<x INT, y STRING>>>",
            "MAP<STRING, ROW<f1 ARRAY<STRING>, f2 ROW<x BIGINT, y STRING, z DOUBLE>>>",
            "refuse",
        ),
        (
            "ARRAY<MAP<INT, ROW<f1 INT, f2 STRING>>>",
            "ARRAY<MAP<INT, ROW<f1 BIGINT, f2 STRING, f3 DOUBLE>>>",
            "convert",
        ),
        ("ARRAY<INT>", "INT", "refuse"),
        ("ROW<a INT>", "MAP<STRING, INT>", "refuse"),
    ],
)
def test_paimons_own_cases(old, new, answer):
    assert said(old, new) == answer


def test_ids_inside_types_do_not_count():
    one = parse_type({"type": "ROW", "fields": [{"id": 3, "name": "a", "type": "INT"}]})
    assert is_same(one, parse_type_text("ROW<a INT> NOT NULL"))
    assert type_change(one, parse_type_text("ROW<a INT>")) is TypeChange.CONVERT


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("INT", "BIGINT", True), ("BIGINT", "INT", False), ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False), ("VARCHAR(5)", "STRING", True), ("STRING", "VARCHAR(5)", False),
        ("CHAR(5)", "CHAR(9)", False), ("CHAR(5)", "STRING", False), ("CHAR(5)", "CHAR(5)", True),
        ("DECIMAL(10, 4)", "DECIMAL(12, 2)", False), ("DECIMAL(10, 4)", "DECIMAL(12, 4)", True),
        ("DECIMAL(10, 4)", "DECIMAL(12, 6)", True), ("DECIMAL(10, 4)", "DECIMAL(10, 6)", False),
        ("INT", "STRING", False), ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False), ("ARRAY<INT>", "ARRAY<BIGINT>", True),
        ("ARRAY<BIGINT>", "ARRAY<INT>", False), ("INT NOT NULL", "INT", True),
        ("ROW<a INT>", "ROW<a BIGINT, b INT>", True), ("ROW<a BIGINT>", "ROW<a INT>", False),
        ("DATE", "TIMESTAMP(0)", False),
    ],
)  # fmt: skip
def test_a_source_keeps_values_where_the_new_type_has_them_all(old, new, kept):
    assert keeps_values(parse_type_text(old), parse_type_text(new)) is kept


def test_changes_inside_a_type_name_the_way_to_it():
    old = parse_type_text("ROW<a INT, b ARRAY<INT>, c BIGINT, m MAP<INT, FLOAT NOT NULL>>")
    new = parse_type_text("ROW<a BIGINT, b ARRAY<BIGINT>, c INT, m MAP<INT, DOUBLE>, d DATE>")
    assert list(type_changes(("x",), old, new)) == [
        UpdateColumnType(("x", "a"), parse_type("BIGINT")),
        UpdateColumnType(("x", "b", "element"), parse_type("BIGINT")),
        UpdateColumnType(("x", "m", "value"), parse_type("DOUBLE")),
        UpdateColumnNullability(("x", "m", "value"), nullable=True),
        AddColumn(("x", "d"), parse_type("DATE")),
    ]
    plain = [*type_changes(("x",), parse_type("INT"), parse_type("STRING"))]
    assert plain == [UpdateColumnType("x", parse_type("STRING"))]
