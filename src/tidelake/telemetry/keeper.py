"""Tends what has to be looked after while nobody calls: one thread for a whole process.

1. :meth:`ThreadKeeper.keep` gives the thread something to tend. The thread starts with the first
   one, and tends each every :data:`TEND_SECONDS` until it says that it has ended.
2. :meth:`ThreadKeeper.end` tells the thread to end something now. It only puts it into a queue, so
   that a finalizer may call it: the garbage collector runs it in any thread, at any line.
3. When the process ends in order, what is still kept is ended, within :data:`EXIT_SECONDS`.

A forked child has none of its parent's: neither the thread nor what it keeps.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol

from tidelake.errors import TidelakeError
from tidelake.telemetry.fork import PerProcess, ProcessMark

TEND_SECONDS = 1.0
EXIT_SECONDS = 5.0
"""Time at the end of the process after which nothing more is ended."""


class Kept(Protocol):
    """Something to look after; both methods may be called by any thread."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended, so that nobody tends it any more."""
        ...

    def tend(self) -> None:
        """Do what is due; called again and again."""
        ...

    def end(self) -> None:
        """End it."""
        ...


class Keeper(Protocol):
    """Looks after things until they end."""

    @property
    def is_running(self) -> bool:
        """Whether it tends by itself."""
        ...

    def keep(self, kept: Kept) -> None:
        """Look after something from now on."""
        ...

    def end(self, kept: Kept) -> None:
        """End something soon. No wait and no lock: for finalizers."""
        ...


class ManualKeeper:
    """Tends when it is told to: a replayable world has no threads.

    Parameters
    ----------
    is_running : bool
        Whether somebody calls :meth:`tend` regularly.

    Examples
    --------
    >>> ManualKeeper().is_running
    False
    """

    def __init__(self, *, is_running: bool = False) -> None:
        self._is_running = is_running
        self._kept: list[Kept] = []
        self._ended: SimpleQueue[Kept] = SimpleQueue()

    @property
    def is_running(self) -> bool:
        """Whether somebody makes it tend."""
        return self._is_running

    def keep(self, kept: Kept) -> None:
        """Look after something when :meth:`tend` is called."""
        self._kept.append(kept)

    def end(self, kept: Kept) -> None:
        """End it at the next :meth:`tend`."""
        self._ended.put(kept)

    def tend(self) -> None:
        """Do what is due."""
        while True:
            try:
                self._ended.get_nowait().end()
            except Empty:
                break
        self._kept = [kept for kept in self._kept if not kept.is_over]
        for kept in self._kept:
            kept.tend()

    @property
    def kept_count(self) -> int:
        """How many it looks after."""
        return len(self._kept)

    def __reduce__(self) -> tuple[object, ...]:
        return (ManualKeeper, ())  # nobody makes the copy tend


class ThreadKeeper:
    """Tends on one thread of the process, which starts when there is something to tend."""

    def __init__(self) -> None:
        self._thread = PerProcess(_KeeperThread)

    @property
    def is_running(self) -> bool:
        """It tends by itself."""
        return True

    def keep(self, kept: Kept) -> None:
        """Look after something from now on."""
        self._thread.value.keep(kept)

    def end(self, kept: Kept) -> None:
        """End something soon."""
        self._thread.value.ended.put(kept)

    def __reduce__(self) -> tuple[object, ...]:
        return (keeper_of_process, ())


class _KeeperThread:
    """The thread and what it tends."""

    def __init__(self) -> None:
        self.ended: SimpleQueue[Kept | None] = SimpleQueue()
        self._new: SimpleQueue[Kept] = SimpleQueue()
        self._kept: set[Kept] = set()
        self._starts = threading.Lock()
        self._is_started = False
        self._sleeps = False
        """Whether the thread waits without an end, since it has nothing to tend."""
        self._mark = ProcessMark()

    def keep(self, kept: Kept) -> None:
        self._new.put(kept)
        if not self._is_started:
            self._start()
        if self._sleeps:
            self.ended.put(None)

    def _start(self) -> None:
        with self._starts:
            if self._is_started:
                return
            self._is_started = True
            atexit.register(self._end_all)
            # where the system refuses a thread nothing is tended: what is kept lapses by time
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=self._run, name="tidelake-keeper", daemon=True).start()

    def _run(self) -> None:
        tended_s = time.monotonic()
        while True:
            self._sleeps = not self._kept
            self._take_new()  # after the line above: what came before it wakes nobody
            try:
                ended = self.ended.get(timeout=TEND_SECONDS if self._kept else None)
            except Empty:
                ended = None
            self._sleeps = False
            if ended is not None:
                _try(ended.end)
                self._kept.discard(ended)
            now_s = time.monotonic()
            if now_s - tended_s < TEND_SECONDS:
                continue
            tended_s = now_s
            self._take_new()
            for kept in tuple(self._kept):
                if kept.is_over:
                    self._kept.discard(kept)
                else:
                    _try(kept.tend)

    def _take_new(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                kept = self._new.get_nowait()
                if not kept.is_over:
                    self._kept.add(kept)

    def _end_all(self) -> None:
        """End what is kept when the process ends; the thread is a daemon and may be anywhere."""
        if not self._mark.is_here:
            return
        until_s = time.monotonic() + EXIT_SECONDS
        self._take_new()
        for kept in tuple(self._kept):
            if time.monotonic() > until_s:
                return
            if not kept.is_over:
                _try(kept.end)


def _try(step: Callable[[], None]) -> None:
    """Go on with the others if the storage of one fails."""
    with contextlib.suppress(TidelakeError, OSError):
        step()


_KEEPER = ThreadKeeper()


def keeper_of_process() -> ThreadKeeper:
    """The keeper that all catalogs of this process share."""
    return _KEEPER
