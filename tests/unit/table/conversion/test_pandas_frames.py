"""What pandas' own types would change is kept by nullable ones."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import tidelake
from tidelake.fileio import MemoryFileIO

ODD = 2**53 + 1


@pytest.fixture
def made():
    catalog = tidelake.open("/w", fileio=MemoryFileIO())

    def make(data_type, values):
        name = f"db.t{len(catalog.list_tables('db')) if catalog.list_databases() else 0}"
        table = catalog.create_table(name, {"v": data_type})
        table.write([{"v": value} for value in values])
        return table

    return make


@pytest.mark.parametrize(
    ("data_type", "dtype"),
    [("TINYINT", "Int8"), ("SMALLINT", "Int16"), ("INT", "Int32"), ("BIGINT", "Int64")],
)
def test_integers_beside_nulls_are_nullable_integers(made, data_type, dtype):
    frame = made(data_type, [7, None]).to_pandas()
    assert str(frame.dtypes["v"]) == dtype
    assert frame["v"].tolist() == [7, pd.NA]


def test_integers_without_nulls_are_numpys(made):
    assert made("BIGINT", [ODD]).to_pandas().dtypes["v"] == np.int64


def test_a_frame_with_nulls_is_written_back_as_it_was(made):
    table = made("BIGINT", [ODD, None])
    frame = table.to_pandas()
    table.write(frame)
    assert table.to_arrow()["v"].to_pylist() == [ODD, None, ODD, None]


def test_a_nan_is_no_null(made):
    table = made("DOUBLE", [math.nan, None, 0.5])
    table.write(table.to_pandas())
    values = table.to_arrow()["v"].to_pylist()
    assert values[1::3] == [None, None]
    assert all(math.isnan(value) for value in values[::3])
    assert made("DOUBLE", [None, 0.5]).to_pandas().dtypes["v"] == np.float64


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("ARRAY<BIGINT>", [ODD, None]),
        ("ROW<a BIGINT>", {"a": ODD}),
        ("ROW<a ARRAY<BIGINT>>", {"a": [ODD, None]}),
        ("ARRAY<ROW<a BIGINT>>", [{"a": ODD}, {"a": None}]),
        ("MAP<STRING, BIGINT>", [("a", ODD), ("b", None)]),
    ],
)
def test_integers_inside_values_are_kept(made, data_type, value):
    none = {"a": None} if isinstance(value, dict) else None
    table = made(data_type, [value, none])
    table.write(table.to_pandas())
    assert table.to_arrow()["v"].to_pylist() == [value, none] * 2


def test_a_types_mapper_comes_first(made):
    table = made("BIGINT", [ODD, None])
    assert table.to_pandas(types_mapper=pd.ArrowDtype).dtypes["v"].kind == "i"
    assert table.to_pandas(types_mapper=lambda _: None).dtypes["v"] == "Int64"
