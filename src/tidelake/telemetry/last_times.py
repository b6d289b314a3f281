"""When this process last did what is to be done from time to time."""

from __future__ import annotations

from typing import Protocol

from tidelake.telemetry.recently_used import RecentlyUsed

NAMES_MAX = 10_000


class Drawing(Protocol):
    """Randomness, as :class:`tidelake.telemetry.Rng`."""

    def uniform(self, low: float, high: float) -> float:
        """A number in [low, high]."""
        ...


class LastTimes:
    """The last time of each work, by its name. Thread-safe; a copy in another process is empty.

    Examples
    --------
    >>> from tidelake.telemetry import SeededRng
    >>> times, rng = LastTimes(), SeededRng(1)
    >>> times.is_due("look", now_ms=0, interval_ms=10, rng=rng)
    False
    >>> times.is_due("look", now_ms=11, interval_ms=10, rng=rng)
    True
    >>> times.is_due("look", now_ms=12, interval_ms=10, rng=rng)
    False
    """

    def __init__(self) -> None:
        self._last_ms: RecentlyUsed[str, int] = RecentlyUsed(entries_max=NAMES_MAX)

    def __reduce__(self) -> tuple[type[LastTimes], tuple[()]]:
        return (LastTimes, ())

    def is_due(self, name: str, *, now_ms: int, interval_ms: int, rng: Drawing | None) -> bool:
        """Whether the work is to be done now; then this is its last time.

        The first time is an interval away, or drawn from it by `rng`. A clock that was set back
        begins the interval.
        """
        last_ms = self._last_ms.get(name)
        if last_ms is None or last_ms > now_ms:
            drawn_ms = int(rng.uniform(0, interval_ms)) if rng and last_ms is None else 0
            self._last_ms.keep(name, now_ms - drawn_ms)
            return interval_ms == 0
        if interval_ms and now_ms - last_ms <= interval_ms:
            return False
        self._last_ms.keep(name, now_ms)
        return True
