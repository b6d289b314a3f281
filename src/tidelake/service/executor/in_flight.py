"""What is in flight: calls, sessions and answers that clients have not taken yet.

1. Calls and sessions have a limit each. If all places are taken, a new session ends the one that
   was idle longest, if that was idle for :data:`IDLE_SECONDS`; else the new one is refused.
2. The answers that clients have not read have a limit of bytes, whatever the number of calls: a
   slow reader costs memory until it reads, or its call ends.
3. :meth:`InFlight.end_slow` ends the calls whose answers nobody reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tidelake.service.address.refusal import Refusal, Status
from tidelake.service.executor.config import Limits

IDLE_SECONDS = 1.0


class Cancellable(Protocol):
    """A call that can be ended: gRPC's context."""

    def cancel(self) -> object:
        """End it."""
        ...


@dataclass(eq=False)
class Flight:
    """A call or a session in flight.

    Parameters
    ----------
    is_session : bool
        Whether more requests may come.
    moved : float
        When it last took or gave a message.
    waiting_bytes : int
        Of answers that its client has not taken.
    """

    context: Cancellable
    is_session: bool
    moved: float
    waiting_bytes: int = 0
    is_busy: bool = field(default=False)


class InFlight:
    """All of them; threads share it.

    Parameters
    ----------
    limits : Limits
        The most of each.
    now : callable
        A monotonic clock, in seconds.
    """

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._lock = threading.Lock()
        self._flights: set[Flight] = set()
        self._bytes = 0
        self.ended_slow = 0

    @property
    def waiting_bytes(self) -> int:
        """Of all answers that are not taken."""
        return self._bytes

    def counts(self) -> tuple[int, int]:
        """Calls, and sessions."""
        with self._lock:
            sessions = sum(f.is_session for f in self._flights)
            return len(self._flights) - sessions, sessions

    def enter(self, context: Cancellable, *, is_session: bool) -> Flight:
        """Begin a call or a session.

        Raises
        ------
        Refusal
            All places are taken.
        """
        flight = Flight(context, is_session, self._now())
        with self._lock:
            alike = [f for f in self._flights if f.is_session == is_session]
            idlest = self._idlest(alike) if len(alike) >= self._limits.calls else None
            if len(alike) >= self._limits.calls and idlest is None:
                what = "sessions" if is_session else "calls"
                message = (
                    f"The executor has {len(alike)} {what} in flight, as many as it takes: try"
                    " again later, or start the service with a larger limit."
                )
                raise Refusal(Status.RESOURCE_EXHAUSTED, "too-many-calls", message)
            if idlest is not None:
                self._drop(idlest)
            self._flights.add(flight)
        if idlest is not None:
            idlest.context.cancel()
        return flight

    def leave(self, flight: Flight) -> None:
        """End it; more than once is fine."""
        with self._lock:
            self._drop(flight)

    def took(self, flight: Flight) -> None:
        """A request of a session was taken, and is worked on."""
        flight.moved, flight.is_busy = self._now(), True

    def hold(self, flight: Flight, size_bytes: int) -> None:
        """Hold an answer until it is taken; not one of a call that has ended.

        Raises
        ------
        Refusal
            It is too large, or too much waits already.
        """
        if size_bytes > self._limits.answer_bytes:
            message = (
                f"The answer has {size_bytes} bytes, and one has {self._limits.answer_bytes} at"
                " most: ask for fewer keys or columns at once."
            )
            raise Refusal(Status.RESOURCE_EXHAUSTED, "answer-too-large", message)
        with self._lock:
            if flight not in self._flights:
                return  # its caller left while it was answered: nobody would ever take it
            if self._bytes and self._bytes + size_bytes > self._limits.flight_bytes:
                message = (
                    f"Answers of {self._bytes} bytes wait for clients to take them, and this one"
                    f" has {size_bytes}: {self._limits.flight_bytes} is the most. Try again later."
                )
                raise Refusal(Status.RESOURCE_EXHAUSTED, "answers-wait", message)
            self._bytes += size_bytes
            flight.waiting_bytes += size_bytes
            flight.moved, flight.is_busy = self._now(), False

    def taken(self, flight: Flight) -> None:
        """The client took what was held for it."""
        with self._lock:
            self._bytes -= flight.waiting_bytes
            flight.waiting_bytes = 0
            # also behind a refusal, of which nothing was held
            flight.moved, flight.is_busy = self._now(), False

    def end_slow(self) -> int:
        """End the calls whose answers were left for too long; how many."""
        latest = self._now() - self._limits.slow_reader_seconds
        with self._lock:
            slow = [f for f in self._flights if f.waiting_bytes and f.moved < latest]
            self.ended_slow += len(slow)
        for flight in slow:
            flight.context.cancel()
        return len(slow)

    def _idlest(self, flights: list[Flight]) -> Flight | None:
        idle = [f for f in flights if f.is_session and not f.is_busy and not f.waiting_bytes]
        found = min(idle, key=lambda f: f.moved, default=None)
        if found is None or self._now() - found.moved < IDLE_SECONDS:
            return None
        return found

    def _drop(self, flight: Flight) -> None:
        self._flights.discard(flight)
        self._bytes -= flight.waiting_bytes
        flight.waiting_bytes = 0
