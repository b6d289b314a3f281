"""Commits that are counted."""

import pickle

import pytest

from tidelake.telemetry import commit_tally
from tidelake.telemetry.commit_tally import BOUNDS_S, CommitTally


def test_what_was_made_lost_and_failed_is_counted():
    tally = CommitTally()
    for is_made, lost in ((True, 0), (True, 2), (False, 0)):
        with tally.timed("db.t", "APPEND") as timed:
            timed.is_made, timed.lost_races = is_made, lost
    with pytest.raises(ValueError, match="no"), tally.timed("db.t", "APPEND"):
        raise ValueError("no")
    with tally.timed("db.u", "COMPACT"):
        pass
    [found] = tally.figures()
    assert (found.table, found.kind) == ("db.t", "APPEND")
    assert (found.commits, found.lost_races, found.failures) == (2, 2, 1)
    assert len(found.durations) == len(BOUNDS_S) + 1
    assert found.seconds > 0


def test_a_duration_is_counted_by_its_upper_bound(monkeypatch):
    tally, now = CommitTally(), [0.0]
    monkeypatch.setattr(commit_tally.time, "perf_counter", lambda: now[0])
    for seconds in (0.01, 0.3, 1000.0):
        with tally.timed("db.t", "APPEND") as timed:
            timed.is_made = True
            now[0] += seconds
        now[0] = 0.0
    [found] = tally.figures()
    assert [n for n, count in enumerate(found.durations) if count] == [0, 5, len(BOUNDS_S)]
    assert found.seconds == pytest.approx(1000.31)


def test_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(commit_tally, "TABLES_MAX", 1)
    tally = CommitTally()
    for name in ("db.t", "db.u", "db.t"):
        with tally.timed(name, "APPEND") as timed:
            timed.is_made = True
    assert [(one.table, one.commits) for one in tally.figures()] == [("db.t", 2)]


def test_a_copy_in_another_process_begins_anew():
    tally = CommitTally()
    with tally.timed("db.t", "APPEND") as timed:
        timed.is_made = True
    assert pickle.loads(pickle.dumps(tally)).figures() == ()
