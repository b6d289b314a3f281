"""Leases under faults and beside expiries: what is held is read, and nobody else is let in."""

import collections
import functools

import pytest
from proving import leases
from proving.standstill import at_each_call
from sizes import FULL, SIZE

from tidelake.commit.expiry import snapshots
from tidelake.commit.expiry.consumers import HeldSnapshots
from tidelake.errors import NotFoundError
from tidelake.metadata.log.consumer import ConsumerLog, Lease
from tidelake.table.stream import lease
from tidelake.testing import FaultMode

BLOCKS = 8 if SIZE is FULL else 4


@functools.cache
def given():
    return leases.world()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_reader_beside_two_expiries_is_let_in_and_reads_or_is_refused(block):
    count = SIZE.meetings * 2
    outcomes = collections.Counter(
        leases.run_turns(seed) for seed in range(block * count, (block + 1) * count)
    )
    assert outcomes["held"] > 2
    assert outcomes["refused"] > 2


@pytest.mark.parametrize("block", range(BLOCKS))
def test_of_runs_that_come_at_once_one_is_let_in(block):
    for seed in range(block * SIZE.meetings, (block + 1) * SIZE.meetings):
        leases.run_rivals(seed)


def test_a_consumer_in_its_first_state_is_in_use_and_begins_again_when_cut_off():
    for seed in range(SIZE.meetings):
        leases.FirstState(seed).run()


@pytest.mark.parametrize("mode", list(FaultMode), ids=lambda m: m.name)
def test_no_fault_of_a_reader_s_life_holds_for_ever_or_lets_go_early(mode):
    calls = range(1, leases.calls_of_life() + 1)
    step = max(1, SIZE.faults_step // 6)
    for call in calls[list(FaultMode).index(mode) % step :: step]:
        if mode.affects(operations()[call - 1]):
            leases.run_fault(given(), call, mode)


@functools.cache
def operations():
    faulty = leases.FaultyFileIO(leases.copy_of(given()), {})
    leases.act_all(faulty)
    return [entry.op for entry in faulty.trace]


def moments(operation, act):
    return at_each_call(
        lambda: leases.copy_of(given()),
        lambda files: files,
        operation,
        act,
        step=max(1, SIZE.paused_step // 10),
    )


def test_a_reader_that_stands_still_at_any_call_while_an_expiry_runs():
    expected = leases.rows(leases.table_on(given()), snapshot_id=leases.HELD)
    outcomes = collections.Counter()
    held = []
    for moment in moments(lambda files: held.append(leases.take(files)), leases.expire):
        assert moment.error is None or isinstance(moment.error, NotFoundError), moment.where
        assert moment.others is None, moment.where
        found = None if moment.error else held[-1]
        leases.check_held(moment.files, found, expected, moment.where)
        outcomes[moment.error is None] += 1
    assert min(outcomes[True], outcomes[False]) > 1


def test_an_expiry_that_stands_still_at_any_call_while_a_reader_comes():
    expected = leases.rows(leases.table_on(given()), snapshot_id=leases.HELD)
    outcomes = collections.Counter()
    held = []
    for moment in moments(leases.expire, lambda files: held.append(leases.take(files))):
        assert moment.error is None, moment.where
        found = None if moment.others else held[-1]
        leases.check_held(moment.files, found, expected, moment.where)
        outcomes[found is not None] += 1
    assert min(outcomes[True], outcomes[False]) > 1


@functools.cache
def overdue():
    """A world with a consumer that nobody was heard of for longer than it is kept."""
    files = leases.copy_of(given())
    table = leases.table_on(files)
    table.set_options({"consumer.expiration-time": "1 h"})
    log = ConsumerLog(files, table.handle.paths)
    files._clock.sleep_ms(-7_200_000)
    log.record("c", leases.HELD)
    with log.open_dir() as place:
        log.take(Lease("c", 1, "of old", leases.HELD, 0, 1, is_closed=True), within=place)
    return files


def moments_of_forgetting(operation, act):
    return at_each_call(
        lambda: leases.copy_of(overdue()), lambda files: files, operation, act, step=3
    )


def check_forgetting():
    """A reader comes at any call of an expiry that is about to forget its consumer."""
    expected = leases.rows(leases.table_on(given()), snapshot_id=leases.HELD)
    outcomes = collections.Counter()
    held = []
    for moment in moments_of_forgetting(
        leases.expire, lambda files: held.append(leases.take(files))
    ):
        assert moment.error is None, moment.where
        found = None if moment.others else held[-1]
        leases.check_held(moment.files, found, expected, moment.where)
        outcomes[found is not None] += 1
    assert min(outcomes[True], outcomes[False]) > 1


def test_a_reader_comes_while_an_expiry_forgets_its_consumer():
    check_forgetting()


def test_an_expiry_that_forgets_without_a_look_at_new_runs_is_caught(monkeypatch):
    monkeypatch.setattr(
        ConsumerLog, "forget", lambda self, state, _: self.delete(state.consumer_id)
    )
    with pytest.raises(leases.LeaseBroken, match="the reader was let in"):
        check_forgetting()


def test_a_reader_that_stands_still_while_an_expiry_forgets_its_consumer():
    expected = leases.rows(leases.table_on(given()), snapshot_id=leases.HELD)
    held = []
    for moment in moments_of_forgetting(
        lambda files: held.append(leases.take(files)), leases.expire
    ):
        assert moment.error is None or isinstance(moment.error, NotFoundError), moment.where
        assert moment.others is None, moment.where
        found = None if moment.error else held[-1]
        leases.check_held(moment.files, found, expected, moment.where)


def _looks_before_it_puts(handle, *, of_state):
    return None


def test_a_reader_that_does_not_look_behind_its_lease_is_caught(monkeypatch):
    monkeypatch.setattr(lease, "_earliest", _looks_before_it_puts)
    with pytest.raises(leases.LeaseBroken):
        test_an_expiry_that_stands_still_at_any_call_while_a_reader_comes()


def test_an_expiry_that_does_not_look_behind_its_hint_is_caught(monkeypatch):
    def announce(context, directory, end_id, *, oldest_id):
        context.fileio.replace(context.paths.earliest_hint, str(end_id).encode(), within=directory)
        return end_id, ()

    monkeypatch.setattr(snapshots, "_announce_earliest", announce)
    with pytest.raises(leases.LeaseBroken):
        test_an_expiry_that_stands_still_at_any_call_while_a_reader_comes()


def test_an_expiry_that_takes_its_hint_back_for_a_lease_is_caught(monkeypatch):
    held = snapshots.held_snapshots

    def held_by_consumers(context):
        return HeldSnapshots(held(context).next_id, by_lease=False, forgotten=())

    monkeypatch.setattr(snapshots, "held_snapshots", held_by_consumers)
    with pytest.raises(leases.LeaseBroken, match="the reader was let in"):
        leases.run_turns(621)  # one of the first that meets it: two expiries and a reader
