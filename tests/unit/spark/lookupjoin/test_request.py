"""What a lookup join may be asked."""

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.spark.lookupjoin.key_type import key_expression
from tidelake.spark.lookupjoin.request import LookupRequest, Retry
from tidelake.types import DataField, parse_type

FRAME = st.StructType().add("a", "long").add("b", "string").add("Name", "string")


def spark_type(text):
    if "collate" in text:
        return st.StringType("UTF8_LCASE")
    return st.StructType().add("x", text)["x"].dataType


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    catalog = tidelake.open(tmp_path_factory.mktemp("lookups"))
    schema = {"day": "INT", "no": "STRING", "name": "STRING", "v": "DOUBLE"}
    return catalog.create_table("db.t", schema, primary_keys=["day", "no"])


def asked(table, on, how="left", columns=None, frame=FRAME):
    return LookupRequest.of(frame, table, on, how=how, columns=columns)


def test_keys_are_in_the_order_of_the_table(table):
    found = asked(table, {"b": "no", "a": "day"}, columns={"v": "v", "no": "number"})
    assert found.keys == ("try_cast(`a` AS int)", "`b`")
    assert [f.name for f in found.columns] == ["v", "no"]
    assert found.names == ("v", "number")
    assert found.is_outer
    frame = st.StructType().add("no", "string").add("day", "integer")
    found = asked(table, ["no", "day"], "inner", frame=frame)
    assert found.keys == ("`day`", "`no`")
    assert found.names == ("name", "v")
    assert not found.is_outer


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"on": ["day"]}, InvalidInputError, r"must name the primary key of table 'db\.t', \(day,"),
        ({"on": {"a": "day", "b": "v"}}, InvalidInputError, "which reads the whole table"),
        ({"on": {"a": "day", "b": "day"}}, InvalidInputError, "once and nothing else"),
        ({"on": {"a": "day", "b": "no_"}}, NotFoundError, "no column 'no_'.*'no'"),
        ({"on": {"a": "day", "bb": "no"}}, NotFoundError, "The frame has no column 'bb'"),
        ({"on": {"b": "day", "a": "no"}}, InvalidInputError, "'b' of type string cannot be looked"),
        ({"how": "outer"}, InvalidInputError, "how='outer' must be 'left' or 'inner'"),
        (
            {"columns": None},
            InvalidInputError,
            r"'name' is in the frame already.*\{'name': 'name_2",
        ),
        ({"columns": ["vv"]}, NotFoundError, "'v'"),
        ({"columns": []}, InvalidInputError, "selects nothing"),
        ({"columns": {"v": "x", "day": "X"}}, InvalidInputError, "is in the frame already"),
    ],
)
def test_what_is_refused(table, given, error, told):
    arguments = {"on": {"a": "day", "b": "no"}, "columns": ["v"], **given}
    with pytest.raises(error, match=told):
        asked(table, **arguments)


def test_a_table_without_a_key_is_refused(tmp_path):
    table = tidelake.open(tmp_path).create_table("db.t", pa.schema({"id": pa.int64()}))
    with pytest.raises(UnsupportedError, match="no primary key"):
        asked(table, {"a": "id"})


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ("integer", "INT", "x"),
        ("long", "TINYINT", "try_cast(x AS tinyint)"),
        ("integer", "DECIMAL(10, 2)", "try_cast(x AS decimal(10,2))"),
        ("decimal(10,2)", "DECIMAL(12, 4)", "try_cast(x AS decimal(12,4))"),
        ("decimal(12,0)", "BIGINT", "try_cast(x AS bigint)"),
        ("decimal(12,2)", "BIGINT", None),
        ("decimal(12,2)", "DECIMAL(12, 1)", None),
        ("double", "BIGINT", None),
        ("double", "DOUBLE", None),
        ("float", "FLOAT", None),
        ("string", "CHAR(3)", "x"),
        ("string collate UTF8_LCASE", "STRING", None),
        ("binary", "BYTES", "x"),
        ("string", "BYTES", None),
        ("date", "DATE", "x"),
        ("date", "TIMESTAMP(3)", None),
        ("timestamp_ntz", "TIMESTAMP(3)", "x"),
        ("timestamp", "TIMESTAMP(3)", None),
        ("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "x"),
        ("boolean", "BOOLEAN", "x"),
    ],
)
def test_a_column_is_cast_only_where_the_answer_stays_the_same(given, key, expected):
    field = DataField(0, "k", parse_type(f"{key} NOT NULL"))
    assert key_expression("x", spark_type(given), field) == expected


@pytest.mark.parametrize("given", [{"attempts_max": 0}, {"attempts_max": 101}, {"delay_ms": -1}])
def test_tries_and_waits_are_bounded(given):
    with pytest.raises(InvalidInputError, match="must be a number from"):
        Retry(**{"attempts_max": 1, "delay_ms": 1, **given})
