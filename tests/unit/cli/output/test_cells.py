"""Every type of Arrow that tables and Spark have, as plain values and as valid JSON."""

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from tidelake.cli.output.cell_text import csv_field, json_text, shown
from tidelake.cli.output.cells import plain_values
from tidelake.types.variant.variant import variants

NEW_YORK = "America/New_York"
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("array", "cells", "as_json"),
    [
        (pa.array([True, None]), [True, None], ["true", "null"]),
        (pa.array([-128, 127], pa.int8()), [-128, 127], ["-128", "127"]),
        (pa.array([2**63 - 1]), [2**63 - 1], ["9223372036854775807"]),
        (pa.array([0.1], pa.float64()), [0.1], ["0.1"]),
        (pa.array([1e300, float("inf")]), [1e300, float("inf")], ["1e+300", '"Infinity"']),
        (pa.array([Decimal("1.50"), None]), ["1.50", None], ["1.50", "null"]),
        (
            pa.array([Decimal("12345678901234567890123456789012345.678")], pa.decimal128(38, 3)),
            ["12345678901234567890123456789012345.678"],
            ["12345678901234567890123456789012345.678"],
        ),
        (pa.array([Decimal("0E-10")], pa.decimal128(20, 10)), ["0.0000000000"], ["0.0000000000"]),
        (pa.array(['é\n"x"\u2028']), ['é\n"x"\u2028'], ['"é\\n\\"x\\"\u2028"']),
        (pa.array([b"\x00\xff", b""]), [b"\x00\xff", b""], ['"AP8="', '""']),
        (pa.array([dt.date(2026, 11, 22)]), ["2026-11-22"], ['"2026-11-22"']),
        (pa.array([36_600_001], pa.time32("ms")), ["10:10:00.001"], ['"10:10:00.001"']),
        (
            pa.array([0, DAY + 500_000], pa.timestamp("us")),
            ["1970-01-01 00:00:00", "1970-01-02 00:00:00.5"],
            ['"1970-01-01T00:00:00"', '"1970-01-02T00:00:00.5"'],
        ),
        (
            pa.array([1], pa.timestamp("ns")),
            ["1970-01-01 00:00:00.000000001"],
            ['"1970-01-01T00:00:00.000000001"'],
        ),
        (
            pa.array([0, 1_780_000_000_100], pa.timestamp("ms", "UTC")),
            ["1969-12-31 19:00:00-05:00", "2026-05-28 16:26:40.1-04:00"],
            ['"1969-12-31T19:00:00-05:00"', '"2026-05-28T16:26:40.1-04:00"'],
        ),
        (
            pa.array([300_000_000_000_000], pa.timestamp("ms")),  # beyond Python's years
            ["11476-08-15 05:20:00"],
            ['"11476-08-15T05:20:00"'],
        ),
        (pa.array([[1, None], None, []]), [[1, None], None, []], ["[1,null]", "null", "[]"]),
        (
            pa.array([[[1.5], None], [[]]], pa.list_(pa.list_(pa.float32()))),
            [[[1.5], None], [[]]],
            ["[[1.5],null]", "[[]]"],
        ),
        (
            pa.array([[("b", 1), ("a", None)], None, []], pa.map_(pa.string(), pa.int32())),
            [{"b": 1, "a": None}, None, {}],
            ['{"b":1,"a":null}', "null", "{}"],
        ),
        (
            pa.array(
                [[(dt.date(2026, 1, 1), [b"x"])]], pa.map_(pa.date32(), pa.list_(pa.binary()))
            ),
            [{"2026-01-01": [b"x"]}],
            ['{"2026-01-01":["eA=="]}'],
        ),
        (
            pa.array([{"a": {"b": Decimal("2.0")}}, None]),
            [{"a": {"b": "2.0"}}, None],
            ['{"a":{"b":2.0}}', "null"],
        ),
        (
            variants([{"k": [1, Decimal("1.5"), None]}, "text", None, dt.date(2026, 1, 2)]),
            [{"k": [1, "1.5", None]}, "text", None, "2026-01-02"],
            ['{"k":[1,1.5,null]}', '"text"', "null", '"2026-01-02"'],
        ),
        (pa.nulls(2), [None, None], ["null", "null"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"], ['"a"', '"b"', '"a"']),
    ],
    ids=str,
)
def test_values_of_each_type(array, cells, as_json):
    found = plain_values(array, NEW_YORK)
    assert found == cells
    texts = [json_text(value) for value in found]
    assert texts == as_json
    for text in texts:
        json.loads(text)  # valid
    # a slice has an offset, in its children too
    tail = array.slice(1)
    assert plain_values(tail, NEW_YORK) == cells[1:]


def test_nan_is_valid_json():
    (found,) = plain_values(pa.array([float("nan")]), "UTC")
    assert json.loads(json_text([found, {"x": found}])) == ["NaN", {"x": "NaN"}]


def test_a_null_list_that_hides_values_shows_none_of_them():
    values = pa.array([1, 2, 3])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), values, mask=pa.array([True, False]))
    assert plain_values(lists, "UTC") == [None, [3]]


def test_a_terminal_obeys_nothing_that_a_table_holds():
    assert shown("\x1b[2J\x07\u202eabc\ttab") == "\\x1b[2J\\x07\\u202eabc\\ttab"
    assert shown("two\nlines") == "two\nlines"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ("", '""'),
        ("a,b", '"a,b"'),
        ('a"b', '"a""b"'),
        ("a\nb", '"a\nb"'),
        (" a", '" a"'),
        (False, "false"),
        (float("nan"), "NaN"),
        (b"ab", "YWI="),
        ([1, "x"], '"[1,""x""]"'),
    ],
)
def test_fields_of_csv(value, field):
    assert csv_field(value) == field
