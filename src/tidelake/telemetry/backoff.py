"""Waits between attempts that grow and are random in part: :class:`Backoff`."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.telemetry.env import Clock, Rng

DOUBLINGS_MAX = 30
"""A power of two that no number of attempts lets grow without end."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double, up to a longest one; by chance a share shorter or longer.

    Chance keeps those that failed together from meeting again.

    Parameters
    ----------
    first_ms : float
        The wait after the first attempt, before chance.
    longest_ms : float
        No wait is longer, before chance.
    shorter : float
        By which share a wait is shorter at most.
    longer : float
        By which share it is longer at most.

    Examples
    --------
    >>> from tidelake.telemetry import SeededRng
    >>> waits = Backoff(10, 100)
    >>> [waits.wait_ms(attempt, SeededRng(1)) for attempt in range(5)]
    [10.0, 20.0, 40.0, 80.0, 100.0]
    """

    first_ms: float
    longest_ms: float
    shorter: float = 0.0
    longer: float = 0.0

    def wait_ms(self, attempt: int, rng: Rng) -> float:
        """The wait after an attempt; the first is 0."""
        wait_ms = min(self.first_ms * 2 ** min(attempt, DOUBLINGS_MAX), self.longest_ms)
        return wait_ms * (1 + rng.uniform(-self.shorter, self.longer))

    def sleep(self, attempt: int, clock: Clock, rng: Rng) -> None:
        """Wait after an attempt; the first is 0."""
        clock.sleep_ms(self.wait_ms(attempt, rng))
