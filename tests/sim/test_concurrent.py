"""Seeded runs of processes that meet on one table; the same seed gives the same run."""

import threading

import pytest
from proving import concurrent
from proving.turns import Process, take_turns
from sizes import SIZE

from tidelake.fileio import MemoryFileIO

OF_CLUSTERED_ROWS = 31


@pytest.mark.parametrize("seed", sorted({*range(SIZE.meetings), OF_CLUSTERED_ROWS}))
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


def test_what_a_process_used_is_shown_once_it_is_over():
    """The report of a failed test waited for ever for a turn, and with it the whole run."""
    shown = []
    process = Process("one", MemoryFileIO(), lambda own: own.files.exists("/a"))
    take_turns([process], lambda waiting: waiting[0], lambda _: None)
    assert process.result is False
    late = threading.Thread(target=lambda: shown.append(process.files.uri_of("/a")), daemon=True)
    late.start()
    late.join(5)
    assert shown == ["/a"]
