"""A search in sorted hashes finds those that are there, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED

from tidelake.table.bucketing.sorted_search import found_in_sorted

INT32 = st.integers(-(2**31), 2**31 - 1)
NEAR = st.integers(-60, 60) | INT32


def stored_form(values):
    return np.array(values, ">i4").view(np.uint32)


@UNHURRIED
@given(st.sets(NEAR, max_size=90), st.sets(NEAR, max_size=30), st.integers(0, 90))
def test_each_wanted_hash_that_is_stored_is_found(stored, wanted, run):
    stored = sorted(stored | set(range(run)))  # a run of neighbours misleads every guess
    distinct = np.array(sorted(wanted), np.int32)
    found = found_in_sorted(distinct, stored_form(stored))
    assert distinct[found].tolist() == sorted(wanted & set(stored))


@pytest.mark.parametrize("count", [33, 1_000, 70_000])
def test_the_ends_of_the_range_are_found(count):
    inner = np.linspace(-(2**31), 2**31 - 1, count).astype(np.int32)
    found = found_in_sorted(inner, stored_form(inner))
    assert found.tolist() == list(range(count))
    beside = np.array([-(2**31), 2**31 - 1], np.int32)
    assert found_in_sorted(beside, stored_form(inner[1:-1])).tolist() == []


def test_evenly_spread_hashes_need_no_bisection(monkeypatch):
    rng = np.random.default_rng(7)
    stored = np.unique(rng.integers(-(2**31), 2**31, 1 << 18).astype(np.int32))
    other = rng.integers(-(2**31), 2**31, 3_000).astype(np.int32)
    wanted = np.unique(np.concatenate([stored[::90], other]))
    expected = np.flatnonzero(np.isin(wanted, stored))
    calls = []
    kept = "tidelake.table.bucketing.sorted_search.bisect.bisect_left"
    monkeypatch.setattr(kept, lambda *_: calls.append(1) or 0)
    assert found_in_sorted(wanted, stored_form(stored)).tolist() == expected.tolist()
    assert len(calls) < 10


def test_hashes_that_are_spread_as_no_hash_is_are_found():
    stored = np.unique((np.linspace(0, 1, 5_000) ** 9 * (2**31 - 1)).astype(np.int32))
    wanted = np.unique(np.concatenate([stored[::3], stored[::7] + 1]))
    found = found_in_sorted(wanted, stored_form(stored))
    assert found.tolist() == np.flatnonzero(np.isin(wanted, stored)).tolist()
