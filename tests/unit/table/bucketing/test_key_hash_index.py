"""Dynamic buckets of one partition: known keys stay, new ones fill bucket after bucket."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.metadata.made import UNHURRIED

from tidelake.errors import ConflictError, CorruptError, InvalidInputError
from tidelake.table.bucketing import key_hash_index
from tidelake.table.bucketing.key_hash_index import BucketIndex, Fill

HASHES = st.lists(st.integers(-20, 20), max_size=30)


def array(values):
    return np.array(values, np.int32)


class Stored:
    """A bucket's hashes in memory, in chunks of three; says how often they were read."""

    def __init__(self, *values, sorted_count=0):
        self.hashes = array(values)
        self.sorted_count = sorted_count
        self.reads = self.searches = self.lookups = 0

    @property
    def count(self):
        return len(self.hashes)

    def read(self):
        self.reads += 1
        return self.hashes

    def chunks(self, first=0):
        self.searches += 1
        return self._chunks(first, self.count)

    def sorted_chunks(self):
        self.lookups += 1
        return self._chunks(0, self.sorted_count)

    def _chunks(self, first, last):
        stored = self.hashes[first:last].astype(">i4").view(np.uint32)
        return (stored[at : at + 3] for at in range(0, len(stored), 3))


@UNHURRIED
@given(
    st.lists(HASHES, max_size=6),
    st.dictionaries(st.integers(-20, 20), st.integers(0, 5), max_size=15),
    st.integers(1, 7),
    st.sampled_from([-1, 1, 3]),
    st.sampled_from([(1, 0), (2, 1), (3, 0)]),
    st.sampled_from([(0, 4), (2, 4), (99, 4), (99, 0)]),
    st.sampled_from([0, 1, 32]),
    st.integers(0, 9),
)
def test_a_key_has_one_bucket_for_ever(batches, placed, target, most, share, looks, cost, tail):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_hash_index, "SEARCHES_MAX", looks[0])
        patched.setattr(key_hash_index, "BATCH_SHARE", looks[1])
        patched.setattr(key_hash_index, "SEARCH_COST", cost)
        check_one_bucket_for_ever(batches, placed, target, most, share, tail)


def stored_with_tail(hashes, tail):
    """The hashes, all sorted but the last ones."""
    count = max(0, len(hashes) - tail)
    return Stored(*sorted(hashes[:count]), *hashes[count:], sorted_count=count)


def check_one_bucket_for_ever(batches, placed, target, most, share, tail):
    assigners, number = share
    if most != -1:  # no more assigners than buckets
        assigners, number = min(assigners, most), min(number, most - 1)
    known = {
        b: stored_with_tail([h for h, own in placed.items() if own == b], tail)
        for b in placed.values()
    }
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
        head = known.get(bucket, Stored()).hashes.tolist()
        assert index.hashes(bucket)[: index.known_count(bucket)].tolist() == head
        assert index.has_added(bucket) == (bucket in new.values())
    if most == -1:
        assert all(b % assigners == number for b in new.values())
        assert all(counts[b] <= target for b in new.values())
    else:
        assert set(new.values()) <= set(range(most)) | set(known)


def test_buckets_are_filled_before_new_ones_are_made():
    index = BucketIndex({0: Stored(1), 2: Stored(2, 3)}, Fill(target_rows=2), where="t")
    assert index.assign(array([10, 20, 30, 40])).tolist() == [0, 1, 1, 3]


def test_the_large_array_takes_the_latest_hashes_up(monkeypatch):
    monkeypatch.setattr(key_hash_index, "RECENT_MIN", 3)
    index = BucketIndex({}, Fill(target_rows=4), where="t")
    first = [index.assign(array([n, n + 1])).tolist() for n in range(0, 20, 2)]
    again = [index.assign(array([n, n + 1])).tolist() for n in range(0, 20, 2)]
    assert first == again
    assert first == [[n // 4, (n + 1) // 4] for n in range(0, 20, 2)]


def test_what_another_task_chose_is_noted_or_refused():
    index = BucketIndex({4: Stored(1)}, Fill(target_rows=9), where="t")
    index.put(4, array([1, 2, 2]))
    index.put(7, array([5]))
    assert index.hashes(4).tolist() == [1, 2]
    assert index.hashes(7).tolist() == [5]
    with pytest.raises(ConflictError, match="another bucket"):
        index.put(7, array([2]))


def test_what_another_task_chose_is_looked_for_in_its_bucket_alone():
    known = {b: Stored(*range(b * 1000, b * 1000 + 1000)) for b in range(3)}
    index = BucketIndex(known, Fill(target_rows=9000), where="t")
    for number in range(6):
        index.put(1, array([1000 + number, 5000 + number]))
    index.put(2, array([2000, 6000]))
    assert [(s.searches, s.reads) for s in known.values()] == [(0, 0), (4, 1), (1, 0)]
    assert index.hashes(1).tolist() == [*range(1000, 2000), *range(5000, 5006)]
    assert index.hashes(2).tolist() == [*range(2000, 3000), 6000]
    assert index.assign(array([7, 1007, 2007, 5003, 6000])).tolist() == [0, 1, 2, 1, 2]
    with pytest.raises(ConflictError, match="another bucket"):
        index.put(0, array([1999]))


def test_a_few_batches_are_looked_for_in_the_files_and_more_are_worth_reading_them():
    stored = Stored(*range(1000))
    index = BucketIndex({7: stored}, Fill(target_rows=2000), where="t")
    for number in range(10):
        assert index.assign(array([number, 5000 + number])).tolist() == [7, 7]
        looked = min(number + 1, key_hash_index.SEARCHES_MAX)
        assert (stored.searches, stored.reads) == (looked, number >= key_hash_index.SEARCHES_MAX)
    assert index.assign(array([5000])).tolist() == [7]
    assert index.hashes(7).tolist() == [*range(1000), *range(5000, 5010)]


def test_a_large_batch_is_worth_reading_the_files_at_once():
    stored = Stored(*range(1000))
    index = BucketIndex({7: stored}, Fill(target_rows=2000), where="t")
    assert set(index.assign(array(range(500))).tolist()) == {7}
    assert (stored.searches, stored.reads) == (0, 1)


def test_a_few_hashes_are_looked_up_in_sorted_files_and_most_in_one_alone():
    rng = np.random.default_rng(5)
    hashes = np.unique(rng.integers(-(2**31), 2**31, 9000).astype(np.int32))
    own = rng.integers(0, 3, len(hashes))
    known = {
        b: Stored(*np.sort(hashes[own == b]).tolist(), sorted_count=np.count_nonzero(own == b))
        for b in range(3)
    }
    index = BucketIndex(known, Fill(target_rows=9000), where="t")
    at = np.arange(0, len(hashes), 150)
    assert index.assign(hashes[at]).tolist() == own[at].tolist()
    assert [(s.lookups, s.searches, s.reads) for s in known.values()] == [(1, 0, 0)] * 3
    for _ in range(9):  # looked for in each of the files again, which is cheap
        assert index.assign(hashes[at[:5]]).tolist() == own[at[:5]].tolist()
    assert [s.reads for s in known.values()] == [0, 0, 0]
    for _ in range(10):  # dearer, together, than to read them
        index.assign(hashes[::150])
    assert [s.reads for s in known.values()] == [1, 1, 1]


def test_a_hash_in_two_sorted_files_is_damage_if_it_is_noticed():
    hashes = range(0, 3000, 3)
    known = {b: Stored(*hashes, sorted_count=1000) for b in range(2)}
    index = BucketIndex(known, Fill(target_rows=9000), where="t")
    with pytest.raises(CorruptError, match="buckets 0 and 1"):
        index.assign(array(range(0, 90, 9)))


def test_a_hash_in_a_sorted_file_and_in_another_is_damage():
    known = {0: Stored(*range(100), sorted_count=100), 1: Stored(500, 7, 600)}
    index = BucketIndex(known, Fill(target_rows=9000), where="t")
    assert index.assign(array([6])).tolist() == [0]
    with pytest.raises(CorruptError, match="buckets 0 and 1"):
        index.assign(array([7]))
    twice = {0: Stored(*range(100), 7, sorted_count=100)}
    with pytest.raises(CorruptError, match="buckets 0 and 0"):
        BucketIndex(twice, Fill(target_rows=9000), where="t").assign(array([7]))


@pytest.mark.parametrize("hashes", [[40, 41, 42, 1, 2, 3], [1, 2, 3, 3, 4, 5], [3, 2, 1, 4, 5, 6]])
def test_a_file_that_is_not_sorted_as_its_name_says_is_damage(hashes):
    known = {3: Stored(*hashes, *range(50, 150), sorted_count=106)}
    with pytest.raises(CorruptError, match="bucket 3 of t is not sorted") as raised:
        BucketIndex(known, Fill(target_rows=9000), where="t").assign(array([2]))
    assert raised.value.kind == "index_unsorted"


def test_keys_of_this_write_need_no_look_into_the_files():
    stored = Stored(*range(1000))
    index = BucketIndex({0: stored}, Fill(target_rows=1000), where="t")
    for _ in range(10):
        assert index.assign(array([5000, 6000])).tolist() == [1, 1]
    assert (stored.searches, stored.reads) == (1, 0)


@pytest.mark.parametrize("buckets", [{0: (1, 2), 3: (2,)}, {0: (2, 2), 3: (1,)}])
@pytest.mark.parametrize("share", [0, 99])
def test_a_hash_in_two_buckets_is_damage(buckets, share, monkeypatch):
    monkeypatch.setattr(key_hash_index, "BATCH_SHARE", share)
    known = {bucket: Stored(*hashes) for bucket, hashes in buckets.items()}
    index = BucketIndex(known, Fill(target_rows=9), where="t")
    with pytest.raises(CorruptError, match=r"buckets 0 and [03]"):
        index.assign(array([2]))


def test_too_many_buckets_are_refused_unless_a_number_is_given():
    index = BucketIndex({}, Fill(target_rows=1), where="t")
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket\.target-row-num"):
        index.assign(array(range(40_000)))
    few = BucketIndex({}, Fill(target_rows=1, buckets_max=3), where="t")
    assert set(few.assign(array(range(40_000))).tolist()) == {0, 1, 2}
