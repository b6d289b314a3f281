"""Queries in small over restored checkpoints, kills, rollbacks and alignment: no row is lost."""

from collections import Counter

import pytest
from proving.aligned_streams import run_aligned_streams
from proving.stream_histories import check_stream_history
from sizes import SIZE

BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_each_row_is_there_once_or_the_stream_is_refused(block):
    seen: Counter[str] = Counter()
    for number in range(SIZE.stream_histories // BLOCKS):
        seen += check_stream_history(1_000 + BLOCKS * number + block)
    assert seen["restore"]
    assert seen["rolled back source"] + seen["rolled back target"]


def test_no_stream_of_a_group_is_further_ahead_than_the_drift():
    for seed in range(SIZE.stream_histories):
        run_aligned_streams(1_000 + seed)
