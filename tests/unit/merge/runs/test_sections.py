from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidelake.merge import KeyRange, key_rank, sections_of
from tidelake.types import parse_type

TYPES = [parse_type("INT")]


def key_range(low: int, high: int, *, number: int = 0, level: int = 0) -> KeyRange:
    return KeyRange(
        key_rank([low], TYPES), key_rank([high], TYPES), level=level, max_sequence_number=number
    )


RANGES = st.lists(
    st.builds(
        lambda low, length, number, level: key_range(low, low + length, number=number, level=level),
        st.integers(0, 40),
        st.integers(0, 8),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    max_size=14,
)


def overlap(a: KeyRange, b: KeyRange) -> bool:
    return a.min_key <= b.max_key and b.min_key <= a.max_key


@given(RANGES)
def test_sections_never_touch_and_runs_are_disjoint_and_ordered_by_age(ranges):
    sections = sections_of(ranges)
    places = [p for section in sections for run in section for p in run]
    assert sorted(places) == list(range(len(ranges)))
    for before, after in itertools.pairwise(sections):
        highest = max(ranges[p].max_key for run in before for p in run)
        assert highest < min(ranges[p].min_key for run in after for p in run)
    for section in sections:
        for run in section:
            for a, b in itertools.pairwise(run):
                assert ranges[a].max_key < ranges[b].min_key
        for height, run in enumerate(section):
            for a in run:
                for newer_run in section[height + 1 :]:
                    for b in newer_run:
                        if overlap(ranges[a], ranges[b]):
                            assert ranges[a].age <= ranges[b].age


def test_disjoint_small_files_over_one_large_share_a_run():
    big = key_range(0, 100, level=5)
    small = [key_range(i * 10, i * 10 + 5, number=i) for i in range(8)]
    [section] = sections_of([big, *small])
    assert section == ((0,), tuple(range(1, 9)))


def test_files_that_touch_at_one_key_are_one_section():
    assert sections_of([key_range(1, 5), key_range(5, 9, number=1)]) == (((0,), (1,)),)
    assert sections_of([key_range(1, 5), key_range(6, 9)]) == (((0,),), ((1,),))


def test_double_keys_compare_as_java_does():
    types = [parse_type("DOUBLE")]
    order = [float("-inf"), -1.5, -0.0, 0.0, 1e-300, 2.0, float("inf"), float("nan")]
    ranks = [key_rank([value], types) for value in order]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
