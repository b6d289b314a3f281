"""Which hold the frames of a snapshot share, and how long; Spark is a fake."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from waiting import until

from tidelake.spark.jvm import held_frames
from tidelake.spark.jvm.held_frames import HELD_MS_MAX, IDLE_MS_MAX, SILENT_LOOKS_MAX, HeldFrames

HOUR_MS = 3_600_000
SUBJECT = ("/w/db.db/t", 1)


class Clock:
    now_ms = 0


class Hold:
    """A hold that begins some time after it was made."""

    subject = SUBJECT

    def __init__(self, clock, wait_ms=900_000):
        self._clock, self._made_ms, self._wait_ms = clock, clock.now_ms, wait_ms
        self.consumer_id = None if wait_ms else "read-1"
        self.is_released = False

    @property
    def age_ms(self):
        return self._clock.now_ms - self._made_ms

    @property
    def waits_ms(self):
        return self._wait_ms - self.age_ms

    def release(self):
        self.is_released = True


class Context:
    """A Spark that has started some jobs; none runs."""

    def __init__(self):
        self.started = 1
        self.are_left = True
        self._jsc = self

    def sc(self):
        return self

    def dagScheduler(self):
        return self

    def numTotalJobs(self):
        return self.started

    def statusTracker(self):
        return self

    def getActiveJobIds(self):
        return []


class Reads:
    def __init__(self, context):
        self._context = context

    def add(self, plan): ...

    def areLeft(self):
        if self._context.are_left is None:
            raise OSError("no answer")
        return self._context.are_left


class Frames:
    def __init__(self):
        self.clock, self.context, self.frames = Clock(), Context(), HeldFrames()
        name = f"{held_frames.PACKAGE}.{held_frames._NAME}"
        jvm = SimpleNamespace(**{name: lambda: Reads(self.context)})
        self.spark = SimpleNamespace(_jsparkSession=None, sparkContext=self.context, _jvm=jvm)

    def add(self, **how):
        hold = Hold(self.clock, **how)
        execution = SimpleNamespace(analyzed=lambda: None)
        frame = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))
        self.frames.add(self.spark, frame, hold, is_lookup=False)
        return hold

    def look_after(self, ms):
        self.clock.now_ms += ms
        return self.frames.look()


@pytest.fixture
def made(monkeypatch):
    """Frames whose thread does not look by itself."""
    monkeypatch.setattr(held_frames, "defined_class", lambda *_: None)
    monkeypatch.setattr(HeldFrames, "_watch", lambda _: None)
    return Frames()


def test_a_newer_frame_does_not_restart_the_wait_of_the_older(made):
    first = made.add()
    made.clock.now_ms += 600_000
    second = made.add()
    assert not first.is_released
    held = made.add(wait_ms=0)
    assert first.is_released
    made.add(wait_ms=0)
    made.context.are_left = False
    assert made.frames.look() == 0
    assert held.is_released
    assert not second.is_released  # the garbage collector does it


def test_the_hold_that_begins_first_is_shared(made):
    late = made.add()
    soon = made.add(wait_ms=3_000)
    assert late.is_released
    soon.subject = None  # it failed
    other = made.add()
    made.context.are_left = False
    made.frames.look()
    assert other.is_released


def test_a_day_counts_from_the_last_frame(made):
    hold = made.add(wait_ms=0)
    made.clock.now_ms += HELD_MS_MAX - HOUR_MS
    made.add()
    assert made.look_after(HOUR_MS + 1) == 1
    for _ in range(23):
        made.context.started += 1
        assert made.look_after(HOUR_MS - 1) == 1
    made.context.started += 1
    assert made.look_after(HOUR_MS) == 0
    assert hold.is_released


def test_jobs_between_two_looks_count(made):
    made.add()
    for _ in range(3):
        made.context.started += 1
        assert made.look_after(IDLE_MS_MAX) == 1
    assert made.look_after(IDLE_MS_MAX) == 1
    assert made.look_after(1) == 0


def test_a_spark_that_stops_meanwhile_fails_no_look(made, monkeypatch):
    made.add()
    for part in ("dagScheduler", "statusTracker"):
        monkeypatch.setattr(Context, part, lambda _: None)
    assert made.look_after(1) == 1
    made.context._jsc = None
    assert made.frames.look() == 0


def test_a_jvm_is_lost_after_looks_in_a_row_without_an_answer(made):
    made.add()
    for _ in range(2):
        made.context.are_left = None
        for _ in range(SILENT_LOOKS_MAX - 1):
            assert made.frames.look() == 1
        made.context.are_left = True
        assert made.frames.look() == 1
    made.context.are_left = None
    assert [made.frames.look() for _ in range(SILENT_LOOKS_MAX)][-2:] == [1, 0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_followed_by_another(monkeypatch):
    monkeypatch.setattr(held_frames, "defined_class", lambda *_: None)
    monkeypatch.setattr(held_frames, "LOOK_S", 0)
    made, tried, real = Frames(), threading.Event(), HeldFrames.look

    def fails(_):
        tried.set()
        raise ValueError("a bug")

    monkeypatch.setattr(HeldFrames, "look", fails)
    made.add()
    tried.wait()
    until(lambda: not made.frames._is_watched)
    made.context.are_left = False
    monkeypatch.setattr(HeldFrames, "look", real)
    hold = made.add(wait_ms=0)
    until(lambda: hold.is_released)


def test_each_hold_of_a_plan_of_spark_connect_is_kept():
    plan = SimpleNamespace()
    holds = [Hold(Clock()), Hold(Clock())]
    for hold in holds:
        HeldFrames().add(SimpleNamespace(), SimpleNamespace(_plan=plan), hold, is_lookup=True)
    assert plan._tidelake_holds == tuple(holds)
