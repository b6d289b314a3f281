"""Threads that make calls, so that whoever waits for one can give up.

The client has no bound of its own: a name node that hangs would hold its caller for ever. Threads
are made as they are needed and wait for more work. They are daemons: one that hangs does not keep
the process from ending.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from tidelake.telemetry import PerProcess

T = TypeVar("T")
IDLE_S = 60.0
"""A thread that has had no work for so long ends."""


class _Workers:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            is_free = self._idle > 0
            self._idle -= is_free
        if not is_free:  # before the job is there: if this fails, nobody does the job later
            threading.Thread(target=self._run, name="tidelake-hdfs", daemon=True).start()
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._idle > 0:  # else a job is on its way to this thread
                        self._idle -= 1
                        return
                continue
            job()
            del job  # a file that was read is not kept until the next one
            with self._lock:
                self._idle += 1


class _Into:
    """Takes whatever is raised to the caller, also what is no ``Exception``."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return True


_WORKERS: PerProcess[_Workers] = PerProcess(_Workers)


def submit(work: Callable[[], T]) -> Future[T]:
    """Run something on a thread; its result, or what it raised, whatever that is."""
    future: Future[T] = Future()

    def job() -> None:
        with _Into(future):
            future.set_result(work())

    _WORKERS.value.submit(job)
    return future
