from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.merge.segments import compact_keys, flush_order

PREFIXED = [b"same-head-aa", b"same-head-ab", b"same-head-b"]
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-4, 4)


@given(st.lists(INTEGERS, max_size=60))
def test_flush_order_is_the_stable_order(values):
    keys = np.array(values, np.int64)
    assert flush_order(keys).tolist() == sorted(range(len(values)), key=values.__getitem__)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 4), max_size=60))
def test_flush_order_of_unsigned_keys_is_the_stable_order(values):
    keys = np.array(values, np.uint64)
    assert flush_order(keys).tolist() == sorted(range(len(values)), key=values.__getitem__)


@given(st.lists(st.binary(min_size=12, max_size=12) | st.sampled_from(PREFIXED), max_size=60))
def test_flush_order_of_wide_keys_is_the_stable_order(values):
    keys = np.array(values, "S12")
    assert flush_order(keys).tolist() == sorted(range(len(values)), key=values.__getitem__)


WIDE_KEYS = {
    "digits": lambda rng: np.array([b"%08d" % i for i in rng.permutation(5000)]).view(">u8"),
    "equal heads, few": lambda rng: np.array(
        [b"%08d%02d" % (i, rng.integers(9)) for i in rng.integers(0, 4000, 5000)]
    ),
    "equal heads, all": lambda rng: np.array([b"customer%04d" % i for i in rng.permutation(5000)]),
    "doubled": lambda rng: rng.integers(0, 2000, 5000) << 50,
    "the whole range": lambda rng: rng.integers(-(2**63), 2**63 - 1, 5000),
}


@pytest.mark.parametrize("kind", WIDE_KEYS)
def test_flush_order_of_many_wide_keys_is_the_stable_order(kind):
    keys = WIDE_KEYS[kind](np.random.default_rng(4))
    keys = keys.astype(np.uint64) if keys.dtype.byteorder == ">" else keys
    assert np.array_equal(flush_order(keys), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
@pytest.mark.parametrize(("width", "varying"), [(3, 1), (20, 6), (20, 12), (9, 9)])
def test_compact_keys_keep_order_and_equality(count, width, varying):
    rng = np.random.default_rng(width * 1000 + count)
    table = np.full((count, width), 77, np.uint8)
    for column in rng.choice(width, varying, replace=False):
        table[:, column] = rng.integers(0, 3, count)
    keys = np.ascontiguousarray(table).view(f"S{width}").ravel()
    compacted = compact_keys(keys)
    whole = [bytes(row) for row in table]
    expected = sorted(range(count), key=whole.__getitem__)
    assert np.argsort(compacted, kind="stable").tolist() == expected
    same = [whole[i] == whole[0] for i in range(count)]
    assert (compacted == compacted[0]).tolist() == same


def test_a_row_that_differs_in_the_tail_block_only_is_seen():
    keys = np.array([b"abcdefghij"] * 64 + [b"abcdefghik"])
    assert compact_keys(keys).tolist()[-2:] == [ord("j"), ord("k")]
