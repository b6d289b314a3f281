"""The checks bite: every planted bug is caught, and by the check that the documentation names."""

import re
from pathlib import Path

import pytest
from proving import mutants
from sizes import SIZE

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "proof.md"


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda m: m.name)
def test_planted_bug_is_caught(mutant):
    hunt = mutants.hunt if SIZE.shows_order_of_checks else mutants.hunt_by_its_check
    assert hunt(mutant) == mutant.caught_by


def test_the_page_lists_every_planted_bug_with_its_check():
    section = PAGE.read_text().split("## Planted bugs\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \|$", section, re.MULTILINE)
    assert rows == [(m.name, m.caught_by) for m in mutants.MUTANTS]
