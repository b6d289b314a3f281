"""Rows printed many at once are what the scalar rules print of each value."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED

from tidelake.codec.binary_row import serialize_row
from tidelake.errors import CorruptError
from tidelake.table.system.java_text_columns import concat_texts, row_texts
from tidelake.types import parse_type
from tidelake.types.java_text import java_text

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": INT64,
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats() | st.floats(1e-4, 1e8),
    "DATE": st.integers(-800_000, 3_000_000),
    "TIME": st.integers(0, 86_399_999),
    "DECIMAL(1, 0)": st.integers(-9, 9),
    "DECIMAL(7, 7)": st.integers(-9_999_999, 9_999_999),
    "DECIMAL(18, 2)": st.integers(-(10**18) + 1, 10**18 - 1),
    "DECIMAL(38, 30)": st.integers(-(10**38) + 1, 10**38 - 1),
    "TIMESTAMP(0)": st.integers(-(10**11), 10**13).map(lambda s: s * 10**6),
    "TIMESTAMP(3)": st.integers(-(10**11), 10**16).map(lambda ms: ms * 10**6),
    "TIMESTAMP(9)": INT64 | st.integers(-(10**12), 10**13).map(lambda s: s * 10**9),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.integers(-(10**9), 10**15).map(lambda us: us * 1000),
    "STRING": st.text(max_size=12),
    "BYTES": st.binary(max_size=12),
}


def printed_both_ways(rows, types):
    many = row_texts(pa.array([serialize_row(r, types) for r in rows], pa.binary()), types)
    assert [texts.type for texts in many] == [pa.string()] * len(types)
    single = [[java_text(row[i], t) for row in rows] for i, t in enumerate(types)]
    return [texts.to_pylist() for texts in many], single


def test_single_floats_have_no_exponent_below_ten_million():
    many, single = printed_both_ways(
        [(1e6,), (1234567.5,), (9999999.0,), (1e7,)], [parse_type("FLOAT")]
    )
    assert many == single == [["1000000.0", "1234567.5", "9999999.0", "1.0E7"]]


@pytest.mark.parametrize("type_text", VALUES)
def test_many_values_are_printed_as_each_is(type_text):
    types = [parse_type(type_text)]

    @UNHURRIED
    @given(st.lists(st.none() | VALUES[type_text], max_size=8))
    def check(values):
        many, single = printed_both_ways([(v,) for v in values], types)
        assert many == single

    check()


@UNHURRIED
@given(st.data())
def test_fields_of_one_row_do_not_touch_each_other(data):
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    rows = data.draw(st.lists(st.tuples(*(st.none() | VALUES[n] for n in names)), max_size=4))
    many, single = printed_both_ways(rows, [parse_type(name) for name in names])
    assert many == single


def test_a_row_that_is_none_of_the_types_is_damage():
    types = [parse_type("INT"), parse_type("STRING")]
    fine = serialize_row((1, "a"), types)
    for bad in (fine[:20], serialize_row((1,), types[:1]), fine[:-8] + b"\xff" + fine[-7:]):
        with pytest.raises(CorruptError):
            row_texts(pa.array([fine, bad], pa.binary()), types)


def test_no_fields_are_no_texts():
    assert row_texts(pa.array([serialize_row((), ())], pa.binary()), []) == []
    assert concat_texts(pa.array(["[", "["]), "]").to_pylist() == ["[]", "[]"]
