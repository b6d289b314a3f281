"""Single gets of many coroutines, joined into few calls: :mod:`tidelake.service.client.lanes`.

Gets that are begun in one turn of the event loop take off together. All runs on the loop's thread,
so there is no lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from tidelake.errors import TidelakeError
from tidelake.service.client.answers import Row
from tidelake.service.client.lanes import LaneKey, Routed
from tidelake.service.client.settings import FLIGHTS_MAX, JOINED_KEYS_MAX

Fly = Callable[[Sequence[Routed]], Awaitable[list[Row | None]]]
Waiting = tuple[Routed, "asyncio.Future[Row | None]"]


@dataclass(slots=True)
class _Lane:
    flights: int = 0
    queue: deque[Waiting] = field(default_factory=deque)
    is_called: bool = False


class AsyncLanes:
    """Joins gets of the coroutines of one event loop."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, key: LaneKey, routed: Routed, fly: Fly) -> asyncio.Future[Row | None]:
        """Look one key up, with others that are begun meanwhile.

        Parameters
        ----------
        fly : callable
            Looks keys up; the same for all gets of a lane.
        """
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes.setdefault(key, _Lane())
        done: asyncio.Future[Row | None] = loop.create_future()
        lane.queue.append((routed, done))
        if lane.flights < FLIGHTS_MAX and not lane.is_called:
            lane.is_called = True
            loop.call_soon(self._take_off, lane, fly)
        return done

    def _take_off(self, lane: _Lane, fly: Fly) -> None:
        lane.is_called = False
        if not lane.queue or lane.flights >= FLIGHTS_MAX:
            return
        lane.flights += 1
        task = asyncio.get_running_loop().create_task(_flights(lane, fly))
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the flights; gets that wait are cancelled with them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _flights(lane: _Lane, fly: Fly) -> None:
    """Fly until nobody waits."""
    group: list[Waiting] = []
    try:
        while lane.queue:
            count = min(len(lane.queue), JOINED_KEYS_MAX)
            group = [lane.queue.popleft() for _ in range(count)]
            await _flight([g for g in group if not g[1].done()], fly)
    finally:
        lane.flights -= 1
        for _, done in group:  # cancelled under way
            if not done.done():
                done.cancel()


async def _flight(group: list[Waiting], fly: Fly) -> None:
    if not group:
        return
    try:
        rows = await fly([routed for routed, _ in group])
    except TidelakeError as error:
        for _, done in group:
            if not done.done():
                copy = type(error)(error.message, kind=error.kind, **error.context)
                copy.__cause__ = error
                done.set_exception(copy)
        return
    for (_, done), row in zip(group, rows, strict=True):
        if not done.done():
            done.set_result(row)
