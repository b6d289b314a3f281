"""Filtered streams of drawn tables, folded by key: nothing that left the filter stays."""

from __future__ import annotations

from proving import filtered
from sizes import SIZE


def test_what_leaves_a_filter_leaves_whoever_folds_its_changes():
    seeds = SIZE.filtered_streams
    cases = [filtered.run(seed) for seed in seeds]
    assert {case.producer for case in cases} == set(filtered.PRODUCERS)
    assert {case.filter for case in cases} == set(filtered.FILTERS)
    assert {case.door for case in cases} == {
        "stream", "latest-full", "consumer", "follow", "changes",
    }  # fmt: skip
