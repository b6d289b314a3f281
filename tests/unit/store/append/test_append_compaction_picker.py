from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from unit.store.lsm.lsm_text import data_file

from tidelake.store.append import pick_bucketed, pick_bucketed_full, pick_unaware

SIZES = st.lists(st.integers(1, 40), max_size=14)


def files_of(sizes: list[int]) -> list[object]:
    return [
        replace(data_file("a", "a", number=i, size=size), min_sequence_number=i)
        for i, size in enumerate(sizes)
    ]


def picked_sizes(sizes: list[int], **options: int) -> list[int]:
    return [f.file_size_bytes for f in pick_bucketed(files_of(sizes), **options)]


def test_enough_neighbours_are_picked_from_the_oldest_on():
    assert picked_sizes([1, 2, 3, 4], files_min=3, target_size_bytes=10) == [1, 2, 3]
    assert picked_sizes([1, 2], files_min=3, target_size_bytes=10) == []


def test_large_files_at_the_front_are_let_go():
    assert picked_sizes([25, 1, 2, 3], files_min=3, target_size_bytes=10) == [1, 2, 3]
    assert picked_sizes([9, 12, 1, 2], files_min=3, target_size_bytes=10) == [12, 1, 2]


@given(SIZES, st.integers(2, 6), st.integers(1, 30))
def test_a_pick_is_a_stretch_of_the_sequence(sizes, files_min, target):
    files = files_of(sizes)
    picked = pick_bucketed(files, files_min=files_min, target_size_bytes=target)
    assert len(picked) in {0, files_min}
    if picked:
        start = files.index(picked[0])
        assert list(picked) == files[start : start + files_min]
        assert sum(f.file_size_bytes for f in picked[:-1]) < 2 * target


def test_a_full_pick_leaves_the_large_files_at_the_front():
    files = files_of([10, 12, 1, 11, 2])
    picked = pick_bucketed_full(files, target_size_bytes=10)
    assert [f.file_size_bytes for f in picked] == [1, 11, 2]
    assert pick_bucketed_full(files_of([1, 11, 12]), target_size_bytes=10) == ()
    assert pick_bucketed_full(files_of([1, 2]), target_size_bytes=10) == ()


@given(SIZES, st.integers(2, 6), st.integers(1, 30))
def test_bins_hold_small_files_once_and_are_worth_it(sizes, files_min, target):
    bins = pick_unaware(files_of(sizes), files_min=files_min, target_size_bytes=target)
    names = [f.file_name for group in bins for f in group]
    assert len(names) == len(set(names))
    for group in bins:
        assert all(f.file_size_bytes < 0.7 * target for f in group)
        size = sum(f.file_size_bytes for f in group)
        assert len(group) > 1
        assert size >= 2 * target or len(group) >= files_min


def test_a_worn_file_is_rewritten_alone_and_however_large_it_is():
    _, worn, _ = files = files_of([500, 900, 10])

    def picked(own, **rest):
        bins = pick_unaware(own, files_min=5, target_size_bytes=100, **rest)
        return [[f.file_size_bytes for f in sizes] for sizes in bins]

    assert picked(files) == []
    assert picked(files, needs_rewrite=lambda f: f is worn) == [[10, 900]]
    assert picked([worn], needs_rewrite=lambda _: True) == [[900]]


def test_a_full_compaction_takes_a_large_file_of_which_a_row_is_deleted():
    files = files_of([500, 600, 700])

    def picked(*marked):
        found = pick_bucketed_full(
            files, target_size_bytes=100, has_deletes=lambda f: f.file_size_bytes in marked
        )
        return [f.file_size_bytes for f in found]

    assert picked() == []
    assert picked(600) == [600, 700]
    assert picked(500) == [500, 600, 700]
