"""Seeded runs of processes that meet on one table; the same seed gives the same run."""

import pytest
from proving import concurrent
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.meetings))
def test_processes_that_meet_see_and_leave_whole_commits(seed):
    concurrent.run_seed(seed)


def test_the_same_seed_gives_the_same_run():
    traces = []
    for _ in range(2):
        meeting = concurrent.Meeting(3)
        meeting.run(3)
        traces.append(meeting.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 20
