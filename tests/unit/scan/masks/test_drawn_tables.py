"""Drawn tables by masks and by merges; the same seed gives the same table."""

import pytest
from proving.mask_tables import run_seed
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.mask_tables))
def test_rows_by_masks_are_those_of_the_merge(seed):
    run_seed(seed)
