"""The first snapshot for which a condition fails."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from tidelake import InvalidInputError, NotFoundError, col


@pytest.fixture
def table(catalog):
    """Snapshot n adds a row n; from 23 on a negative one is among them."""
    made = catalog.create_table("db.t", pa.schema({"n": pa.int64()}))
    for n in range(1, 41):
        made.write([{"n": n if n != 23 else -n}])
    return made


def test_the_first_bad_snapshot_is_found_in_few_reads(table):
    found = table.bisect("n >= 0")
    assert (found.first_bad, found.last_good) == (23, 22)
    assert len(found.checked) <= 2 + math.ceil(math.log2(40))
    assert found.checked[:2] == ((40, False), (1, True))
    assert all(holds == (number < 23) for number, holds in found.checked)


@pytest.mark.parametrize("first_bad", [2, 3, 17, 39, 40])
def test_any_place_is_found_by_a_function(table, first_bad):
    found = table.bisect(lambda version: version.count() < first_bad)
    assert (found.first_bad, found.last_good) == (first_bad, first_bad - 1)


def test_ends_that_are_all_good_or_all_bad_are_said(table):
    assert table.bisect(col("n") < 100).first_bad is None
    assert table.bisect("n > 1").last_good is None
    assert table.bisect("n > 1").first_bad == 1
    assert "fails from 23" in repr(table.bisect("n >= 0", good=20, bad=30))
    assert len(table.bisect("n >= 0", good=22, bad=23).checked) == 2
    table.tags.create("fine", snapshot_id=22)
    assert table.bisect("n >= 0", good="fine").first_bad == 23


def test_a_null_contradicts_nothing(catalog):
    table = catalog.create_table("db.nulls", pa.schema({"n": pa.int64()}))
    table.write([{"n": None}])
    assert table.bisect("n >= 0").first_bad is None


def test_what_is_no_condition_is_refused(table, catalog):
    with pytest.raises(InvalidInputError, match="takes a function"):
        table.bisect(None)
    with pytest.raises(InvalidInputError, match="no snapshot between 30 and 20"):
        table.bisect("n >= 0", good=30, bad=20)
    with pytest.raises(NotFoundError):
        table.bisect("m >= 0")
    empty = catalog.create_table("db.empty", pa.schema({"n": pa.int64()}))
    with pytest.raises(InvalidInputError, match="no snapshot between"):
        empty.bisect("n >= 0")


def test_a_condition_is_one_on_the_current_columns(catalog):
    table = catalog.create_table("db.evolved", pa.schema({"v": pa.int64()}))
    table.write([{"v": 1}])
    table.write([{"v": 20}])
    table.rename_column("v", "w")
    table.add_column("x", "INT")
    table.write([{"w": 3, "x": 4}])
    assert table.bisect("w < 9").first_bad == 2
    assert table.bisect("x < 4").first_bad == 3
