"""Counts of one table on one executor: what was asked, found and refused, and how long it took."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_SECONDS = 10.0
SAMPLES_MAX = 4_096
"""The newest calls of the window count: enough for a 99th percentile."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Of the last seconds."""

    keys_per_second: float = 0.0
    p50_us: int = 0
    p99_us: int = 0


class Meter:
    """Counts; threads share it.

    Parameters
    ----------
    now : callable
        A monotonic clock, in seconds.

    Examples
    --------
    >>> meter = Meter(now=lambda: 1.0)
    >>> meter.answered(keys=2, found=1, seconds=0.001)
    >>> meter.keys, meter.found, meter.rates().p50_us
    (2, 1, 1000)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._begun = now()
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=SAMPLES_MAX)
        self.requests = self.keys = self.found = self.refused = 0

    def answered(self, *, keys: int, found: int, seconds: float) -> None:
        """Count an answer."""
        with self._lock:
            self.requests += 1
            self.keys += keys
            self.found += found
            self._samples.append((self._now(), keys, int(seconds * 1e6)))

    def refused_one(self) -> None:
        """Count a refusal."""
        with self._lock:
            self.requests += 1
            self.refused += 1

    def rates(self) -> Rates:
        """What the last seconds were like."""
        now = self._now()
        with self._lock:
            recent = [s for s in self._samples if now - s[0] <= WINDOW_SECONDS]
            is_full = len(self._samples) == SAMPLES_MAX and len(recent) == SAMPLES_MAX
        if not recent:
            return Rates()
        times = sorted(us for _, _, us in recent)
        # of a full ring the oldest call says how long the window is
        begin = recent[0][0] if is_full else max(self._begun, now - WINDOW_SECONDS)
        seconds = max(now - begin, 0.001)
        return Rates(
            sum(keys for _, keys, _ in recent) / seconds,
            times[len(times) // 2],
            times[len(times) * 99 // 100],
        )
