"""The source's time at a job's position, which the journal keeps for the lag in seconds.

A source says when it committed the last transaction of a range. Of a range without transactions
it says nothing, but a position that reaches what was the newest one at some moment shows all that
had been committed by then:

1. the newest position that this read asked for: the moment before the read;
2. the one of the read before: the moment before that. A source with much traffic that is nothing to
   the job is always a little ahead of the end of a read.

The moments are of the job's clock, the commits of the source's.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelake.cdc.source.changes import Changes


class PositionTimes:
    """Follows the time of a position. For one thread.

    Parameters
    ----------
    is_before : callable
        Compares two positions.

    Attributes
    ----------
    start_ms : int or None
        The tables show what the source had committed until then; None if it is not known.
    """

    def __init__(self, is_before: Callable[[str, str], bool]) -> None:
        self._is_before = is_before
        self.start_ms: int | None = None
        self._end_ms: int | None = None
        self._newest: tuple[str, int] | None = None

    def begin(self, time_ms: int | None) -> None:
        """Take the time of another position."""
        self.start_ms = self._end_ms = time_ms

    def read(self, changes: Changes, began_ms: int) -> None:
        """Take a range that was read; its epoch may follow or not.

        Parameters
        ----------
        began_ms : int
            Before the read, so before its newest position was asked for.
        """
        known = [(changes.newest, began_ms)]
        if self._newest is not None:
            known.append(self._newest)
        times = [at for newest, at in known if not self._is_before(changes.end, newest)]
        times += [at for at in (changes.committed_ms, self._end_ms) if at is not None]
        self._end_ms = max(times, default=None)
        self._newest = (changes.newest, began_ms)

    def applied(self) -> None:
        """The tables show the range that was read last."""
        self.start_ms = self._end_ms
