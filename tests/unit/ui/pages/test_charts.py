"""The geometry of charts."""

from dataclasses import replace

import pytest

from tidelake.ui.pages.charts import BARS_MAX, BASE, HEIGHT, WIDTH, share, timeline_chart


@pytest.fixture
def snapshots(orders):
    log = orders.handle.snapshots
    return tuple(log.load(n) for n in log.ids())


def test_bars_go_up_for_rows_that_came_and_down_for_those_that_went(snapshots):
    came, went = (replace(snapshots[0], delta_record_count=n) for n in (500, -500))
    nothing = replace(snapshots[0], delta_record_count=None)
    up, down, flat = timeline_chart([came, went, nothing]).bars
    assert up.y + up.height == BASE
    assert down.y == BASE
    assert down.y + down.height <= HEIGHT
    assert 0 < flat.height < down.height < up.height
    assert up.words.startswith("snapshot 1, APPEND, +500 stored rows, ")


def test_of_many_snapshots_the_newest_fit(snapshots):
    many = [replace(snapshots[0], id=n) for n in range(1, 3 * BARS_MAX)]
    chart = timeline_chart(many)
    assert len(chart.bars) == BARS_MAX
    assert chart.bars[-1].words.startswith(f"snapshot {3 * BARS_MAX - 1},")
    assert chart.bars[-1].x + chart.bars[-1].width <= WIDTH
    assert all(a.x + a.width < b.x for a, b in zip(chart.bars, chart.bars[1:], strict=False))


def test_no_snapshots_have_no_chart():
    assert timeline_chart([]) is None


def test_a_share_is_seen_if_it_is_there():
    assert [share(0, 9), share(1, 10**9), share(9, 9), share(1, 0)] == [0, 0.8, 100, 0]
