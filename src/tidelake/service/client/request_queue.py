"""Single gets of many callers, joined into few requests.

A request costs the same for one key and for a hundred. So each executor has a queue, with at most
two requests in flight:

1. A get that finds fewer is sent at once, by its own caller. A lone thread never waits for others,
   and no other thread takes part. Coroutines that begin in one turn of their loop go together.
2. A get that finds two in flight waits in the queue.
3. At the end of a request up to 4,096 gets are taken from the queue, and the caller of the first is
   woken, who sends for all.

A caller that is interrupted while it sends or waits leaves the others their answers: what it
carried is queued again, and so is what has time left when the deadline of the first is over. No
thread waits longer than the deadline.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, Protocol

from tidelake.errors import TidelakeError
from tidelake.service.client.answers import Row
from tidelake.service.client.connection.caller import ClientCaller, Waiter
from tidelake.service.client.keys.key_router import RoutedKey
from tidelake.service.client.settings import IN_FLIGHT_MAX, JOINED_KEYS_MAX


class Sender(Protocol):
    """Sends gets."""

    async def send(
        self, keys: Sequence[RoutedKey], columns: tuple[str, ...] | None, end: float
    ) -> list[Row | None]:
        """Look some keys of one executor up together.

        Parameters
        ----------
        end : float
            When to give up, in seconds of the monotonic clock.
        """
        ...


class _Get:
    """One get that waits."""

    __slots__ = ("end", "error", "group", "has_left", "key", "row", "waiter")

    def __init__(self, key: RoutedKey, end: float, waiter: Waiter) -> None:
        self.key = key
        self.end = end
        self.waiter = waiter
        self.row: Row | None = None
        self.error: TidelakeError | None = None
        self.group: list[_Get] | None = None
        """Those for which this one sends, itself the first."""
        self.has_left = False

    def raise_own(self, error: TidelakeError) -> NoReturn:
        """Raise the error of its request: each caller one of its own."""
        raise type(error)(error.message, kind=error.kind, **error.context) from error


class RequestQueue:
    """The gets of some columns from one executor. Shared by those who share the client."""

    def __init__(
        self,
        sender: Sender,
        columns: tuple[str, ...] | None,
        caller: ClientCaller,
        deadline_seconds: float,
        now: Callable[[], float],
    ) -> None:
        self._sender = sender
        self._columns = columns
        self._caller = caller
        self._gathers = caller.gathers
        self._deadline_seconds = deadline_seconds
        self._now = now
        self._in_flight = 0
        self._is_gathering = False
        self._waiting: deque[_Get] = deque()
        self._lock = threading.Lock()

    def get(self, key: RoutedKey, end: float) -> Coroutine[Any, Any, Row | None]:
        """Look one key up, alone or with others; to be awaited at once.

        Raises
        ------
        TidelakeError
            What the sender raised.
        """
        with self._lock:
            sends = self._in_flight < IN_FLIGHT_MAX and not self._is_gathering
            if sends:
                self._in_flight += 1
                self._is_gathering = self._gathers
            else:
                get = _Get(key, end, self._caller.waiter())
                self._waiting.append(get)
        if not sends:
            return self._waited(get)
        return self._gathered(key, end) if self._gathers else self._alone(key, end)

    async def _alone(self, key: RoutedKey, end: float) -> Row | None:
        try:
            return (await self._sender.send((key,), self._columns, end))[0]
        finally:
            self._finish()

    async def _gathered(self, key: RoutedKey, end: float) -> Row | None:
        """Send for those who begin in this turn."""
        own = _Get(key, end, self._caller.waiter())
        try:
            await self._caller.turn()
        except BaseException:
            self._is_gathering = False
            self._finish()
            raise
        with self._lock:
            self._is_gathering = False
            group = [own, *self._taken(JOINED_KEYS_MAX - 1)]
        await self._send(group)
        if own.error is not None:
            own.raise_own(own.error)
        return own.row

    async def _waited(self, get: _Get) -> Row | None:
        try:
            if not await self._caller.wait(get.waiter, self._deadline_seconds):
                with self._lock:
                    is_queued = get in self._waiting
                    if is_queued:
                        self._waiting.remove(get)
                if is_queued:  # past its deadline: this says what was wrong
                    return (await self._sender.send((get.key,), self._columns, get.end))[0]
                await self._caller.wait(get.waiter, None)
        except BaseException:
            self._leave(get)
            raise
        if get.group is not None:
            await self._send(get.group)
        if get.error is not None:
            get.raise_own(get.error)
        return get.row

    async def _send(self, group: list[_Get]) -> None:
        """Send a group; all but the first, which is the caller's, are woken."""
        first, *others = group
        end = first.end
        try:
            rows = await self._sender.send([get.key for get in group], self._columns, end)
        except TidelakeError as error:
            first.error = error
            now = self._now()
            again = [get for get in others if get.end > now >= end]
            if again:
                others = [get for get in others if get.end <= now]
                with self._lock:
                    self._waiting.extendleft(reversed(again))
            for get in others:
                get.error = error
        except BaseException:
            with self._lock:
                self._waiting.extendleft(reversed(others))
            self._finish()
            raise
        else:
            for get, row in zip(group, rows, strict=True):
                get.row = row
        self._caller.wake([get.waiter for get in others])
        self._finish()

    def _finish(self) -> None:
        """End a request; the caller of the first that waits sends the next group."""
        with self._lock:
            group = [] if self._is_gathering else self._taken(JOINED_KEYS_MAX)
            if not group:
                self._in_flight -= 1
                return
        group[0].group = group
        self._caller.wake((group[0].waiter,))

    def _taken(self, count_max: int) -> list[_Get]:
        """Take gets out of the queue whose callers still wait; the lock is held."""
        group: list[_Get] = []
        while self._waiting and len(group) < count_max:
            get = self._waiting.popleft()
            if not get.has_left:
                group.append(get)
        return group

    def _leave(self, get: _Get) -> None:
        """Take a get out whose caller was interrupted while it waited."""
        with self._lock:
            get.has_left = True
            group = get.group
            if group is None:
                return  # it waits no longer, or another sends it
            self._waiting.extendleft(reversed(group[1:]))
        self._finish()
