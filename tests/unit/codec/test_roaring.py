from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap
from sizes import examples

from tidelake.codec.roaring import decode, encode_groups, encode_one, union
from tidelake.errors import CorruptError

SPARSE = st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=30)
RUNS = st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 9_000)), min_size=1, max_size=5)


def sorted_array(positions) -> np.ndarray:
    return np.array(sorted(positions), np.int64)


@settings(max_examples=25)
@given(
    st.lists(SPARSE | RUNS.map(lambda r: {p for s, n in r for p in range(s, s + n)}), max_size=4)
)
def test_groups_come_back_as_they_were(groups):
    arrays = [sorted_array(g) for g in groups]
    numbers = np.repeat(np.arange(len(arrays)), [len(a) for a in arrays])
    positions = np.concatenate([*arrays, np.zeros(0, np.int64)])
    data, lengths = encode_groups(numbers, positions)
    start = 0
    for array, length in zip(arrays, lengths.tolist(), strict=True):
        found, end = decode(data, start)
        assert found.tolist() == array.tolist()
        assert end == start + length
        assert data[start:end] == encode_one(array)
        start = end
    assert start == len(data)


def test_every_kind_of_container_is_of_the_size_that_the_format_says():
    def size(positions):
        return len(encode_one(np.asarray(positions, np.int64)))

    assert size([]) == 8
    assert size([3, 9]) == 8 + 8 + 4
    assert size(range(100)) == 4 + 1 + 4 + 2 + 4  # one run
    assert size(np.arange(0, 20_000, 2)) == 8 + 8 + 8192  # a bitset
    assert size([0, *range(65_536, 65_636)]) == 4 + 1 + 2 * 4 + 2 + (2 + 4)
    assert size(np.arange(0, 5 * 65_536, 65_536)) == 8 + 5 * 8 + 5 * 2


@settings(max_examples=examples(60))
@given(st.data())
def test_changed_bytes_are_refused_or_give_positions_in_order(data):
    positions = sorted_array(data.draw(SPARSE)) if data.draw(st.booleans()) else np.arange(5_000)
    encoded = bytearray(encode_one(positions))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found, end = decode(bytes(encoded[: data.draw(st.integers(0, len(encoded)))]))
    except CorruptError:
        return
    assert (np.diff(found) > 0).all()
    assert end <= len(encoded)


def test_a_bitmap_that_is_cut_off_is_damaged():
    with pytest.raises(CorruptError, match="damaged"):
        decode(encode_one(np.arange(0, 100, 3))[:-1])


def test_a_bitmap_of_more_rows_than_there_are_is_damaged_before_they_are_made():
    every_row = BitMap()
    every_row.add_range(0, 2**32)
    every_row.run_optimize()
    everything = every_row.serialize()
    assert len(everything) < 1_000_000
    with pytest.raises(CorruptError, match="names row 4294967295 of 1000000"):
        decode(everything, rows=1_000_000)
    with pytest.raises(CorruptError, match="names row 9 of 9"):
        decode(encode_one(np.arange(10)), rows=9)


def test_a_header_that_does_not_describe_its_containers_is_damaged():
    encoded = bytearray(encode_one(np.arange(0, 100, 3)))
    encoded[12] ^= 1  # where the container begins, which a library may not look at
    with pytest.raises(CorruptError, match="header does not describe"):
        decode(bytes(encoded))


def test_a_union_is_written_in_the_smallest_form():
    parts = [encode_one(np.arange(n, 20_000, 4)) for n in range(4)]
    assert union(parts) == encode_one(np.arange(20_000))
    assert len(union(parts)) == 4 + 1 + 4 + 2 + 4
    with pytest.raises(CorruptError, match="damaged"):
        union([parts[0], b""])
