"""Independent requests to a storage, side by side where each waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelake.fileio import FileIO
from tidelake.telemetry import Executor

T = TypeVar("T")


def at_once(fileio: FileIO, threads: Executor, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make independent calls and return their results in order.

    Parameters
    ----------
    fileio : FileIO
        The storage that they ask. If it is not remote, they run one after the other, here.
    threads : Executor
        Where they run otherwise; they may not wait for threads of the same level.
    calls : sequence of callable
        The calls. The first error in their order is raised.

    Examples
    --------
    >>> from tidelake.fileio import MemoryFileIO
    >>> from tidelake.telemetry import SerialExecutor
    >>> at_once(MemoryFileIO(), SerialExecutor(), [lambda: 1, lambda: 2])
    [1, 2]
    """
    if not fileio.is_remote or len(calls) == 1:
        return [call() for call in calls]
    return list(threads.map(lambda call: call(), calls))
