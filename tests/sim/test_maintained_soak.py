"""Writers, readers and maintenance jobs beside each other, for some seconds; minutes by `make`."""

from __future__ import annotations

from proving import kept_small, maintained_soak


def test_nobody_is_in_the_way_of_another_and_nothing_is_left(tmp_path):
    counts = {"write": 2, "read": 1, "maintain": 2}
    figures = maintained_soak.soak(tmp_path, seconds=4, seed=1, counts=counts)
    assert figures["violations"] == 0
    assert figures["commits"] > 4
    assert figures["jobs"]["files"] > 0


def test_one_command_keeps_twenty_tables_small(tmp_path):
    figures = kept_small.kept_small(tmp_path, seconds=6, seed=1, interval=1.5)
    assert figures["looks"] > 20
    assert figures["rounds"] > 0
    assert figures["runs_max"] < 20  # a busy machine may be a round behind
