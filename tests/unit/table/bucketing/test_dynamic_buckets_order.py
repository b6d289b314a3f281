"""The hashes of an index file are sorted where a search in them is worth it."""

from __future__ import annotations

import numpy as np
import pytest

from tidelake.metadata.index_entry import IndexChange
from tidelake.table.bucketing import dynamic_buckets
from tidelake.table.bucketing.dynamic_buckets import ordered_hashes


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(dynamic_buckets, "SORTED_MIN", 8)
    monkeypatch.setattr(dynamic_buckets, "ADDED_MAX", 50)


def made(known, new, *, sorted_count=0, is_full=False):
    """What is written, checked: the same hashes, sorted as it says, the new ones known."""
    hashes = np.array([*known, *new], np.int32)
    ordered = ordered_hashes(
        hashes, known_count=len(known), sorted_count=sorted_count, is_full=is_full
    )
    assert sorted(ordered.hashes.tolist()) == sorted(hashes.tolist())
    head = ordered.hashes[: ordered.sorted_count].tolist()
    assert head == sorted(head)
    change = IndexChange(1, None, len(known), ordered.added)
    assert change.new_hashes(ordered.hashes).tolist() == list(new) or not known
    assert sorted(change.new_hashes(ordered.hashes).tolist()) == sorted(new)
    return ordered.sorted_count


def test_few_hashes_stay_as_they_come():
    assert made([5, 1, 4], [3, 2]) == 0


def test_a_bucket_of_new_keys_is_sorted():
    assert made([], range(20, 0, -1)) == 20


def test_new_keys_stand_behind_until_they_are_an_eighth():
    known = list(range(0, 1000, 2))
    assert made(known, [7, 3, 5], sorted_count=500) == 500
    assert made([*known, 9, 1], [7, 3, 5], sorted_count=490) == 490
    assert made([*known, *range(901, 961, 2)], range(1, 99, 2), sorted_count=500) == 579


def test_a_full_bucket_is_sorted_for_the_last_time():
    known = list(range(0, 1000, 2))
    new = [19, 17, 15, 13, 11, 9, 7, 5, 3]
    assert made(known, new, sorted_count=500) == 500
    assert made(known, new, sorted_count=500, is_full=True) == 509


def test_new_keys_that_a_message_does_not_carry_stand_last():
    assert made([4, 2, 1, 3, 9, 8, 7, 6, 5], range(100, 160)) == 9
