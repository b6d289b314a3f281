"""Dynamic buckets of one partition: known keys stay, new ones fill bucket after bucket."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED

from tidelake.errors import ConflictError, CorruptError, InvalidInputError
from tidelake.table import bucket_index
from tidelake.table.bucket_index import BucketIndex, Fill

HASHES = st.lists(st.integers(-20, 20), max_size=30)


def array(values):
    return np.array(values, np.int32)


@UNHURRIED
@given(
    st.lists(HASHES, max_size=6),
    st.dictionaries(st.integers(-20, 20), st.integers(0, 5), max_size=15),
    st.integers(1, 7),
    st.sampled_from([-1, 1, 3]),
    st.sampled_from([(1, 0), (2, 1), (3, 0)]),
)
def test_a_key_has_one_bucket_for_ever(batches, placed, target, most, share):
    assigners, number = share
    if most != -1:  # no more assigners than buckets
        assigners, number = min(assigners, most), min(number, most - 1)
    known = {b: array([h for h, own in placed.items() if own == b]) for b in set(placed.values())}
    fill = Fill(target_rows=target, buckets_max=most, assigners=assigners, number=number)
    index = BucketIndex(known, fill, where="t")
    where = dict(placed)
    for given_batch in batches:
        batch = fill.own(array(given_batch)).tolist()  # the others' keys do not come here
        buckets = index.assign(array(batch))
        assert buckets.dtype == np.int32
        for value, bucket in zip(batch, buckets.tolist(), strict=True):
            assert where.setdefault(value, bucket) == bucket
    new = {h: b for h, b in where.items() if h not in placed}
    counts = {b: sum(own == b for own in where.values()) for b in where.values()}
    for bucket in set(where.values()) if assigners == 1 else ():
        assert sorted(index.hashes(bucket).tolist()) == sorted(
            h for h, own in where.items() if own == bucket
        )
        head = known.get(bucket, array([])).tolist()
        assert index.hashes(bucket)[: index.known_count(bucket)].tolist() == head
        assert index.has_added(bucket) == (bucket in new.values())
    if most == -1:
        assert all(b % assigners == number for b in new.values())
        assert all(counts[b] <= target for b in new.values())
    else:
        assert set(new.values()) <= set(range(most)) | set(known)


def test_buckets_are_filled_before_new_ones_are_made():
    index = BucketIndex({0: array([1]), 2: array([2, 3])}, Fill(target_rows=2), where="t")
    assert index.assign(array([10, 20, 30, 40])).tolist() == [0, 1, 1, 3]


def test_the_large_array_takes_the_latest_hashes_up(monkeypatch):
    monkeypatch.setattr(bucket_index, "RECENT_MIN", 3)
    index = BucketIndex({}, Fill(target_rows=4), where="t")
    first = [index.assign(array([n, n + 1])).tolist() for n in range(0, 20, 2)]
    again = [index.assign(array([n, n + 1])).tolist() for n in range(0, 20, 2)]
    assert first == again
    assert first == [[n // 4, (n + 1) // 4] for n in range(0, 20, 2)]


def test_what_another_task_chose_is_noted_or_refused():
    index = BucketIndex({4: array([1])}, Fill(target_rows=9), where="t")
    index.put(4, array([1, 2, 2]))
    index.put(7, array([5]))
    assert index.hashes(4).tolist() == [1, 2]
    assert index.hashes(7).tolist() == [5]
    with pytest.raises(ConflictError, match="another bucket"):
        index.put(7, array([2]))


def test_a_hash_in_two_buckets_is_damage():
    with pytest.raises(CorruptError, match="buckets 0 and 3"):
        BucketIndex({0: array([1, 2]), 3: array([2])}, Fill(target_rows=9), where="t")


def test_too_many_buckets_are_refused_unless_a_number_is_given():
    index = BucketIndex({}, Fill(target_rows=1), where="t")
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket\.target-row-num"):
        index.assign(array(range(40_000)))
    few = BucketIndex({}, Fill(target_rows=1, buckets_max=3), where="t")
    assert set(few.assign(array(range(40_000))).tolist()) == {0, 1, 2}
