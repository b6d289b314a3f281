"""Runs independent pieces of work in parallel, with one rule for their end.

1. No piece begins before the caller takes the first result.
2. When :meth:`Executor.map` is left - by its last result, the error of a piece, an interrupt of the
   caller, or because its iterator is closed - no piece runs any more and none begins later. It
   drops pieces that have not begun and waits for running ones. So a clean-up after an error has no
   concurrent work.
3. :meth:`Executor.map_ahead` begins a piece early only while what was begun and not used up yet
   weighs no more than the caller allows: work whose results take memory. :meth:`Executor.ahead`
   makes the next item of an iterator early, and no more.
4. A long piece calls :func:`check_wanted` regularly, which ends it if its result is no longer
   needed. Interrupts that arrive during the wait do not cut it short.
5. The garbage collector may leave a call in any thread: in one that runs a piece of this call, or
   work that such a piece waits for. That thread cannot wait; the piece ends what it works on.

A piece may run others on threads of a higher level (:class:`ThreadExecutor`); on those of its own
level or a lower one it runs them itself, because they could all be waiting for it.

The caller's thread shares only plain locks and simple queues with the others. Both are C code, so
an interrupt comes before or after them. One inside a ``Condition``, and so inside a ``Future`` or a
``ThreadPoolExecutor``, can leave its lock held for ever.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, Self, TypeVar

from tidelake.telemetry.fork import PerProcess, ProcessMark

T = TypeVar("T")
R = TypeVar("R")

AHEAD_MAX = 64
"""Most pieces that `map_ahead` begins before their results are asked for."""

IDLE_SECONDS = 10.0
"""A thread without work ends after so long: catalogs are opened and forgotten by the thousand."""

RECHECK_SECONDS = 0.2
"""A piece that waits for others looks so often whether they have begun to wait for it."""


class Executor(Protocol):
    """Runs independent pieces of work."""

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Return results in the order of the items; raise the first error.

        A caller that may stop before the last result must close the iterator
        (``contextlib.closing``).
        """
        ...

    def map_ahead(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        *,
        weight: Callable[[T], int],
        weight_max: int,
    ) -> Generator[R, None, None]:
        """Return results in the order of the items, beginning a bounded number of pieces early.

        Parameters
        ----------
        weight : callable
            What a piece and its result take, from the item.
        weight_max : int
            Most that pieces weigh together from their beginning until the result after theirs is
            asked for. One piece always runs.
        """
        ...

    def ahead(self, items: Iterator[T]) -> Ahead[T]:
        """Make the next item of an iterator while the caller has the one before.

        Parameters
        ----------
        items : iterator
            It advances on one thread at a time, but not always on the same.
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

    def map_ahead(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        *,
        weight: Callable[[T], int],  # noqa: ARG002 - nothing begins early
        weight_max: int,  # noqa: ARG002
    ) -> Generator[R, None, None]:
        """Return results in the order of the items; no piece begins before its result is wanted."""
        yield from self.map(work, items)

    def ahead(self, items: Iterator[T]) -> Ahead[T]:
        """Return the items; none is made before it is wanted."""
        return Ahead(items, None)

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run it here: one thread cannot be kept from its own interrupts."""
        return work()


class Unwanted(BaseException):
    """Ends a piece of work whose result is no longer needed; only the executor catches it."""


class ThreadExecutor:
    """Runs work on a few threads, which start when they are needed and end when they are idle.

    Parameters
    ----------
    level : int
        Pieces of lower levels may wait for these; pieces of this level or a higher one run work for
        these threads themselves.
    """

    def __init__(self, threads_max: int, *, level: int = 0) -> None:
        self._threads_max = threads_max
        self._level = level
        self._threads = PerProcess(partial(_Threads, threads_max))

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> Generator[R, None, None]:
        """Return results in the order of the items; raise the first error."""
        if self._may_wait_for_itself:
            yield from SerialExecutor().map(work, items)
            return
        batch, count = _Batch(self._level), 0
        try:
            for item in items:
                self._threads.value.submit(partial(batch.run, count, work, item))
                count += 1
            came: dict[int, _Outcome] = {}
            for number in range(count):
                yield _result(*batch.outcome(number, came))
        finally:
            batch.stop()

    def map_ahead(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        *,
        weight: Callable[[T], int],
        weight_max: int,
    ) -> Generator[R, None, None]:
        """Return results in the order of the items; at most ``AHEAD_MAX`` pieces begin early."""
        if self._may_wait_for_itself:
            yield from SerialExecutor().map(work, items)
            return
        batch, count = _Batch(self._level), 0
        came: dict[int, _Outcome] = {}
        weights: deque[int] = deque()  # of the pieces begun whose results are not used up
        rest = _Peeked(iter(items))
        try:
            while True:
                while rest.has_more and len(weights) < AHEAD_MAX:
                    own = weight(rest.next)
                    if weights and sum(weights) + own > weight_max:
                        break
                    piece = partial(batch.run, count, work, rest.take())
                    self._threads.value.submit(piece)
                    weights.append(own)
                    count += 1
                if not weights:
                    return
                yield _result(*batch.outcome(count - len(weights), came))
                weights.popleft()
        finally:
            batch.stop()

    def ahead(self, items: Iterator[T]) -> Ahead[T]:
        """Make the next item of an iterator while the caller has the one before."""
        return Ahead(items, self)

    def begin(self, piece: Callable[[], None]) -> bool:
        """Queue a piece of a batch of this level; False if the caller has to do it itself."""
        if self._may_wait_for_itself:
            return False
        try:
            self._threads.value.submit(piece)
        except RuntimeError:  # there is no thread
            return False
        return True

    @property
    def threads_max(self) -> int:
        """Pieces that run at once."""
        return self._threads_max

    @property
    def level(self) -> int:
        """Pieces of lower levels may wait for these."""
        return self._level

    @property
    def _may_wait_for_itself(self) -> bool:
        """Whether this thread does a piece that others of this executor may wait for."""
        return _HERE.batch is not None and self._level <= _HERE.batch.level

    def uninterrupted(self, work: Callable[[], R]) -> R:
        """Run it on a thread of its own if this is the thread that gets interrupts."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        clean_up = _CleanUp(work)
        _wait_through_interrupts(clean_up.wait)
        result: R = _result(*clean_up.outcome)
        return result

    def __reduce__(self) -> tuple[Callable[..., Executor], tuple[int, ...]]:
        return (_executor, (self._threads_max, self._level))


class CoreExecutor(ThreadExecutor):
    """Threads for work that takes a core, as many as this process has cores.

    A copy in another process works in its caller's thread: Spark gives each core a task of its own.

    Examples
    --------
    >>> import pickle
    >>> type(pickle.loads(pickle.dumps(CoreExecutor(2)))).__name__
    'SerialExecutor'
    """

    def __reduce__(self) -> tuple[Callable[..., Executor], tuple[int, ...]]:
        return (SerialExecutor, ())


def _executor(threads_max: int, level: int) -> ThreadExecutor:
    return ThreadExecutor(threads_max, level=level)


class _Peeked(Generic[T]):
    """An iterator that shows its next item."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._next: list[T] = []

    @property
    def has_more(self) -> bool:
        if not self._next:
            self._next.extend(islice(self._items, 1))
        return bool(self._next)

    @property
    def next(self) -> T:
        return self._next[0]

    def take(self) -> T:
        return self._next.pop()


_Outcome = tuple[Any, BaseException | None]
"""Result or error of a piece of work."""


class _Threads:
    """Threads that take pieces of work from one queue; idle ones end after a while."""

    def __init__(self, threads_max: int) -> None:
        self._pieces: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._threads_max = threads_max
        self._threads_count = 0
        self._starts = threading.Lock()

    def submit(self, piece: Callable[[], None]) -> None:
        """Queue a piece for the next free thread.

        Raises
        ------
        RuntimeError
            There is no thread, and the system refuses a new one.
        """
        serve = self._serve  # made here: a garbage collection under the lock may wait for us
        with self._starts:  # a thread first: a piece that nobody serves is not in the queue
            if self._threads_count < self._threads_max:
                try:
                    _thread.start_new_thread(serve, ())
                except RuntimeError:
                    if self._threads_count <= 0:
                        raise
                else:
                    self._threads_count += 1
            self._pieces.put(piece)  # under the lock, where an idle thread looks before it ends

    def _serve(self) -> None:
        while True:
            has_served = True
            with suppress(BaseException):
                has_served = self._serve_one()
            if not has_served and self._ends():
                return

    def _serve_one(self) -> bool:
        """Do the next piece; False if none came. Its batch passes its error on."""
        try:
            piece = self._pieces.get(timeout=IDLE_SECONDS)
        except Empty:
            return False
        piece()
        return True

    def _ends(self) -> bool:
        """Whether this thread ends: no piece is there, and who brings one starts a thread."""
        with self._starts:
            if not self._pieces.empty():
                return False
            self._threads_count -= 1
            return True


class _Batch:
    """The pieces of one call of ``map``: the number that run, and whether they are needed."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.mark = ProcessMark()
        self._counts = threading.Lock()
        self._running_count = 0
        self.is_wanted = True
        self.is_left = False
        """Whether nobody waits for the pieces that still run: they end what they work on."""
        self.awaited_by: _Batch | None = None
        """The batch whose piece waits for an outcome of this one."""
        self.ended: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    def run(self, number: int, work: Callable[[T], R], item: T) -> None:
        """Do one piece, unless the batch was stopped; its outcome goes into :attr:`ended`."""
        _HERE.batch = self  # before the lock: a garbage collection in here does not wait for it
        try:
            with self._counts:
                if not self.is_wanted:
                    return
                self._running_count += 1
            self._run(number, work, item)
        finally:
            _HERE.batch = None

    def _run(self, number: int, work: Callable[[T], R], item: T) -> None:
        value: R | None = None
        has_failed = True
        try:
            value = work(item)
            has_failed = False
        finally:
            with self._counts:
                self._running_count -= 1
            self.ended.put((number, value, sys.exception() if has_failed else None))

    def outcome(self, number: int, came: dict[int, _Outcome]) -> _Outcome:
        """Wait for a piece; the outcomes of others are put into `came`."""
        self.mark.check("What runs on several threads")
        self.awaited_by = _HERE.batch
        try:
            while number not in came:
                ended, *outcome = self.ended.get()
                came[ended] = tuple(outcome)
        finally:
            self.awaited_by = None
        return came.pop(number)

    def stop(self) -> None:
        """Let no piece begin, and wait for those that run, unless one of them waits for this."""
        if self.mark.is_here:  # a forked child does not have the parent's threads
            self.is_wanted = False
            _wait_through_interrupts(self._wait)

    def _wait(self) -> None:
        while not self._waits_for_here:
            with self._counts:
                if not self._running_count:
                    return
            with suppress(Empty):
                # each piece that runs puts its outcome there when it is not counted
                self.ended.get(timeout=None if _HERE.batch is None else RECHECK_SECONDS)
        self.is_left = True

    @property
    def _waits_for_here(self) -> bool:
        """Whether a piece of this batch cannot end before this thread goes on."""
        batch = _HERE.batch
        while batch is not None and batch is not self:
            batch = batch.awaited_by
        return batch is self


class Ahead(Generic[T]):
    """The items of an iterator; while the caller has one, a thread makes the next.

    Use it in a ``with`` block: at its end no thread works on the next item any more, and the
    iterator is closed. Errors come in the turn of the item that they are about.

    Parameters
    ----------
    threads : ThreadExecutor, optional
        Where they are made; without it, in the caller's thread when they are wanted.

    Examples
    --------
    >>> with Ahead(iter("ab"), ThreadExecutor(1)) as items:
    ...     list(items)
    ['a', 'b']
    """

    def __init__(self, items: Iterator[T], threads: ThreadExecutor | None) -> None:
        self._items = items
        self._threads = threads
        self._batch = _Batch(0 if threads is None else threads.level)
        self._number = 0
        self._is_begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._is_begun:
            self._is_begun = False
            item = _result(*self._batch.outcome(self._number, {}))
            self._number += 1
        else:
            item = next(self._items, _END)
        if item is _END:
            raise StopIteration
        self.begin()
        return item

    def begin(self) -> None:
        """Make the next item now, on a thread."""
        if self._threads is not None and not self._is_begun:
            piece = partial(
                self._batch.run, self._number, partial(_next_of, self._batch), self._items
            )
            self._is_begun = self._threads.begin(piece)

    def close(self) -> None:
        """Wait for the item that is being made, drop it, and close the iterator."""
        self._batch.stop()
        # in a forked child the parent's thread may be inside, in a piece that was left its own
        is_free = self._batch.mark.is_here and not self._batch.is_left
        items, self._items = self._items, iter(())
        self._is_begun = False
        if is_free and isinstance(items, Generator):
            items.close()


_END = object()


def _next_of(batch: _Batch, items: Iterator[T]) -> T | object:
    try:
        return next(items, _END)
    finally:
        if batch.is_left and isinstance(items, Generator):
            items.close()


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
