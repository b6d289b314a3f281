"""No needed file is removed as an orphan, whatever happens beside; planted bugs are noticed."""

from __future__ import annotations

import pytest
from proving.orphan_mutants import MUTANTS, notices
from proving.orphan_runs import run_life
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.orphan_lives))
def test_no_needed_file_is_removed_and_no_orphan_stays(seed):
    assert run_life(seed).runs > 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_planted_bug_is_noticed(mutant):
    firsts = range(mutant.seed + 1) if SIZE.shows_order_of_checks else [mutant.seed]
    assert [seed for seed in firsts if notices(mutant, seed)] == [mutant.seed]
