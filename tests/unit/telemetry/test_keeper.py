"""The keeper tends what it is given, ends what it is told to, and goes on after an error."""

from __future__ import annotations

import pickle
import threading

import pytest

from tidelake import StorageError
from tidelake.telemetry import ManualKeeper, ThreadKeeper, keeper

WAIT_S = 60


class Thing:
    def __init__(self, *, fails: bool = False) -> None:
        self.is_over = False
        self.fails = fails
        self.tended, self.ended = threading.Event(), threading.Event()

    def tend(self):
        self.tended.set()
        if self.fails:
            raise StorageError("no answer")

    def end(self):
        self.is_over = True
        self.ended.set()


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(keeper, "TEND_SECONDS", 0.01)


def test_a_thread_tends_all_though_one_fails_and_ends_what_it_is_told():
    first, second = Thing(fails=True), Thing()
    made = ThreadKeeper()
    made.keep(first)
    assert first.tended.wait(WAIT_S)
    made.keep(second)
    assert second.tended.wait(WAIT_S)
    made.end(first)
    assert first.ended.wait(WAIT_S)
    first.tended.clear()
    second.tended.clear()
    assert second.tended.wait(WAIT_S)
    assert not first.tended.is_set()


def test_a_thread_that_has_nothing_to_do_wakes_for_the_next():
    made, things = ThreadKeeper(), [Thing() for _ in range(20)]
    for thing in things:
        made.keep(thing)
        assert thing.tended.wait(WAIT_S)
        made.end(thing)
        assert thing.ended.wait(WAIT_S)


def test_a_manual_one_tends_when_it_is_told():
    made, thing = ManualKeeper(), Thing()
    made.keep(thing)
    assert not thing.tended.is_set()
    made.tend()
    assert thing.tended.is_set()
    made.end(thing)
    assert not thing.ended.is_set()
    made.tend()
    assert thing.ended.is_set()
    assert made.kept_count == 0


def test_a_copy_is_the_keeper_of_its_process():
    assert pickle.loads(pickle.dumps(ThreadKeeper())) is keeper.keeper_of_process()
    assert not pickle.loads(pickle.dumps(ManualKeeper(is_running=True))).is_running
