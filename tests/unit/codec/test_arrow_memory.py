from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelake.codec.arrow_memory import take_rows

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
