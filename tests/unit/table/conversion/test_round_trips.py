"""Rows through frames of other libraries and back."""

import pytest
from proving import frames
from sizes import SIZE

SEEDS_PER_TEST = 4


@pytest.mark.parametrize("first", range(0, SIZE.frame_seeds, SEEDS_PER_TEST))
def test_rows_come_back_from_a_frame_as_they_were(first):
    for seed in range(first, first + SEEDS_PER_TEST):
        frames.run_seed(seed)
