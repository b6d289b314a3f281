"""Values that were not sent are found in the batch or in the table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.cdc.target.unchanged import fill_unchanged
from tidelake.types import RowKind

INSERT, UPDATE, DELETE = RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE
SAME = object()


def filled(changes, stored):
    """Changes are (kind, key, value, key before); gives the values, None for a row left out."""
    keys = [key for _, key, _, _ in changes]
    before = [old for _, _, _, old in changes]
    values = [None if value is SAME else value for _, _, value, _ in changes]
    asked = []

    def find(wanted, columns):
        assert columns == ["v"]
        found = wanted.column("k").to_pylist()
        asked.extend(found)
        there = [key if key in stored else None for key in found]
        return pa.table({"k": pa.array(there, pa.int64()), "v": [stored.get(key) for key in found]})

    result = fill_unchanged(
        pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.string())}),
        np.array([int(kind) for kind, *_ in changes], np.int8),
        {"v": np.array([value is SAME for _, _, value, _ in changes])},
        pa.table({"k": pa.array(before, pa.int64())}),
        find,
    )
    out = result.rows.column("v").to_pylist()
    for row in result.missing.tolist():
        out[row] = "left out"
    return out, asked


def test_a_value_that_was_not_sent_is_that_of_the_table():
    assert filled([(UPDATE, 1, SAME, 1), (UPDATE, 2, "b", 2)], {1: "a"}) == (["a", "b"], [1])


def test_an_earlier_row_of_the_batch_is_newer_than_the_table():
    changes = [(UPDATE, 1, "new", 1), (UPDATE, 1, SAME, 1), (UPDATE, 1, SAME, 1)]
    assert filled(changes, {1: "old"}) == (["new", "new", "new"], [])


def test_a_filled_value_serves_the_rows_after_it():
    changes = [(UPDATE, 1, SAME, 1), (UPDATE, 1, SAME, 1)]
    assert filled(changes, {1: "old"}) == (["old", "old"], [1])


def test_a_row_whose_key_changed_takes_the_value_of_its_old_key():
    changes = [(DELETE, 1, None, 1), (UPDATE, 7, SAME, 1)]
    assert filled(changes, {1: "a", 7: "of another"}) == ([None, "a"], [1])


def test_a_key_that_moves_twice_in_a_batch_keeps_its_value():
    changes = [
        (UPDATE, 1, "new", 1),
        (DELETE, 1, None, 1),
        (UPDATE, 2, SAME, 1),
        (DELETE, 2, None, 2),
        (UPDATE, 3, SAME, 2),
    ]
    assert filled(changes, {1: "old"}) == (["new", None, "new", None, "new"], [])


def test_two_keys_that_change_places_keep_their_values():
    changes = [
        (DELETE, 1, None, 1),
        (UPDATE, 9, SAME, 1),
        (DELETE, 2, None, 2),
        (UPDATE, 1, SAME, 2),
        (DELETE, 9, None, 9),
        (UPDATE, 2, SAME, 9),
    ]
    assert filled(changes, {1: "a", 2: "b"}) == ([None, "a", None, "b", None, "a"], [1, 2])


def test_a_null_in_the_table_is_a_value():
    assert filled([(UPDATE, 1, SAME, 1)], {1: None}) == ([None], [1])


def test_a_row_whose_value_is_nowhere_is_left_out_and_so_are_those_that_follow_from_it():
    changes = [(UPDATE, 1, SAME, 1), (UPDATE, 1, SAME, 1), (UPDATE, 1, "new", 1)]
    assert filled(changes, {}) == (["left out", "left out", "new"], [1])
