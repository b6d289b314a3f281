"""Every FileIO call of every scenario fails in every mode; nothing acknowledged is lost."""

import itertools
import shutil

import pytest
from proving import directed, faults, interleave
from proving.rooted import RootedFileIO

from tidelake.fileio import FaultMode


@pytest.mark.parametrize("scenario", faults.scenarios(), ids=lambda s: s.name)
@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda m: m.name)
def test_no_fault_loses_doubles_or_dangles(scenario, mode):
    runs = list(faults.faults_of(scenario, [mode]))
    assert runs
    for call, _ in runs:
        faults.run_fault(scenario, call, mode)


@pytest.mark.parametrize("scenario", faults.scenarios(), ids=lambda s: s.name)
def test_no_fault_of_local_files_loses_doubles_or_dangles(scenario, tmp_path):
    """Every fifth call, the modes in turn; all of them in `make faults`: local files are slow."""
    for call, mode in itertools.islice(faults.modes_in_turn(scenario), None, None, 5):
        place = tmp_path / str(call)
        faults.run_fault(scenario, call, mode, RootedFileIO(place))
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("check", interleave.CHECKS, ids=lambda c: c.__name__)
def test_a_commit_in_between_changes_nothing(check):
    check()


@pytest.mark.parametrize("check", directed.CHECKS, ids=lambda c: c.__name__)
def test_directed(check):
    check()
