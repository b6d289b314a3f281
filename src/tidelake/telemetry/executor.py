"""Runs independent pieces of work in parallel, with one rule for their end.

1. No piece begins before the caller takes the first result.
2. When :meth:`Executor.map` is left - by its last result, the error of a piece, an interrupt of the
   caller, or because its iterator is closed - no piece runs any more and none begins later. It
   drops pieces that have not begun and waits for running ones. So a clean-up after an error has no
   concurrent work.
3. A long piece calls :func:`check_wanted` regularly, which ends it if its result is no longer
   needed. Interrupts that arrive during the wait do not cut it short.

The caller's thread shares only plain locks and simple queues with the others. Both are C code, so
an interrupt comes before or after them. One inside a ``Condition``, and so inside a ``Future`` or a
``ThreadPoolExecutor``, can leave its lock held for ever.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from tidelake.telemetry.fork import PerProcess, ProcessMark

__all__ = ["Executor", "SerialExecutor", "ThreadExecutor", "Unwanted", "check_wanted"]

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Runs independent pieces of work."""

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Return results in the order of the items; raise the first error.

        A caller that may stop before the last result must close the iterator
        (``contextlib.closing``).
        """
        ...

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run a clean-up to its end; interrupts that arrive meanwhile are raised after it."""
        ...


class SerialExecutor:
    """Runs work one piece after another in the caller's thread."""

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Return results in the order of the items."""
        for item in items:
            yield work(item)

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run it here: one thread cannot be kept from its own interrupts."""
        return work()


class Unwanted(BaseException):
    """Ends a piece of work whose result is no longer needed; only the executor catches it."""


class ThreadExecutor:
    """Runs work on a few threads, which start at the first use in each process."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads = PerProcess(partial(_Threads, threads_max))

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Return results in the order of the items; raise the first error."""
        if _HERE.batch is not None:
            # in one of the threads, a wait for the others could wait for itself
            yield from SerialExecutor().map(work, items)
            return
        batch, count = _Batch(), 0
        try:
            for item in items:
                self._threads.value.submit(partial(batch.run, count, work, item))
                count += 1
            came: dict[int, _Outcome] = {}
            for number in range(count):
                batch.mark.check("What runs on several threads")
                while number not in came:
                    ended, *outcome = batch.ended.get()
                    came[ended] = tuple(outcome)
                yield _result(*came.pop(number))
        finally:
            batch.stop()

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run it on a thread of its own if this is the thread that gets interrupts."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        clean_up = _CleanUp(work)
        _wait_through_interrupts(clean_up.wait)
        result: R = _result(*clean_up.outcome)
        return result

    def __reduce__(self) -> tuple[type[ThreadExecutor], tuple[int]]:
        return (ThreadExecutor, (self._threads_max,))


_Outcome = tuple[Any, BaseException | None]
"""Result or error of a piece of work."""


class _Threads:
    """Threads that take pieces of work from one queue; they end with the process."""

    def __init__(self, threads_max: int) -> None:
        self._pieces: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._unstarted_count = threads_max
        self._starts = threading.Lock()
        self._is_served = False

    def submit(self, piece: Callable[[], None]) -> None:
        """Queue a piece for the next free thread.

        Raises
        ------
        RuntimeError
            There is no thread, and the system refuses a new one.
        """
        self._pieces.put(piece)
        with self._starts:
            if self._unstarted_count:
                try:
                    _thread.start_new_thread(self._serve, ())
                except RuntimeError:
                    if not self._is_served:
                        raise
                    return
                self._unstarted_count -= 1
                self._is_served = True

    def _serve(self) -> None:
        while True:
            with suppress(BaseException):  # its batch passes the error on
                self._pieces.get()()


class _Batch:
    """The pieces of one call of ``map``: the number that run, and whether they are needed."""

    def __init__(self) -> None:
        self.mark = ProcessMark()
        self._counts = threading.Lock()
        self._running_count = 0
        self.is_wanted = True
        self.ended: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    def run(self, number: int, work: Callable[[T], R], item: T) -> None:
        """Do one piece, unless the batch was stopped; its outcome goes into :attr:`ended`."""
        with self._counts:
            if not self.is_wanted:
                return
            self._running_count += 1
        _HERE.batch = self
        value: R | None = None
        has_failed = True
        try:
            value = work(item)
            has_failed = False
        finally:
            _HERE.batch = None
            with self._counts:
                self._running_count -= 1
            self.ended.put((number, value, sys.exception() if has_failed else None))

    def stop(self) -> None:
        """Let no piece begin, and wait for those that run."""
        if self.mark.is_here:  # a forked child does not have the parent's threads
            self.is_wanted = False
            _wait_through_interrupts(self._wait)

    def _wait(self) -> None:
        while True:
            with self._counts:
                if not self._running_count:
                    return
            self.ended.get()  # each piece that runs puts its outcome there when it is not counted


class _CleanUp:
    """Work on a thread of its own, done once, even if the wait begins several times."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._begins, self._ends = threading.Lock(), threading.Lock()
        self._ends.acquire()
        self._is_started = False
        self.outcome: _Outcome = (None, None)

    def wait(self) -> None:
        """Start it unless it is started, and wait for its end."""
        if not self._is_started:
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:  # no thread is available, or the interpreter ends
                self._run()
            self._is_started = True
        with self._ends:
            pass

    def _run(self) -> None:
        if not self._begins.acquire(blocking=False):
            return  # an interrupt came between the start and the note of it
        value: object = None
        has_failed = True  # the caller may be in a handler: then it has an exception without it
        with suppress(BaseException):  # the waiting thread gets it
            try:
                value = self._work()
                has_failed = False
            finally:
                self.outcome = (value, sys.exception() if has_failed else None)
        self._ends.release()


class _Here(threading.local):
    """The batch that the current thread works for."""

    batch: _Batch | None = None


_HERE = _Here()


def check_wanted() -> None:
    """End a piece of work whose ``map`` was left; else do nothing.

    Costs about 0.1 microseconds: for loops over batches.
    """
    batch = _HERE.batch
    if batch is not None and not batch.is_wanted:
        raise Unwanted


def _result(value: Any, error: BaseException | None) -> Any:
    """Return the result from a frame of its own, which then releases it."""
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback has this frame
    return value


def _wait_through_interrupts(wait_once: Callable[[], object]) -> None:
    """Wait to the end; raise errors of signal handlers after it."""
    try:
        wait_once()
    except BaseException:
        _wait_through_interrupts(wait_once)
        raise
