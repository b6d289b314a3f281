"""Every FileIO call of every scenario fails in every mode; nothing acknowledged is lost."""

import pytest
from proving import faults

from tidelake.fileio import FaultMode


@pytest.mark.parametrize("scenario", faults.scenarios(), ids=lambda s: s.name)
@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda m: m.name)
def test_no_fault_loses_doubles_or_dangles(scenario, mode):
    calls = faults.count_calls(scenario)
    assert calls > 10
    for call in range(1, calls + 1):
        faults.run_fault(scenario, call, mode)
