"""Limits: calls, sessions, the bytes of answers, and readers that do not read."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tidelake.errors import InvalidInputError
from tidelake.service.address.refusal import Refusal
from tidelake.service.executor.config import ExecutorConfig, Limits
from tidelake.service.executor.in_flight import InFlight
from tidelake.service.executor.servicer import TableQueryServicer
from tidelake.telemetry import SystemClock


class Call:
    ended = False

    def cancel(self):
        self.ended = True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def in_flight(clock, **limits):
    return InFlight(Limits(**limits), clock)


def reason(call):
    with pytest.raises(Refusal) as caught:
        call()
    assert caught.value.status.name == "RESOURCE_EXHAUSTED"
    return caught.value.reason


def test_calls_have_a_limit_and_leave_their_place(clock):
    flights = in_flight(clock, calls=2)
    one = flights.enter(Call(), is_session=False)
    flights.enter(Call(), is_session=False)
    assert reason(lambda: flights.enter(Call(), is_session=False)) == "too-many-calls"
    flights.enter(Call(), is_session=True)
    flights.leave(one)
    flights.leave(one)
    flights.enter(Call(), is_session=False)
    assert flights.counts() == (2, 1)


def test_a_new_session_ends_the_one_that_was_idle_longest(clock):
    flights = in_flight(clock, calls=2)
    idle, busy = Call(), Call()
    flights.enter(idle, is_session=True)
    flights.took(flights.enter(busy, is_session=True))
    assert reason(lambda: flights.enter(Call(), is_session=True)) == "too-many-calls"
    clock.now = 2
    flights.enter(Call(), is_session=True)
    assert (idle.ended, busy.ended) == (True, False)
    assert flights.counts() == (0, 2)


def test_a_session_is_idle_behind_a_refusal_too(clock):
    flights = in_flight(clock, calls=1)
    refused = Call()
    session = flights.enter(refused, is_session=True)
    flights.took(session)
    flights.taken(session)  # a refusal was sent: nothing was held
    clock.now = 2
    flights.enter(Call(), is_session=True)
    assert refused.ended


def test_answers_that_wait_have_a_limit_for_all_together(clock):
    flights = in_flight(clock, answer_bytes=100, flight_bytes=150)
    one = flights.enter(Call(), is_session=False)
    two = flights.enter(Call(), is_session=False)
    assert reason(lambda: flights.hold(one, 101)) == "answer-too-large"
    flights.hold(one, 100)
    assert reason(lambda: flights.hold(two, 60)) == "answers-wait"
    flights.leave(one)
    flights.hold(two, 60)
    assert flights.waiting_bytes == 60
    flights.taken(two)
    assert flights.waiting_bytes == 0


def test_an_answer_for_a_caller_that_has_left_is_not_held(clock):
    flights = in_flight(clock, answer_bytes=100, flight_bytes=150)
    for _ in range(9):
        gone = flights.enter(Call(), is_session=False)
        flights.leave(gone)  # its deadline was over while it was answered
        flights.hold(gone, 100)
    assert (flights.waiting_bytes, gone.waiting_bytes) == (0, 0)
    flights.hold(flights.enter(Call(), is_session=False), 100)


def test_a_slow_reader_is_ended_and_a_quick_one_is_not(clock):
    flights = in_flight(clock, slow_reader_seconds=5)
    slow, quick = Call(), Call()
    flights.hold(flights.enter(slow, is_session=False), 10)
    taken = flights.enter(quick, is_session=True)
    flights.hold(taken, 10)
    flights.taken(taken)
    clock.now = 6
    assert flights.end_slow() == 1
    assert (slow.ended, quick.ended) == (True, False)


@pytest.mark.parametrize("value", [0, -1, "4", True])
def test_a_limit_is_a_number_above_zero(value):
    with pytest.raises(InvalidInputError, match="above 0"):
        Limits(keys=value)


def test_a_configuration_goes_through_json_and_shows_no_secret():
    config = ExecutorConfig("h:1", "id", "hidden-word", "/wh", 1, 2, limits=Limits(keys=5))
    assert ExecutorConfig.from_json(config.to_json()) == config
    assert "hidden-word" not in repr(config)
    with pytest.raises(InvalidInputError, match="not whole"):
        ExecutorConfig.from_json(b"")


def test_no_call_waits_for_ever_whatever_its_deadline():
    servicer = TableQueryServicer(SimpleNamespace(limits=Limits(), clock=SystemClock()), None, None)
    begin = time.monotonic()
    ends = [servicer._end(seconds) - begin for seconds in (None, 5.0, 1e12, 0.01)]
    assert ends == pytest.approx([10.0, 4.95, 60.0, 0.0], abs=1.0)
