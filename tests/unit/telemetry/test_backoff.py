from __future__ import annotations

import pytest

from tidelake.telemetry import Backoff, ManualClock, SeededRng


class Chance:
    """Randomness that gives one end of every range."""

    def __init__(self, end):
        self.end = end

    def uniform(self, low, high):
        return (low, high)[self.end]


def test_waits_double_up_to_the_longest():
    waits = Backoff(100, 10_000, longer=0.2)
    assert [waits.wait_ms(n, Chance(0)) for n in (0, 1, 6, 7, 1_000)] == [
        100,
        200,
        6_400,
        10_000,
        10_000,
    ]


@pytest.mark.parametrize(
    ("waits", "least", "most"),
    [
        (Backoff(100, 10_000, longer=0.2), 100, 120),
        (Backoff(20, 300, shorter=0.5), 10, 20),
        (Backoff(50, 200), 50, 50),
    ],
)
def test_chance_makes_a_wait_shorter_or_longer(waits, least, most):
    assert waits.wait_ms(0, Chance(0)) == least
    assert waits.wait_ms(0, Chance(1)) == most
    drawn = {waits.wait_ms(0, SeededRng(seed)) for seed in range(50)}
    assert least <= min(drawn) <= max(drawn) <= most


def test_the_clock_that_was_given_waits():
    clock = ManualClock(0)
    Backoff(50, 200).sleep(1, clock, SeededRng(1))
    assert clock.now_ms() == 100
