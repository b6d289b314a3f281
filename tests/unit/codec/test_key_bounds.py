"""Ranges of keys: even for a sample, and the same for rows of any batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.codec.key_bounds import KeyBounds
from tidelake.types import parse_type


def test_rows_go_to_the_range_of_their_key_whatever_the_length_of_texts():
    types = [parse_type("STRING"), parse_type("INT")]
    rng = np.random.default_rng(3)

    def drawn(count, longest):
        texts = ["x" * n for n in rng.integers(0, longest, count)]
        numbers = pa.array(rng.integers(0, 9, count), pa.int32(), mask=rng.random(count) < 0.1)
        return [pa.array(texts), numbers]

    bounds = KeyBounds.of_sample(drawn(500, 20), types, ranges_count=8)
    seen = []
    for longest in (3, 60):
        columns = drawn(400, longest)
        keys = list(zip(columns[0].to_pylist(), columns[1].to_pylist(), strict=True))
        rows = []
        for number, positions in bounds.cut(columns):
            assert positions.tolist() == sorted(positions.tolist())
            seen += [(number, *nulls_first(keys[p])) for p in positions]
            rows += positions.tolist()
        assert sorted(rows) == list(range(400))
    seen.sort(key=lambda row: row[1:])
    numbers = [row[0] for row in seen]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(bounds.ranges_count))


def nulls_first(key):
    return key[0], key[1] is not None, key[1] or 0


def test_a_key_that_fills_the_sample_bounds_one_range():
    types = [parse_type("BIGINT")]
    assert KeyBounds.of_sample([pa.array([4] * 50)], types, ranges_count=9).ranges_count == 2
    assert KeyBounds.of_sample([pa.array([], pa.int64())], types, ranges_count=9).ranges_count == 1
