"""A task of a merge sees keys that are changed twice, or changed and inserted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.spark.rowlevel.merge_cardinality import TOO_MANY_KEYS, KeysOnce
from tidelake.types import DataField, RowKind, parse_type

KEYS = (
    DataField(0, "a", parse_type("STRING NOT NULL")),
    DataField(1, "b", parse_type("INT NOT NULL")),
)
INSERT, UPDATE, DELETE = map(int, (RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE))


def batch(*rows):
    a, b, kinds = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [pa.array(a, pa.string()), pa.array(b, pa.int32()), pa.array([0] * len(a))]
    names = ["a", "b", "v", "_row_kind"]
    return pa.RecordBatch.from_arrays([*columns, pa.array(kinds, pa.int8())], names=names)


def test_rows_go_through_as_they_are():
    given = [batch(("x", 1, UPDATE), ("xx", 1, DELETE)), batch(), batch(("x", 2, INSERT))]
    assert list(KeysOnce("db.t", KEYS).through(iter(given))) == given
    assert list(KeysOnce("db.t", KEYS).through(iter([]))) == []


def test_a_key_may_be_inserted_several_times():
    given = [batch(("x", 1, INSERT), ("x", 1, INSERT), ("y", 1, UPDATE)), batch(("x", 1, INSERT))]
    assert len(list(KeysOnce("db.t", KEYS).through(iter(given)))) == 2


@pytest.mark.parametrize(
    ("kinds", "kind", "message"),
    [
        ((UPDATE, UPDATE), "merge_row_twice", "2 rows of the source match one row {'a': 'x'"),
        ((UPDATE, DELETE, UPDATE), "merge_row_twice", "3 rows of the source"),
        ((INSERT, UPDATE), "merge_key_twice", "The key {'a': 'x', 'b': 1} of table 'db.t'"),
        ((DELETE, INSERT), "merge_key_twice", "inserted by one row"),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_a_key_that_comes_twice_is_refused_after_all_rows(kinds, kind, message, cut):
    rows = [("x", 1, k) for k in kinds]
    # a longer key in a later batch, and rows between
    others = [("x" * 30, n, UPDATE) for n in range(5)]
    given = [batch(*rows[:1]), batch(*others), batch(*rows[1:])] if cut else [batch(*rows, *others)]
    through = KeysOnce("db.t", KEYS).through(iter(given))
    for expected in given:
        assert next(through) == expected
    with pytest.raises(InvalidInputError, match=message.replace("{", r"\{")) as raised:
        next(through)
    assert raised.value.kind == kind


def test_keys_beyond_the_bound_are_not_kept():
    through = KeysOnce("db.t", KEYS, bytes_max=60).through(
        batch((f"key {n}", n, UPDATE)) for n in range(10)
    )
    with pytest.raises(UnsupportedError) as raised:
        list(through)
    assert raised.value.kind == TOO_MANY_KEYS
