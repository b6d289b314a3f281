import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.types.strategies import cells, data_types, values

from tidelake.errors import InvalidInputError
from tidelake.types import TypeRoot, parse_type
from tidelake.types.arrow import to_arrow_type
from tidelake.types.values import (
    arrow_to_storage,
    exact_position,
    from_storage,
    parse_timestamp,
    position_bounds,
    storage_to_arrow,
    to_storage,
)

TZ = dt.timezone(dt.timedelta(hours=2))
NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
NOON_NANOS = 1_709_208_000_123_456_000


@pytest.mark.parametrize(
    ("value", "type_text", "stored"),
    [
        (True, "BOOLEAN", True),
        (np.bool_(False), "BOOLEAN", False),
        (5, "TINYINT", 5),
        (np.int64(-5), "BIGINT", -5),
        (5.0, "INT", 5),
        (Decimal("5.00"), "INT", 5),
        (0.1, "DOUBLE", 0.1),
        (0.1, "FLOAT", 0.10000000149011612),
        (3, "DOUBLE", 3.0),
        (Decimal("-12.34"), "DECIMAL(10, 2)", -1234),
        (1.1, "DECIMAL(10, 2)", 110),
        (7, "DECIMAL(38, 10)", 70_000_000_000),
        (Decimal("9" * 28 + "." + "9" * 10), "DECIMAL(38, 10)", 10**38 - 1),
        ("é", "STRING", "é"),
        (b"\0", "BYTES", b"\0"),
        (bytearray(b"a"), "BINARY(3)", b"a"),
        (dt.date(1969, 12, 31), "DATE", -1),
        ("2022-01-08", "DATE", 19000),
        (np.datetime64("2022-01-08"), "DATE", 19000),
        (dt.time(0, 0, 1, 500_000), "TIME(3)", 1500),
        ("00:00:01", "TIME", 1000),
        (NOON, "TIMESTAMP(6)", NOON_NANOS),
        (NOON.replace(microsecond=0), "TIMESTAMP(0)", NOON_NANOS - 123_456_000),
        (dt.date(1970, 1, 2), "TIMESTAMP(3)", 86_400 * 10**9),
        ("1970-01-01 00:00:00.000000001", "TIMESTAMP(9)", 1),
        (np.datetime64(-1, "ns"), "TIMESTAMP(9)", -1),
        (NOON.replace(tzinfo=TZ), "TIMESTAMP_LTZ(6)", NOON_NANOS - 7200 * 10**9),
        ("2024-02-29T12:00:00.123456+02:00", "TIMESTAMP_LTZ(6)", NOON_NANOS - 7200 * 10**9),
        ("2024-02-29T12:00:00.123456Z", "TIMESTAMP_LTZ(6)", NOON_NANOS),
        (None, "INT", None),
    ],
)
def test_plain_values_are_stored(value, type_text, stored):
    result = to_storage(value, parse_type(type_text))
    assert result == stored
    assert type(result) is type(stored)


@pytest.mark.parametrize(
    ("value", "type_text"),
    [
        (1, "BOOLEAN"),
        (True, "INT"),
        (True, "DOUBLE"),
        ("1", "INT"),
        (128, "TINYINT"),
        (1.5, "INT"),
        (math.nan, "INT"),
        (math.inf, "BIGINT"),
        (1 << 63, "BIGINT"),
        (Decimal("1.001"), "DECIMAL(10, 2)"),
        (Decimal("NaN"), "DECIMAL(10, 2)"),
        (10**8, "DECIMAL(10, 2)"),
        (1e300, "FLOAT"),
        (10**400, "DOUBLE"),
        (b"a", "STRING"),
        ("\ud800", "STRING"),
        ("a", "BYTES"),
        ("2024-13-01", "DATE"),
        (NOON, "DATE"),
        (dt.time(0, 0, 0, 1), "TIME(3)"),
        (dt.time(0, 0, tzinfo=TZ), "TIME(3)"),
        (NOON, "TIMESTAMP(3)"),
        (NOON, "TIMESTAMP_LTZ(6)"),
        (NOON.replace(tzinfo=TZ), "TIMESTAMP(6)"),
        ("2024-01-01", "TIMESTAMP_LTZ(6)"),
        ("2024-01-01 00:00:00Z", "TIMESTAMP(6)"),
        (np.datetime64("NaT"), "TIMESTAMP(6)"),
        (5, "TIMESTAMP(6)"),
        (dt.datetime(2900, 1, 1), "TIMESTAMP(9)"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_type(value, type_text):
    with pytest.raises(InvalidInputError) as caught:
        to_storage(value, parse_type(type_text))
    assert str(parse_type(type_text)) in caught.value.message
    assert caught.value.kind == "value_type"


@given(st.data())
def test_plain_form_and_arrow_form_come_back(data):
    data_type = data.draw(data_types)
    stored = data.draw(st.lists(cells(data_type), max_size=5))
    array = storage_to_arrow(stored, data_type)
    assert array.type == to_arrow_type(data_type)
    assert repr(arrow_to_storage(array, data_type)) == repr(stored)
    chunked = pa.chunked_array([array.slice(0, 2), array.slice(2)])
    assert repr(arrow_to_storage(chunked, data_type)) == repr(stored)
    for value in stored:
        again = to_storage(from_storage(value, data_type), data_type)
        assert repr(again) == repr(value)


@given(st.data())
def test_storage_values_compare_as_arrow_values_do(data):
    data_type = data.draw(
        data_types.filter(lambda t: t.root not in {TypeRoot.FLOAT, TypeRoot.DOUBLE})
    )
    a, b = data.draw(values(data_type)), data.draw(values(data_type))
    array = storage_to_arrow([a, b], data_type)
    assert pa.compute.less(array[0], array[1]).as_py() == (a < b)


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_date_has_a_plain_form(days):
    plain = from_storage(days, parse_type("DATE"))
    assert isinstance(plain, dt.date | np.datetime64)
    assert to_storage(plain, parse_type("DATE")) == days


def test_nanoseconds_are_numpy_times():
    assert from_storage(1, parse_type("TIMESTAMP(9)")) == np.datetime64(1, "ns")
    assert from_storage(1000, parse_type("TIMESTAMP(6)")) == dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    assert from_storage(0, parse_type("TIMESTAMP_LTZ(3)")) == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("1970-01-02", (86_400 * 10**9, False)),
        ("1970-1-2 1:02", (86_400 * 10**9 + 3720 * 10**9, False)),
        ("1969-12-31T23:59:59.999999999", (-1, False)),
        ("1970-01-01 00:00:00-0130", (5400 * 10**9, True)),
        ("1970-01-01 00:00:00 UTC", (0, True)),
        ("1970-01-01T00:00:00.0000000001", None),
        ("1970-02-30", None),
        ("1970-01-01 24:00:00", None),
        ("1970-01-01 00:00:00+19:00", None),
        ("now", None),
    ],
)
def test_timestamp_text(text, parsed):
    assert parse_timestamp(text) == parsed


@given(st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)))
def test_timestamp_text_of_python_is_read(moment):
    stored = to_storage(moment, parse_type("TIMESTAMP(6)"))
    assert to_storage(moment.isoformat(sep=" "), parse_type("TIMESTAMP(6)")) == stored


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-9, max_value=9))
def test_a_place_between_values_is_exact(number):
    assert exact_position(number, parse_type("DECIMAL(5, 1)")) == Fraction(number) * 10


def test_bounds_of_a_decimal_are_its_digits():
    assert position_bounds(parse_type("DECIMAL(5, 1)")) == (-99_999, 99_999, 1)


def test_storage_values_that_do_not_fit_arrow_are_refused():
    for bad, type_text in ((1 << 40, "INT"), (10**40, "DECIMAL(10, 2)"), ("a", "DATE")):
        with pytest.raises(InvalidInputError, match="do not fit"):
            storage_to_arrow([bad], parse_type(type_text))
