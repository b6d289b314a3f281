"""Writers, expiries, removals of orphans, tags, branches and held reads that meet on one table."""

from __future__ import annotations

import pytest
from proving import upkeep
from proving.upkeep_mutants import MUTANTS, check_branch_of_a_tag_that_goes, noticed
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.upkeep_runs))
def test_nothing_that_is_needed_goes(seed):
    assert len(upkeep.run_seed(seed, forks=SIZE.upkeep_forks)) > 6 * SIZE.upkeep_forks


def test_a_branch_of_a_tag_that_goes_is_not_made():
    check_branch_of_a_tag_that_goes()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_planted_bug_is_noticed(mutant):
    assert noticed(mutant) is not None
