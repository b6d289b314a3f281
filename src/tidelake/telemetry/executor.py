"""Independent pieces of work side by side, with one rule for their end.

1. Nothing begins before the first result is asked for.
2. When :meth:`Executor.map` is left - by its last result, the error of a piece, an interrupt of
   the caller, or because its iterator is closed - no piece runs any more and none begins later.
   What has not begun is dropped, what runs is waited for. So who cleans up after an error is alone.
3. A piece that takes long asks :func:`check_wanted` from time to time, which ends it where its
   result is wanted no more. Interrupts that arrive during the wait do not cut it short.

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
        self._threads = PerProcess(partial(_Threads, threads_max))

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Results in the order of the items; the first error is raised."""
        if _HERE.batch is not None:
            # in one of the threads: waiting there for the others could wait for itself
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
        """Run it on a thread of its own where this is the thread that interrupts come to."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        clean_up = _CleanUp(work)
        _wait_through_interrupts(clean_up.wait)
        result: R = _result(*clean_up.outcome)
        return result

    def __reduce__(self) -> tuple[type[ThreadExecutor], tuple[int]]:
        return (ThreadExecutor, (self._threads_max,))


_Outcome = tuple[Any, BaseException | None]
"""What a piece of work gave, or raised."""


class _Threads:
    """Threads that take pieces of work from one queue; they end with the process."""

    def __init__(self, threads_max: int) -> None:
        self._pieces: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._unstarted_count = threads_max
        self._starts = threading.Lock()
        self._is_served = False

    def submit(self, piece: Callable[[], None]) -> None:
        """Let a thread do a piece when one is free.

        Raises
        ------
        RuntimeError
            There is no thread, and the system gives none.
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
            with suppress(BaseException):  # its batch hands the error on
                self._pieces.get()()


class _Batch:
    """The pieces of one call of ``map``: how many run, and whether they are wanted still."""

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
        if self.mark.is_here:  # the threads of a parent are not there to be waited for
            self.is_wanted = False
            _wait_through_interrupts(self._wait)

    def _wait(self) -> None:
        while True:
            with self._counts:
                if not self._running_count:
                    return
            self.ended.get()  # each piece that runs puts its outcome there when it is not counted


class _CleanUp:
    """Work on a thread of its own, done once, however often the wait for it is begun."""

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
            except RuntimeError:  # there is no room for a thread, or the interpreter ends
                self._run()
            self._is_started = True
        with self._ends:
            pass

    def _run(self) -> None:
        if not self._begins.acquire(blocking=False):
            return  # an interrupt came between the start and the note of it
        value: object = None
        has_failed = True  # the caller may be in a handler: then it has an exception without it
        with suppress(BaseException):  # who waits gets it
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
    """End a piece of work whose ``map`` was left; nothing happens anywhere else.

    Costs about 0.1 microseconds: for loops over batches.
    """
    batch = _HERE.batch
    if batch is not None and not batch.is_wanted:
        raise Unwanted


def _result(value: Any, error: BaseException | None) -> Any:
    """Give it; a frame of its own, which lets go of the result when it is given."""
    if error is not None:
        try:
            raise error
        finally:
            del error  # its traceback has this frame
    return value


def _wait_through_interrupts(wait_once: Callable[[], object]) -> None:
    """Wait to the end; what a signal's handler raised meanwhile is raised then."""
    try:
        wait_once()
    except BaseException:
        _wait_through_interrupts(wait_once)
        raise
