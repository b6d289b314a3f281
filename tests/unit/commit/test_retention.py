"""What is kept, beside the rule as the documents say it: id by id, none beyond one that is kept."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tidelake.commit.expiry import Retention, is_decoupled, retentions
from tidelake.options import Options

HOUR_MS = 3_600_000


def kept_by_the_rule(retention, oldest, newest, held, times):
    """The ids that stay, said once more: a walk from the oldest, as long as each may go."""
    stays = oldest
    while True:
        newer = newest - stays
        is_surplus = newest - stays + 1 > retention.count_max
        is_old = times[stays + 1] < retention.older_than_ms if stays + 1 in times else True
        may_go = (
            newer >= retention.count_min
            and (is_surplus or is_old)
            and (held is None or stays < held)
            and stays - oldest < retention.limit
        )
        if not may_go:
            return stays
        stays += 1


@given(
    st.integers(1, 8),
    st.integers(0, 20),
    st.integers(1, 12),
    st.integers(0, 12),
    st.integers(0, 30),
    st.integers(1, 12),
    st.none() | st.integers(1, 30),
)
@example(1, 0, 1, 0, 0, 50, None)
@example(3, 9, 10, 0, 30, 50, 1)
def test_the_end_is_that_of_the_rule(oldest, more, least, surplus, older_than, limit, held):
    newest = oldest + more
    retention = Retention(least, least + surplus, older_than, limit)
    times = {number: number for number in range(oldest, newest + 1)}
    end = retention.end(oldest, newest, consumer_next_id=held, time_ms=times.get)
    assert end == kept_by_the_rule(retention, oldest, newest, held, times)
    assert oldest <= end <= newest


def test_the_options_and_what_a_call_says_in_their_place():
    options = Options.parse({"snapshot.num-retained.max": "20", "snapshot.time-retained": "2 h"})
    now_ms = 10 * HOUR_MS
    of_snapshots, of_changelogs = retentions(options, now_ms=now_ms)
    assert of_snapshots == Retention(10, 20, 8 * HOUR_MS, 50) == of_changelogs
    assert not is_decoupled(of_snapshots, of_changelogs)
    asked, told = retentions(
        options, now_ms=now_ms, count_min=1, count_max=2, older_than_ms=5, limit=3
    )
    assert asked == Retention(1, 2, 5, 3) == told


def test_changelogs_live_longer_by_number_or_by_age():
    for key, value in [
        ("changelog.num-retained.min", "11"),
        ("changelog.time-retained", "61 min"),
        ("snapshot.num-retained.max", "10"),
    ]:
        texts = {key: value}
        if key.startswith("snapshot"):
            texts["changelog.num-retained.max"] = "11"
        assert is_decoupled(*retentions(Options.parse(texts), now_ms=HOUR_MS)), texts
    shorter = Options.parse({"changelog.time-retained": "1 min"})
    assert not is_decoupled(*retentions(shorter, now_ms=HOUR_MS))
