"""Streams are killed and started again; their tables are equal, and no batch is there twice."""

from __future__ import annotations

import pytest
from proving.stream_kills import KINDS, stream_kills
from proving.stream_rivals import stream_rivals
from sizes import SIZE


@pytest.mark.parametrize("first", range(0, SIZE.stream_chains, SIZE.stream_chains_together))
def test_killed_streams_leave_equal_tables(tmp_path, first):
    seeds = [first + i for i in range(SIZE.stream_chains_together)]
    figures = stream_kills(tmp_path, seeds, kills=SIZE.stream_kills)
    assert sum(figures["killed"].values()) == SIZE.stream_kills
    assert figures["commits"] > len(seeds)


def test_the_chains_of_each_run_meet_all_kinds():
    assert SIZE.stream_chains >= len(KINDS)


@pytest.mark.parametrize("seed", range(SIZE.stream_rivals))
def test_two_drivers_that_are_killed_write_each_row_once_into_one_table(tmp_path, seed):
    figures = stream_rivals(
        tmp_path, seed, kills=SIZE.stream_rival_kills, tables=SIZE.stream_rival_tables
    )
    assert sum(figures["killed"].values()) == SIZE.stream_rival_kills
    assert figures["commits"] > SIZE.stream_rival_tables
