"""Batch reads beside commits and expiry with keep = 1: who is let in reads to the end."""

import collections
import functools

import pytest
from proving import read_holds
from proving.standstill import at_each_call
from sizes import SIZE

from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot_log import SnapshotLog
from tidelake.table.handle import read_hold


@functools.cache
def given():
    return read_holds.world()


@functools.cache
def overdue():
    """The world after another process has committed, and before it expires."""
    files = read_holds.copied(given())
    read_holds.commit(files)
    return files


@functools.cache
def states():
    """The rows of a snapshot before and after what another process commits."""
    files = read_holds.copied(given())
    old = read_holds.rows_of(read_holds.table_on(files).scan(snapshot_id=read_holds.OLD))
    found = [old, read_holds.rows_of(read_holds.table_on(files).scan())]
    read_holds.commit(files)
    return [*found, read_holds.rows_of(read_holds.table_on(files).scan())]


def moments(world, operation, act):
    return at_each_call(
        lambda: read_holds.copied(world),
        lambda files: files,
        operation,
        act,
        step=max(1, SIZE.paused_step // 4),
    )


def check_reader_that_stands_still(**moment):
    outcomes, scans = collections.Counter(), []
    for met in moments(
        given(),
        lambda files: scans.append(read_holds.let_in(files, **moment)),
        read_holds.commit_and_expire,
    ):
        assert met.error is None or isinstance(met.error, NotFoundError), met.where
        assert met.others is None, met.where
        read_holds.check(met.files, None if met.error else scans[-1], states(), met.where)
        outcomes[met.error is None] += 1
    return outcomes


def check_expiry_that_stands_still(**moment):
    outcomes, scans = collections.Counter(), []
    for met in moments(
        overdue(),
        read_holds.expire,
        lambda files: scans.append(read_holds.let_in(files, **moment)),
    ):
        assert met.error is None, met.where
        read_holds.check(met.files, None if met.others else scans[-1], states(), met.where)
        outcomes[met.others is None] += 1
    return outcomes


def test_a_read_that_stands_still_at_any_call_reads_a_state_of_then_or_of_now():
    assert check_reader_that_stands_still()[False] == 0
    assert min(check_reader_that_stands_still(snapshot_id=read_holds.OLD).values()) > 1


def test_an_expiry_that_stands_still_at_any_call_while_a_read_comes():
    assert check_expiry_that_stands_still()[False] == 0
    assert min(check_expiry_that_stands_still(snapshot_id=read_holds.OLD).values()) > 1


def test_a_scan_is_kept_for_hours():
    read_holds.run_hours(given())


def test_a_read_without_the_fence_is_caught(monkeypatch):
    monkeypatch.setattr(SnapshotLog, "announced_earliest_id", lambda _: None)
    with pytest.raises(read_holds.HoldBroken, match="was let in"):
        check_expiry_that_stands_still(snapshot_id=read_holds.OLD)


def test_a_hold_of_a_later_snapshot_than_is_read_is_caught(monkeypatch):
    begin = read_hold._HeldRead._begin

    def begins(held):
        held._snapshot_id += 2
        return begin(held)

    monkeypatch.setattr(read_hold._HeldRead, "_begin", begins)
    with pytest.raises(read_holds.HoldBroken, match="was let in"):
        check_reader_that_stands_still()


def test_a_keeper_that_does_not_renew_is_caught(monkeypatch):
    monkeypatch.setattr(read_hold._HeldRead, "_renew", lambda *_: None)
    with pytest.raises(read_holds.HoldBroken, match="lost its snapshot"):
        read_holds.run_hours(given())
