"""Streams of a group wait for the one that is last in event time."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.options import Options
from tidelake.spark.streams.read.alignment import IDLE_MS, AlignmentGroups, AlignmentRule, Reach

RULE = AlignmentRule("g", drift_ms=10, idle_ms=1000)


@pytest.fixture
def groups():
    """A group whose members have joined."""
    made = AlignmentGroups()
    for member in ("slow", "fast", "faster"):
        made.join(RULE, member, now_ms=0)
    return made


def asked(groups, member, watermark, now_ms=0):
    return groups.reach(RULE, member, watermark, now_ms=now_ms)


def test_a_stream_alone_goes_as_far_as_it_likes():
    groups = AlignmentGroups()
    groups.join(RULE, "a", now_ms=0)
    assert asked(groups, "a", 500) is None


def test_the_last_stream_says_how_far_the_others_go(groups):
    asked(groups, "slow", 100)
    asked(groups, "fast", 300)
    assert asked(groups, "faster", 400, 1) == Reach(110, is_last=False)
    assert asked(groups, "slow", 290, 2) == Reach(310, is_last=True)
    assert asked(groups, "faster", 400, 3) == Reach(300, is_last=False)
    groups.note(RULE, "slow", 295, now_ms=3)  # a batch that it is given now
    assert asked(groups, "faster", 400, 3) == Reach(305, is_last=False)


def test_a_stream_without_new_rows_holds_nobody_back_for_long(groups):
    groups.leave(RULE, "faster")
    asked(groups, "slow", 100)
    assert asked(groups, "fast", 300, 999) == Reach(110, is_last=False)
    assert asked(groups, "slow", 100, 999) is not None
    assert asked(groups, "fast", 300, 1000) is None


def test_a_stream_that_was_given_nothing_yet_is_waited_for(groups):
    groups.leave(RULE, "faster")
    assert asked(groups, "slow", None) == Reach(None, is_last=True), "one step each, to begin with"
    assert asked(groups, "fast", 300, 1) == Reach(300, is_last=False)
    assert asked(groups, "slow", None, 2) == Reach(310, is_last=True)


def test_a_stream_that_was_not_asked_yet_lets_others_take_a_step(groups):
    """Else a query of two streams would seem to be at its end when the first one is asked."""
    assert asked(groups, "fast", 300) == Reach(300, is_last=True)


def test_a_stream_that_ended_is_forgotten_and_groups_are_apart(groups):
    groups.leave(RULE, "faster")
    other = AlignmentRule("other", 10, 1000)
    groups.join(other, "fast", now_ms=0)
    asked(groups, "slow", 100)
    assert groups.reach(other, "fast", 300, now_ms=1) is None
    assert asked(groups, "fast", 300, 1) == Reach(110, is_last=False)
    groups.leave(RULE, "slow")
    assert asked(groups, "fast", 300, 2) is None
    groups.leave(RULE, "unknown")


def test_group_and_drift_go_together():
    def rule(**texts):
        return AlignmentRule.of(Options.parse(texts, table="db.t"), table="db.t")

    assert rule() is None
    keys = {"scan.watermark.alignment.group": "g", "scan.watermark.alignment.max-drift": "10 s"}
    assert rule(**keys) == AlignmentRule("g", 10_000, IDLE_MS)
    keys["scan.watermark.idle-timeout"] = "2 s"
    assert rule(**keys).idle_ms == 2000
    for key in keys:
        if key != "scan.watermark.idle-timeout":
            with pytest.raises(InvalidInputError, match="both or neither"):
                rule(**{key: keys[key]})
