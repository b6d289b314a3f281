"""Threads that wait for a storage over a network: :class:`ReadThreads`.

Three kinds, each of which may wait for the next, never the other way round:

1. `runs` read the first rows of all runs of a merge;
2. `files` open data files: footer, and the first columns;
3. `ranges` fetch bytes: manifests, schemas, further columns.

They mostly wait, so they are many, and start when they are first needed. A storage that does not
wait needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelake.telemetry.executor import AHEAD_MAX, Executor, SerialExecutor, ThreadExecutor

RUNS_MAX = 32
"""Runs of merges whose first rows are read at once."""
_RUNS = ThreadExecutor(RUNS_MAX, level=1)
_FILES = ThreadExecutor(AHEAD_MAX, level=2)
_RANGES = ThreadExecutor(AHEAD_MAX, level=3)


@dataclass(frozen=True, slots=True)
class ReadThreads:
    """Where reads over a network run side by side. Picklable.

    By default a process has one of each kind for all its tables, so the number of its threads is
    bounded, and no more requests are in flight.

    Examples
    --------
    >>> list(ReadThreads().ranges.map(len, ["a", "bc"]))
    [1, 2]
    """

    runs: Executor = _RUNS
    files: Executor = _FILES
    ranges: Executor = _RANGES

    def __reduce__(self) -> tuple[Callable[..., ReadThreads], tuple[Executor, ...]]:
        # a copy has the threads of its own process: a Spark worker gets one for each task
        if self == ReadThreads():
            return (ReadThreads, ())
        return (ReadThreads, (self.runs, self.files, self.ranges))

    @classmethod
    def none(cls) -> ReadThreads:
        """No threads: every read waits for the one before."""
        return cls(SerialExecutor(), SerialExecutor(), SerialExecutor())
