"""Planted bugs of DML by plain `spark.sql`: each is noticed by its statement."""

from __future__ import annotations

import pytest
from proving.dml_mutants import PLANTED


@pytest.mark.share(2)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_dml_is_caught(lake, name):
    plant, check = PLANTED[name]
    check(lake, "right")
    with plant(), pytest.raises(AssertionError):
        check(lake, "planted")
