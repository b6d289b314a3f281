"""Connections that no call uses now.

The one that came back last is taken first. After many calls at once more are idle than are needed.
Whenever a connection comes back, those that were idle for :data:`IDLE_SECONDS` are closed, so
their number follows the number of calls at once. Each holds a thread of the server.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

IDLE_SECONDS = 10.0
"""A connection that was not needed for so long is closed."""
C = TypeVar("C")


class IdleConnections(Generic[C]):
    """Open connections to one address. Threads share it, without a lock.

    Parameters
    ----------
    close_one : callable
        Closes a connection.
    clock : callable
        Seconds that never go back.

    Examples
    --------
    >>> import io
    >>> now = [0.0]
    >>> idle = IdleConnections(io.BytesIO.close, lambda: now[0])
    >>> one, other = io.BytesIO(), io.BytesIO()
    >>> idle.give_back(one); idle.give_back(other)
    >>> now[0] = 11.0
    >>> idle.give_back(idle.take())
    >>> one.closed, other.closed
    (True, False)
    """

    def __init__(self, close_one: Callable[[C], object], clock: Callable[[], float]) -> None:
        self._close_one = close_one
        self._clock = clock
        self._idle: deque[tuple[C, float]] = deque()
        self._is_closed = False

    def take(self) -> C | None:
        """The connection that came back last; None if all are in use."""
        try:
            return self._idle.pop()[0]
        except IndexError:
            return None

    def give_back(self, connection: C) -> None:
        """Keep a connection for the next call; it is closed if this is closed."""
        now = self._clock()
        self._idle.append((connection, now))
        if self._is_closed:
            self.close()
            return
        # another thread may take the oldest meanwhile: then a younger one is closed, or none
        with contextlib.suppress(IndexError):
            while now - self._idle[0][1] >= IDLE_SECONDS:
                self._close_one(self._idle.popleft()[0])

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._is_closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._close_one(self._idle.popleft()[0])
