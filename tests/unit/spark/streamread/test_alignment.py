"""Streams of a group wait for the one that is last in event time."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.options import Options
from tidelake.spark.streamread.alignment import IDLE_MS, AlignmentGroups, AlignmentRule

RULE = AlignmentRule("g", drift_ms=10, idle_ms=1000)


def test_a_stream_alone_goes_as_far_as_it_likes():
    assert AlignmentGroups().allowed(RULE, "a", 500, now_ms=0) is None


def test_the_last_stream_says_how_far_the_others_go():
    groups = AlignmentGroups()
    groups.allowed(RULE, "slow", 100, now_ms=0)
    groups.allowed(RULE, "fast", 300, now_ms=0)
    assert groups.allowed(RULE, "faster", 400, now_ms=1) == 110
    assert groups.allowed(RULE, "slow", 290, now_ms=2) == 310
    assert groups.allowed(RULE, "faster", 400, now_ms=3) == 300


def test_a_stream_without_new_rows_holds_nobody_back_for_long():
    groups = AlignmentGroups()
    groups.allowed(RULE, "slow", 100, now_ms=0)
    assert groups.allowed(RULE, "fast", 300, now_ms=999) == 110
    assert groups.allowed(RULE, "slow", 100, now_ms=999) is not None
    assert groups.allowed(RULE, "fast", 300, now_ms=1000) is None


def test_a_stream_without_a_watermark_yet_is_waited_for():
    groups = AlignmentGroups()
    groups.allowed(RULE, "new", None, now_ms=0)
    assert groups.allowed(RULE, "fast", 300, now_ms=1) == 300
    assert groups.allowed(RULE, "new", None, now_ms=2) is None


def test_a_stream_that_ended_is_forgotten_and_groups_are_apart():
    groups = AlignmentGroups()
    other = AlignmentRule("other", 10, 1000)
    groups.allowed(RULE, "slow", 100, now_ms=0)
    assert groups.allowed(other, "fast", 300, now_ms=1) is None
    assert groups.allowed(RULE, "fast", 300, now_ms=1) == 110
    groups.leave(RULE, "slow")
    assert groups.allowed(RULE, "fast", 300, now_ms=2) is None
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
