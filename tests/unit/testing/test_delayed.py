"""A storage with a delay does all a FileIO does, and counts what it is asked."""

from __future__ import annotations

import pickle
import threading

import pytest
from unit.fileio.contract import FileIOContract

from tidelake.errors import StorageError
from tidelake.fileio import LocalFileIO, MemoryFileIO, check_range
from tidelake.telemetry import ManualClock
from tidelake.testing import DelayedFileIO, RequestCounts


class TestDelayedFileIO(FileIOContract):
    @pytest.fixture
    def files(self):
        return DelayedFileIO(MemoryFileIO(), delay_ms=0)

    @pytest.fixture
    def root(self):
        return "/w"


def test_requests_wait_and_are_counted_by_rounds():
    clock = ManualClock(0)
    files = DelayedFileIO(MemoryFileIO(), delay_ms=20, clock=clock)
    files.write_once("/a", b"0123456789")
    assert clock.now_ms() == 20
    files.reset()
    files.read_bytes("/a")
    files.read_ranges("/a", [(0, 1), (2, 3), (7, 1)])
    assert files.counts == RequestCounts(4, 2, 3, 15)
    assert clock.now_ms() == 60  # the three ranges waited together
    with files.open_input("/a") as file:
        assert file.size() == 10
        assert file.read_at(2, 3) == b"34"
    assert files.counts.rounds == 4


def test_requests_of_two_threads_at_once_are_one_round():
    both = threading.Barrier(2)

    class Meeting(ManualClock):
        def sleep_ms(self, duration_ms):
            both.wait(10)

    inner = MemoryFileIO()
    inner.write_once("/a", b"0")
    files = DelayedFileIO(inner, delay_ms=20, clock=Meeting())
    threads = [threading.Thread(target=files.size, args=("/a",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (files.counts.requests, files.counts.rounds, files.counts.in_flight_max) == (2, 1, 2)


def test_a_copy_counts_anew():
    files = DelayedFileIO(LocalFileIO(), delay_ms=0)
    assert files.exists("/")
    assert files.counts.requests == 1
    assert pickle.loads(pickle.dumps(files)).counts == RequestCounts()


def test_more_bytes_than_asked_for_are_an_error_of_the_storage():
    check_range("/a", 0, 3, 3)
    with pytest.raises(StorageError, match="sent 10 bytes of /a for the 3") as caught:
        check_range("/a", 0, 3, 10)
    assert caught.value.kind == "wrong_range"
