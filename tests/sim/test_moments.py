"""Moments of users in drawn time zones."""

import pytest
from proving import moments
from sizes import SIZE

SEEDS_PER_TEST = 8


@pytest.mark.parametrize("first", range(0, SIZE.moment_seeds, SEEDS_PER_TEST))
def test_a_moment_is_read_in_its_zone_or_refused(first):
    for seed in range(first, first + SEEDS_PER_TEST):
        moments.run_seed(seed)
