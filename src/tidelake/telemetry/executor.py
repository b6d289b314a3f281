"""Independent pieces of work side by side, with one rule for their end.

1. Nothing begins before the first result is asked for.
2. When :meth:`Executor.map` is left - by its last result, the error of a piece, an interrupt of
   the caller, or because its iterator is closed - no piece runs any more and none begins later.
   What has not begun is dropped, what runs is waited for. So who cleans up after an error is alone.
3. A piece that takes long asks :func:`check_wanted` from time to time, which ends it where its
   result is wanted no more. Interrupts that arrive during the wait do not cut it short.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Protocol, TypeVar

from tidelake.telemetry.fork import PerProcess, ProcessMark

__all__ = ["Executor", "SerialExecutor", "ThreadExecutor", "Unwanted", "check_wanted"]

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Where independent pieces of work run."""

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Results in the order of the items; the first error is raised.

        Who may stop before the last result closes the iterator (``contextlib.closing``).
        """
        ...

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run a clean-up to its end; interrupts that arrive meanwhile are raised after it."""
        ...


class SerialExecutor:
    """Runs work one piece after another in the caller's thread."""

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Results in the order of the items."""
        for item in items:
            yield work(item)

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run it here: one thread cannot be kept from its own interrupts."""
        return work()


class Unwanted(BaseException):
    """Ends a piece of work whose result nobody wants any more; nobody but the executor sees it."""


class ThreadExecutor:
    """Runs work on a few threads; threads start at the first use, in each process anew."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._pool = PerProcess(
            partial(ThreadPoolExecutor, threads_max, thread_name_prefix="tidelake")
        )

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Results in the order of the items; the first error is raised."""
        if _HERE.batch is not None:
            # in one of the threads: waiting there for the others could wait for itself
            yield from SerialExecutor().map(work, items)
            return
        batch = _Batch()
        try:
            pool = self._pool.value
            futures = deque(pool.submit(batch.run, work, item) for item in items)
            while futures:
                batch.mark.check("What runs on several threads")
                yield _result(futures.popleft())
        finally:
            batch.stop()

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run it on a thread of its own where this is the thread that interrupts come to."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        pool = ThreadPoolExecutor(1, thread_name_prefix="tidelake-clean-up")
        try:
            outcome = pool.submit(work)
        except RuntimeError:  # there is no room for a thread, or the interpreter ends
            return work()
        pool.shutdown(wait=False)
        _wait_through_interrupts(partial(wait, [outcome]))
        return outcome.result()

    def __reduce__(self) -> tuple[type[ThreadExecutor], tuple[int]]:
        return (ThreadExecutor, (self._threads_max,))


class _Batch:
    """The pieces of one call of ``map``: how many run, and whether they are wanted still."""

    def __init__(self) -> None:
        self.mark = ProcessMark()
        self._changed = threading.Condition(threading.Lock())
        self._running_count = 0
        self.is_wanted = True

    def run(self, work: Callable[[T], R], item: T) -> R:
        """Do one piece, unless the batch was stopped."""
        with self._changed:
            if not self.is_wanted:
                raise Unwanted
            self._running_count += 1
        _HERE.batch = self
        try:
            return work(item)
        finally:
            _HERE.batch = None
            with self._changed:
                self._running_count -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """Let no piece begin, and wait for those that run."""
        if self.mark.is_here:  # the threads of a parent are not there to be waited for
            self.is_wanted = False
            _wait_through_interrupts(self._wait)

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._running_count)


class _Here(threading.local):
    """The batch that the current thread works for."""

    batch: _Batch | None = None


_HERE = _Here()


def check_wanted() -> None:
    """End a piece of work whose ``map`` was left; nothing happens anywhere else.

    Costs about 0.1 microseconds: for loops over batches.
    """
    batch = _HERE.batch
    if batch is not None and not batch.is_wanted:
        raise Unwanted


def _result(future: Future[R]) -> R:
    return future.result()  # in a frame of its own, which lets go of the result when it is given


def _wait_through_interrupts(wait_once: Callable[[], object]) -> None:
    """Wait to the end; what a signal's handler raised meanwhile is raised then."""
    try:
        wait_once()
    except BaseException:
        _wait_through_interrupts(wait_once)
        raise
