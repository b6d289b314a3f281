"""Columns of numbers as numpy arrays, and back."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from tidelake.codec.number_column import (
    has_numbers,
    number_array,
    numbers_at,
    numbers_of_ranks,
    ranks_of_numbers,
)
from tidelake.types import parse_type
from tidelake.types.arrow import to_arrow_type

COLUMNS = {
    "TINYINT": [-128, 127, None, 0],
    "SMALLINT": [-32768, 5, None, 0],
    "INT": [-(2**31), 2**31 - 1, None, 0],
    "BIGINT": [-(2**63), 2**63 - 1, None, 0],
    "DATE": [dt.date(1969, 12, 31), dt.date(2026, 1, 1), None, dt.date(1, 1, 1)],
    "TIMESTAMP(6)": [dt.datetime(1969, 1, 1), dt.datetime(2026, 1, 1), None, dt.datetime(1, 1, 1)],
    "DECIMAL(18, 3)": [decimal.Decimal("-999999999999999.999"), decimal.Decimal("0.001"), None, 0],
    "FLOAT": [-0.0, math.inf, None, 0.5],
    "DOUBLE": [-0.0, -math.inf, None, 1e300],
}


@pytest.mark.parametrize("text", COLUMNS)
@pytest.mark.parametrize("start", [0, 1])
def test_numbers_come_back_as_the_column(text, start):
    data_type = parse_type(text)
    column = pa.array(COLUMNS[text], to_arrow_type(data_type)).slice(start)
    positions = np.array([2, 0, 1, 0])
    numbers, known = numbers_at(column, data_type, positions)
    found = number_array(numbers, known, data_type)
    found.validate(full=True)
    assert repr(found.to_pylist()) == repr(column.take(pa.array(positions)).to_pylist())
    bare, all_known = numbers_at(column.drop_null(), data_type, np.array([0]))
    assert all_known is None
    assert number_array(bare, None, data_type).to_pylist() == column.drop_null()[:1].to_pylist()


@pytest.mark.parametrize("text", COLUMNS)
def test_ranks_give_the_numbers_back(text):
    data_type = parse_type(text)
    column = pa.array(COLUMNS[text], to_arrow_type(data_type)).drop_null()
    numbers, _ = numbers_at(column, data_type, np.arange(len(column)))
    again = numbers_of_ranks(ranks_of_numbers(numbers, data_type), data_type)
    assert again.tobytes() == numbers.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks_of_floats_are_in_their_total_order(dtype):
    data_type = parse_type("FLOAT" if dtype == np.float32 else "DOUBLE")
    rising = np.array([-np.inf, -1.5, -0.0, 0.0, 1e-40, 2.0, np.inf, np.nan], dtype)
    ranks = ranks_of_numbers(rising, data_type)
    assert (np.diff(ranks.astype(object)) > 0).all()
    negative = np.array([np.nan]).astype(dtype)
    assert ranks_of_numbers(-negative, data_type)[0] == ranks[-1]


@pytest.mark.parametrize("text", ["STRING", "BOOLEAN", "DECIMAL(19, 2)", "BINARY(3)"])
def test_other_types_are_no_numbers(text):
    assert not has_numbers(parse_type(text))
