"""A job as a value: what it will do, how a task does its part, and one commit of all of it.

1. A function plans from metadata and makes a frozen :class:`Plan`. Nothing is written; printed, the
   plan says what would be done.
2. Its tasks need nothing of each other, so a :class:`Runner` may run them anywhere and in any
   order: in this process (:class:`LocalRunner`) or on Spark's executors
   (:class:`tidelake.spark.write.runner.SparkRunner`). :meth:`Plan.run` does a share of them.
3. The commit messages of all shares come together in :class:`Gathered`, and :meth:`Plan.commit`
   publishes them: all of the job's files, or none of them, belong to snapshots.

A plan is picklable, and so is a task. Whatever fails, the files of the job are deleted.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from tidelake.metadata.data_file import CommitMessage
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.result import WriteResult
from tidelake.table.write.table_writer import delete_new_files
from tidelake.table.write.transaction import MessageSource, WriteTransaction
from tidelake.telemetry import ProcessMark


class Weighed(Protocol):
    """Work of a known size."""

    @property
    def size_bytes(self) -> int:
        """The bytes that it reads, about."""
        ...


T = TypeVar("T", bound=Weighed)
Source = TypeVar("Source", bound=MessageSource)


class Gathered:
    """The output of a job: what its tasks have written so far. Not thread-safe.

    Parameters
    ----------
    base_snapshot_id : int, optional
        The snapshot of the plan, 0 for the empty table; None where each task takes the newest.
    """

    def __init__(self, handle: TableHandle, base_snapshot_id: int | None = None) -> None:
        self.handle = handle
        self._mark = ProcessMark()
        self.base_snapshot_id = base_snapshot_id
        self.rows_count = 0
        self.messages: list[CommitMessage] = []
        self._open: MessageSource | None = None

    @contextmanager
    def writing(self, source: Source) -> Iterator[Source]:
        """Let a source write a part; at the end its files are finished and its messages taken.

        An error inside leaves the files to :meth:`abort`, which every owner calls.
        """
        self._open = source
        yield source
        self.add(source.prepare_commit(), rows_count=source.rows_count)
        self._open = None
        source.close()

    def add(self, messages: Sequence[CommitMessage], *, rows_count: int = 0) -> None:
        """Take the messages of files that a task has written."""
        self.messages += messages
        self.rows_count += rows_count

    def replace(self, messages: Sequence[CommitMessage]) -> None:
        """Change the messages to others of the same files."""
        self.messages = list(messages)

    def prepare_commit(self) -> Sequence[CommitMessage]:
        """The messages."""
        return self.messages

    def close(self) -> None:
        """Release what a task holds that did not end; the files stay."""
        if self._open is not None:
            self._open.close()

    def abort(self) -> None:
        """Delete the files, of a task that did not end too; a forked child deletes none.

        Interrupts that arrive meanwhile are raised at the end.
        """
        self.handle.env.executor.uninterrupted(self._abort)

    def _abort(self) -> None:
        try:
            if self._open is not None:
                self._open.abort()
        finally:
            if self._mark.is_here:
                delete_new_files(self.handle.fileio, self.handle.paths, self.messages)
            self.messages.clear()


class Plan(ABC, Generic[T]):
    """What a job will do; a subclass is a frozen dataclass, and picklable."""

    __slots__ = ()

    tasks: Sequence[T]
    """Pieces of work that need nothing of each other; without any there is nothing to do."""

    @property
    @abstractmethod
    def base_snapshot_id(self) -> int | None:
        """The snapshot that the commit builds on; None where each task takes the newest."""

    def without_tasks(self) -> Self:
        """The plan for a process that gets its tasks apart from it."""
        return cast("Self", replace(cast("Any", self), tasks=()))

    @abstractmethod
    def run(self, tasks: Sequence[T], into: Gathered) -> None:
        """Do some of the tasks, on the table ``into.handle``.

        Runs in any process. Errors leave what was written to the caller, who aborts `into`.
        """

    @abstractmethod
    def commit(self, out: WriteTransaction, gathered: Gathered) -> WriteResult:
        """Publish what all tasks have written; `gathered` is the source of `out`."""

    def carry_out(self, transaction: WriteTransaction, runner: Runner) -> WriteResult:
        """Run all tasks, then commit once.

        Raises
        ------
        ConflictError
            Other commits were faster; nothing was changed.
        """
        if not self.tasks:
            return WriteResult()
        with transaction as out:
            gathered = out.take(Gathered(out.handle, self.base_snapshot_id))
            runner.run(self, gathered)
            return self.commit(out, gathered)


class Runner(Protocol):
    """Runs the tasks of a plan."""

    def run(self, plan: Plan[T], into: Gathered) -> None:
        """Run all tasks and gather what they wrote.

        Raises
        ------
        TidelakeError
            A task failed; what the others wrote is in `into`, for its owner to delete.
        """
        ...


class LocalRunner:
    """Runs tasks in this process, one after the other.

    A task uses all cores for its own work (reads, merges and encodings run on the threads of the
    environment), and only one holds memory at a time.
    """

    def run(self, plan: Plan[T], into: Gathered) -> None:
        """Run all tasks and gather what they wrote."""
        plan.run(plan.tasks, into)


HERE = LocalRunner()
"""The runner of this process."""


def in_shares(tasks: Sequence[T], *, count: int, cost: int = 0) -> list[list[T]]:
    """Spread tasks over shares of even weight; each task weighs `cost` besides its bytes.

    The heaviest comes first, each goes to the lightest share (at most 4/3 of the best spread).

    Parameters
    ----------
    count : int
        The number of shares; there are never more than tasks.
    """
    count = min(count, len(tasks))
    shares: list[list[T]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for task in sorted(tasks, key=lambda t: -t.size_bytes):
        weight, number = heapq.heappop(heap)
        shares[number].append(task)
        heapq.heappush(heap, (weight + task.size_bytes + cost, number))
    return shares
