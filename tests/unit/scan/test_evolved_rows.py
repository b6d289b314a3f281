"""Tables with data evolution: the columns of a row lie in several files."""

from __future__ import annotations

import numpy as np
import pytest
from proving.evolved_tables import evolve, make

import tidelake
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.scan.evolved_rows import row_groups

ROWS = 200_000


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(str(tmp_path))


def test_each_column_comes_from_the_newest_file_that_has_it(catalog):
    table = make(catalog)
    evolve(table, 0, a=[10, 11, 12, 13])
    evolve(table, 0, b=[20, None, 22, 23], a=[30, 31, 32, 33])
    rows = table.to_arrow().sort_by("id").to_pylist()
    assert rows[:2] == [{"id": 0, "a": 30, "b": 20}, {"id": 1, "a": 31, "b": None}]
    assert table.count() == 4
    assert table.to_arrow(columns=["b"])["b"].to_pylist() == [20, None, 22, 23]
    # statistics of the oldest file say that a is at most 3
    assert table.to_arrow(columns=["id"], where="a > 31 AND id < 3")["id"].to_pylist() == [2]
    view = catalog.table("db.t").system_table("row_tracking").to_arrow(where="_ROW_ID = 3")
    assert view.to_pylist() == [{"id": 3, "a": 33, "b": 23, "_ROW_ID": 3, "_SEQUENCE_NUMBER": 3}]


def test_many_rows_of_files_with_other_batches_stay_side_by_side(catalog):
    table = make(catalog, ROWS)
    evolve(table, 0, b=np.arange(ROWS) * 2)
    found = table.to_arrow()
    assert found["b"].to_numpy().tolist() == (found["id"].to_numpy() * 2).tolist()
    assert found.num_rows == ROWS


def test_writes_and_changes_one_by_one_are_refused(catalog):
    table = make(catalog)
    evolve(table, 0, a=[1, 1, 1, 1])
    for write in (
        lambda: table.write([{"id": 1, "a": 1, "b": 1}]),
        lambda: table.update({"a": 2}, "id = 1"),
        lambda: table.delete("id = 1"),
        lambda: table.compact(full=True),
    ):
        with pytest.raises(UnsupportedError, match="does not write"):
            write()
    assert table.count() == 4


def test_a_file_of_all_columns_is_an_update_too_so_changes_are_refused(catalog):
    table = make(catalog)
    evolve(table, 0, id=[0, 1, 2, 3], a=[9] * 4, b=[8] * 4)
    assert table.to_arrow()["a"].to_pylist() == [9] * 4
    view = catalog.table("db.t").system_table("audit_log")
    for read in (
        lambda: table.changes(1),
        lambda: table.diff(1, 2).counts(),
        lambda: next(iter(table.stream())),
        lambda: view.changes(1),
    ):
        with pytest.raises(UnsupportedError, match="data evolution"):
            read()
    assert view.to_arrow().num_rows == 4


def test_files_that_overlap_are_damage(catalog):
    table = make(catalog)
    evolve(table, 2, a=[1, 1])
    with pytest.raises(CorruptError, match="manifests are damaged"):
        table.to_arrow()
    assert row_groups([]) == []
