"""Single gets of many threads, joined into few calls.

A call costs the same for one key and for a hundred. So each executor has a **lane** with at most
two calls under way:

1. A get that finds fewer takes off at once, alone, in its own thread. A lone caller never waits for
   others, and no other thread takes part.
2. A get that finds two under way waits in the lane's queue.
3. A call that lands takes the queue, up to 4,096 gets, and wakes the first of them, which flies
   for all.

A thread that is interrupted while it flies or waits leaves the others their answers: what it
carried is queued again. Nobody waits longer than the deadline.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidelake.errors import TidelakeError
from tidelake.service.client.answers import Row
from tidelake.service.client.keys.key_columns import KeyColumns, Values
from tidelake.service.client.keys.key_router import KeyRouter, Route
from tidelake.service.client.keys.work import ValueWork
from tidelake.service.client.settings import FLIGHTS_MAX, JOINED_KEYS_MAX

LaneKey = tuple[int, tuple[str, ...] | None]
"""An executor, and the columns that are wanted of it."""
Routed = tuple[Values, Route, KeyRouter]
"""A key, where it goes, and who found that."""
Fly = Callable[[Sequence[Routed]], list[Row | None]]
"""Looks some keys up together."""


def work_of(gets: Sequence[Routed], keys: KeyColumns) -> ValueWork:
    """The keys of some gets, as what is looked up together."""
    values, routes, routers = zip(*gets, strict=True)
    router = routers[0]
    if any(other is not router for other in routers):
        return ValueWork(keys, values)  # some were routed before the layout changed
    return ValueWork(keys, values, routes, router)


class _Get:
    """One get that waits."""

    __slots__ = ("error", "group", "routed", "row", "woken")

    def __init__(self, routed: Routed) -> None:
        self.routed = routed
        self.row: Row | None = None
        self.error: TidelakeError | None = None
        self.group: list[_Get] | None = None
        self.woken = threading.Lock()
        self.woken.acquire()


@dataclass(slots=True)
class Lane:
    """The gets of one executor."""

    flights: int = 0
    queue: deque[_Get] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Lanes:
    """Joins gets. Threads share it."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, Lane] = {}

    def get(self, key: LaneKey, routed: Routed, fly: Fly, *, seconds: float) -> Row | None:
        """Look one key up, alone or with others.

        Parameters
        ----------
        fly : callable
            Looks keys up.

        Raises
        ------
        TidelakeError
            What `fly` raised.
        """
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes.setdefault(key, Lane())
        with lane.lock:
            alone = lane.flights < FLIGHTS_MAX
            if alone:
                lane.flights += 1
            else:
                get = _Get(routed)
                lane.queue.append(get)
        if alone:
            try:
                return fly((routed,))[0]
            finally:
                _land(lane)
        return _waited(lane, get, fly, seconds)


def _waited(lane: Lane, get: _Get, fly: Fly, seconds: float) -> Row | None:
    try:
        in_time = get.woken.acquire(timeout=seconds)
        if not in_time:
            with lane.lock:
                queued = get in lane.queue
                if queued:
                    lane.queue.remove(get)
            if queued:
                return fly((get.routed,))[0]  # past its deadline: this says what was wrong
            get.woken.acquire()
    except BaseException:
        _left(lane, get)
        raise
    if get.group is not None:
        _fly(lane, get.group, fly)
    if get.error is not None:
        error = get.error
        raise type(error)(error.message, kind=error.kind, **error.context) from error
    return get.row


def _fly(lane: Lane, group: list[_Get], fly: Fly) -> None:
    """Look a group up; all but the first, which is the caller's, are woken."""
    others = group[1:]
    try:
        rows = fly([g.routed for g in group])
    except TidelakeError as error:
        for get in group:
            get.error = error
    except BaseException:
        with lane.lock:
            lane.queue.extendleft(reversed(others))
        _land(lane)
        raise
    else:
        for get, row in zip(group, rows, strict=True):
            get.row = row
    for get in others:
        get.woken.release()
    _land(lane)


def _land(lane: Lane) -> None:
    """End a flight; the next group takes off in the thread of its first."""
    with lane.lock:
        if not lane.queue:
            lane.flights -= 1
            return
        count = min(len(lane.queue), JOINED_KEYS_MAX)
        group = [lane.queue.popleft() for _ in range(count)]
    group[0].group = group
    group[0].woken.release()


def _left(lane: Lane, get: _Get) -> None:
    """Take a get out whose thread was interrupted while it waited."""
    with lane.lock:
        if get in lane.queue:
            lane.queue.remove(get)
            return
        group = get.group
        if group is None:
            return  # another flies for it
        lane.queue.extendleft(reversed(group[1:]))
    _land(lane)
