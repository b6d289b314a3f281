from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidelake.codec.arrow_memory import joined, rows_replaced, take_rows, valid_rows

COUNT = 5000


def columns():
    rng = np.random.default_rng(3)
    hashes = pa.array([f"{rng.integers(2**60):016x}" for _ in range(COUNT)])
    return {
        "one length": hashes,
        "one length, sliced": pa.concat_arrays([pa.array(["x"]), hashes]).slice(1),
        "binary": hashes.cast(pa.binary()),
        "large": hashes.cast(pa.large_string()),
        "empty strings": pa.array([""] * COUNT),
        "late change": pa.concat_arrays([hashes, pa.array(["short", "long" * 6 + "abc"])]),
        "same sum, other lengths": pa.array(["ab", "abcd", "abc"] * COUNT),
        "nulls": pa.array(["abc", None] * COUNT),
        "numbers": pa.array(rng.integers(0, 9, COUNT)),
    }


@pytest.mark.parametrize("kind", columns())
@pytest.mark.parametrize("count", [0, 10, COUNT, 3 * COUNT])
def test_rows_taken_are_those_that_arrow_takes(kind, count):
    column = columns()[kind]
    positions = np.random.default_rng(5).integers(0, len(column), count)
    taken = take_rows(column, positions)
    assert taken.equals(column.take(pa.array(positions)))
    taken.validate(full=True)


def columns_with_nulls():
    rng = np.random.default_rng(7)
    numbers = pa.array(rng.integers(-99, 99, COUNT), mask=rng.random(COUNT) < 0.3)
    texts = pa.array([f"{n}" * (1 + n % 3) for n in range(COUNT)], mask=rng.random(COUNT) < 0.3)
    lists = pa.array([None if n % 3 == 0 else [n] * (n % 4) for n in range(COUNT)])
    return {
        "int8": numbers.cast(pa.int8()),
        "int64": numbers,
        "double": numbers.cast(pa.float64()),
        "bool": pc.greater(numbers, 0),
        "date": numbers.cast(pa.int32()).cast(pa.date32()),
        "timestamp": numbers.cast(pa.timestamp("us")),
        "decimal": numbers.cast(pa.decimal128(38, 2)),
        "text": texts,
        "large text": texts.cast(pa.large_string()),
        "binary": texts.cast(pa.binary()),
        "text without nulls": texts.fill_null(""),
        "text of one length": pa.array([f"{n:016x}" for n in range(COUNT)]),
        "text of one length or null": pc.if_else(
            numbers.is_null(), None, pa.array([f"{n:016x}" for n in range(COUNT)])
        ),
        "fixed binary": pa.array([None, b"abc", b"def"] * COUNT, pa.binary(3)),
        "dictionary": texts.dictionary_encode(),
        "lists": lists,
        "structs": pa.StructArray.from_arrays([numbers, texts], names=["a", "b"]),
        "structs with nulls": pa.StructArray.from_arrays(
            [numbers, texts], names=["a", "b"], mask=numbers.is_null()
        ),
        "dictionary with a null value": pa.DictionaryArray.from_arrays(
            pa.array([0, None, 1] * COUNT), pa.array(["a", None])
        ),
        "all null": pa.nulls(COUNT, pa.int32()),
        "of type null": pa.nulls(COUNT),
        "no null": pa.array(range(COUNT)),
    }


@pytest.mark.parametrize("kind", columns_with_nulls())
@pytest.mark.parametrize("start", [0, 3, 8])
@pytest.mark.parametrize("near", [False, True])
def test_rows_with_nulls_are_those_that_arrow_takes(kind, start, near):
    column = columns_with_nulls()[kind].slice(start, COUNT - 20)
    positions = np.random.default_rng(5).integers(0, len(column), COUNT)
    taken = take_rows(column, positions, near=near)
    assert taken.equals(column.take(pa.array(positions)))
    taken.validate(full=True)


@pytest.mark.parametrize("kind", columns_with_nulls())
@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("near", [False, True])
def test_no_position_gives_null(kind, start, near):
    column = columns_with_nulls()[kind].slice(start)
    positions = np.random.default_rng(5).integers(-3, len(column), COUNT)
    positions[:9] = -1
    taken = take_rows(column, positions, near=near, or_null=True)
    assert taken.equals(column.take(pa.array(positions, mask=positions < 0)))
    taken.validate(full=True)


@pytest.mark.parametrize("kind", columns_with_nulls())
def test_no_positions_at_all(kind):
    empty = columns_with_nulls()[kind].slice(0, 0)
    assert take_rows(empty, np.full(3, -1), or_null=True).to_pylist() == [None] * 3
    assert take_rows(empty, np.zeros(0, np.int64)).to_pylist() == []


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("others", [["b", None], ["b", "c"]])
def test_no_position_copies_no_text(near, others):
    column = pa.array(["x" * 1000, *others])
    taken = take_rows(column, np.full(500, -1), near=near, or_null=True)
    assert taken.null_count == 500
    assert taken.buffers()[2] is None or taken.buffers()[2].size < 1000


@pytest.mark.parametrize("near", [False, True])
def test_values_under_a_null_are_no_rows(near):
    """Texts of one length everywhere, under nulls as well."""
    count = 3000
    offsets = pa.py_buffer(np.arange(0, 2 * count + 1, 2, dtype=np.int32))
    validity = pa.py_buffer(np.packbits(np.arange(count) % 3 > 0, bitorder="little"))
    hidden = pa.Array.from_buffers(
        pa.string(), count, [validity, offsets, pa.py_buffer(b"ab" * count)]
    )
    taken = take_rows(hidden, np.arange(count)[::-1], near=near)
    assert taken.to_pylist() == [None if at % 3 == 0 else "ab" for at in range(count)[::-1]]


@pytest.mark.parametrize("kind", columns_with_nulls())
@pytest.mark.parametrize("start", [0, 1, 8, 13])
def test_valid_rows_are_those_of_arrow(kind, start):
    column = columns_with_nulls()[kind].slice(start, COUNT - 20)
    valid = valid_rows(column)
    if not column.null_count:
        assert valid is None
    else:
        assert valid.dtype == np.bool_
        assert valid.tolist() == column.is_valid().to_pylist()


JOINED = {
    "numbers": pa.array([1, None, 3, 4, 5]),
    "text": pa.array(["a", "bc", None, "", "def"]),
    "truth": pa.array([True, None, False, True, True]),
    "lists": pa.array([[1], [], None, [2, 3], [4]]),
    "dictionary": pa.array(["a", "b", "a", None, "b"]).dictionary_encode(),
    "nothing": pa.nulls(5),
}


@pytest.mark.parametrize("kind", JOINED)
@pytest.mark.parametrize("cuts", [(0, 2, 5), (1, 2, 2, 4), (0, 5), (3, 3)])
def test_neighbours_are_joined_to_what_they_were_cut_from(kind, cuts):
    column = JOINED[kind]
    parts = [column.slice(a, b - a) for a, b in itertools.pairwise(cuts)]
    whole = joined(parts)
    assert whole.equals(column.slice(cuts[0], cuts[-1] - cuts[0]))
    whole.validate(full=True)


@pytest.mark.parametrize("kind", JOINED)
def test_chunks_that_are_no_neighbours_are_put_together(kind):
    column = JOINED[kind]
    parts = [column.slice(3), column.slice(0, 2), column.slice(3, 1)]
    assert joined(parts).equals(pa.concat_arrays(parts))
    copy = pa.concat_arrays([column, column])
    assert joined([column.slice(0, 2), copy.slice(2, 3)]).equals(column)


def test_neighbours_are_not_copied():
    column = JOINED["numbers"]
    whole = joined([column.slice(1, 2), column.slice(3, 2)])
    assert whole.buffers()[1].address == column.buffers()[1].address


REPLACED = {
    "int8": pa.array([1, 2, 3, 4], pa.int8()),
    "int32": pa.array([1, None, 3, 4], pa.int32()),
    "double": pa.array([0.5, -0.0, float("nan"), None]),
    "decimal": pa.array(["1.25", None, "-3.00", "9.99"]).cast(pa.decimal128(5, 2)),
    "timestamp": pa.array([1, 2, None, 4], pa.timestamp("us")),
    "bool": pa.array([True, None, False, True]),
    "text": pa.array(["a", "bc", None, ""]),
    "list": pa.array([[1], None, [], [2, 3]]),
    "bytes of 3": pa.array([b"abc", None, b"def", b"ghi"], pa.binary(3)),
    "no nulls": pa.array([7, 8, 9, 10]),
}


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("kind", REPLACED)
def test_replaced_rows_are_those_of_a_loop(kind, start, nulls):
    column = REPLACED[kind].slice(start)
    own = column.slice(0, 2) if nulls else column.drop_null().slice(0, 2)
    positions, at = np.array([2, 0, 1, 1, 2]), np.array([3, 0])
    wanted = [column[int(p)].as_py() for p in positions]
    for place, value in zip(at, own.to_pylist(), strict=True):
        wanted[place] = value
    found = rows_replaced(column, positions, at, own)
    found.validate(full=True)
    assert found.type == column.type
    assert repr(found.to_pylist()) == repr(wanted)
    none = np.zeros(0, np.int64)
    kept = rows_replaced(column, positions, none, own.slice(0, 0))
    assert repr(kept.to_pylist()) == repr([column[int(p)].as_py() for p in positions])


@pytest.mark.parametrize("kind", ["int32", "text", "bool"])
def test_rows_of_an_empty_column_are_all_replaced(kind):
    none = np.zeros(0, np.int64)
    column = REPLACED[kind].slice(0, 0)
    assert len(rows_replaced(column, none, none, column)) == 0
