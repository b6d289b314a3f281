"""The time at a position: what the source had committed until then is shown."""

from __future__ import annotations

import pytest

from tidelake.cdc.job.position_times import PositionTimes
from tidelake.cdc.source.changes import Changes


def changes(end, newest, committed_ms=None):
    return Changes("0", str(end), (), str(newest), committed_ms)


@pytest.fixture
def times():
    return PositionTimes(lambda left, right: int(left) < int(right))


def test_a_range_that_reaches_the_newest_position_has_the_time_of_the_read(times):
    times.read(changes(5, 5), 1_000)
    assert times.start_ms is None
    times.applied()
    assert times.start_ms == 1_000


def test_a_range_that_ends_before_has_the_time_of_its_last_commit(times):
    times.read(changes(5, 9, 400), 1_000)
    times.applied()
    assert times.start_ms == 400


def test_a_source_that_is_always_a_little_ahead_has_the_time_of_the_read_before(times):
    times.read(changes(5, 9, 400), 1_000)
    times.applied()
    times.read(changes(9, 12), 2_000)
    times.applied()
    assert times.start_ms == 1_000


def test_ranges_without_a_commit_that_are_far_behind_change_nothing(times):
    times.begin(300)
    times.read(changes(5, 900), 1_000)
    times.read(changes(6, 950), 2_000)
    times.applied()
    assert times.start_ms == 300


def test_a_range_that_is_read_on_without_an_epoch_is_not_applied(times):
    times.begin(300)
    times.read(changes(5, 5), 1_000)
    assert times.start_ms == 300
    times.read(changes(6, 6), 2_000)
    times.applied()
    assert times.start_ms == 2_000
