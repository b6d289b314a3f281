from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from tidelake.codec.arrow_memory import joined, take_rows

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
