"""The checks bite: every planted bug is caught by one of them."""

import pytest
from proving import mutants


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda m: m.name)
def test_planted_bug_is_caught(mutant):
    assert mutants.hunt(mutant) is not None
