"""A search finds the hashes that are there, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED

from tidelake.table.bucketing import hash_search
from tidelake.table.bucketing.hash_search import HashSearch

INT32 = st.integers(-(2**31), 2**31 - 1)
NEAR = st.integers(-6, 6) | INT32


def stored_form(values):
    return np.array(values, ">i4").view(np.uint32)


@UNHURRIED
@given(st.lists(NEAR), st.lists(NEAR, max_size=60), st.sampled_from([1, 4, 10]))
def test_each_stored_hash_that_is_wanted_is_found_at_its_place(wanted, stored, bits):
    distinct = np.unique(np.array(wanted, np.int32))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hash_search, "SLOT_BITS_MIN", bits)  # tiny tables let much through
        patched.setattr(hash_search, "SLOTS_PER_HASH", 1)
        found = HashSearch(distinct).found_in(stored_form(stored))
    assert distinct[found].tolist() == [value for value in stored if value in wanted]


def test_many_hashes_are_found_among_many():
    rng = np.random.default_rng(3)
    stored = rng.permutation(np.arange(-150_000, 150_000, dtype=np.int32) * 7_001)
    wanted = np.sort(np.concatenate([stored[::10], stored[::10] + 1]))
    found = HashSearch(wanted).found_in(stored_form(stored))
    assert wanted[found].tolist() == stored[::10].tolist()
