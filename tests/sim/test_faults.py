"""Every FileIO call of every scenario fails in every mode; nothing acknowledged is lost."""

import collections
import functools
import os
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from proving import directed, faults, interleave, store_faults, wire
from proving.rooted import RootedFileIO
from proving.scenarios import scenarios
from sizes import SIZE

from tidelake.errors import ConflictError
from tidelake.table import Table
from tidelake.testing import FaultMode

RECOVERED: dict[str, set[bytes]] = collections.defaultdict(set)
WITHOUT_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Files in memory where there are such: the disk's own part, fsync, is not what is tested."""
PUBLISHES = {FaultMode.DUP, FaultMode.CONFLICT}
BY_NAME = {scenario.name: scenario for scenario in scenarios()}


@functools.cache
def all_faults(name):
    """Every (call, mode) of a scenario."""
    return list(faults.faults_of(BY_NAME[name]))


@functools.cache
def faults_to_try(name):
    """Those of the size: some calls in all modes, some of the others in one, the modes in turn."""
    in_turn = set(faults.modes_in_turn(BY_NAME[name], SIZE.faults_in_turn_step))
    return [
        fault for fault in all_faults(name) if fault[0] % SIZE.faults_step == 0 or fault in in_turn
    ]


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda s: s.name)
@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda m: m.name)
def test_no_fault_loses_doubles_or_dangles(scenario, mode):
    known = [call for call, of in all_faults(scenario.name) if of is mode]
    # a compaction that gives way publishes nothing, so no call of it can be doubled or conflict
    assert known or (mode in PUBLISHES and scenario.beside is not None)
    calls = [call for call, of in faults_to_try(scenario.name) if of is mode] or known[:1]
    for call in calls:
        faults.run_fault(scenario, call, mode, recovered=RECOVERED[scenario.name])


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda s: s.name)
def test_no_fault_of_local_files_loses_doubles_or_dangles(scenario):
    """Some calls, the modes in turn; all of them in `make faults`: local files are slow."""
    for call, mode in faults.modes_in_turn(scenario, SIZE.local_faults_step):
        with tempfile.TemporaryDirectory(dir=WITHOUT_DISK) as place:
            faults.run_fault(scenario, call, mode, RootedFileIO(Path(place)))


COMPACT_ALONE = [
    s for s in scenarios() if s.beside is None and any(step.name == "compact" for step in s.steps)
]


@pytest.mark.parametrize("scenario", COMPACT_ALONE, ids=lambda s: s.name)
def test_a_compaction_that_gives_way_to_nobody_is_noticed(scenario):
    """Where another process works beside it may; here none does, with a fault or without one."""
    call, mode = next(faults.faults_of(scenario, [FaultMode.DUP]))
    gone = ConflictError("Nothing was changed.", kind="compaction_gave_way", table="db.t")
    with mock.patch.object(Table, "compact", side_effect=gone):
        with pytest.raises(AssertionError, match="nobody else was there"):
            faults.calls_of(scenario)
        with pytest.raises(faults.FaultViolation, match="nobody else was there"):
            faults.run_fault(scenario, call, mode)


def test_the_same_state_is_recovered_from_once():
    scenario = scenarios()[0]
    recovered = set()
    calls = [call for call, _ in faults.faults_of(scenario, [FaultMode.CRASH_BEFORE])]
    for call in calls:
        faults.run_fault(scenario, call, FaultMode.CRASH_BEFORE, recovered=recovered)
    assert 3 < len(recovered) < len(calls)


@pytest.mark.parametrize("name", ["append", "rollback", "alter"])
def test_no_fault_on_the_wire_loses_doubles_or_dangles(name, s3):
    """Every changing request once, the faults in turn; all of them in `make proof`."""
    for method, nth, fault in wire.faults_in_turn(BY_NAME[name], s3):
        wire.run_fault(BY_NAME[name], s3, method, nth, fault)


@pytest.mark.parametrize("check", interleave.CHECKS, ids=lambda c: c.__name__)
def test_a_commit_in_between_changes_nothing(check):
    check()


@pytest.mark.parametrize("check", directed.CHECKS, ids=lambda c: c.__name__)
def test_directed(check):
    check()


@pytest.mark.parametrize("check", store_faults.CHECKS, ids=lambda c: c.__name__)
def test_what_a_store_says_of_a_put_is_not_so(check):
    check()
