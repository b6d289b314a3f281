"""What survives ``fork()``: what a process made, told apart from the copy that its child finds.

A forked child has a copy of all objects of its parent and one thread. So it must not

1. wait for the parent's threads or for a lock that one of them held: a :class:`PerProcess` is made
   anew in each process;
2. end what the parent began, delete the parent's files or write into them: who owns such things
   keeps a :class:`ProcessMark`, and a child refuses (:meth:`ProcessMark.check`) or leaves them
   alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidelake.errors import ClosedError

__all__ = ["FORKED", "PerProcess", "ProcessMark"]

FORKED = "forked"
"""Kind of the error of what was carried over a fork."""

T = TypeVar("T")


class _Forks:
    """How many forks lie between this process and the first: an id of a process may come again."""

    count = 0


def _count_fork() -> None:
    _Forks.count += 1


os.register_at_fork(after_in_child=_count_fork)


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """The process that made an object.

    Examples
    --------
    >>> ProcessMark().is_here
    True
    """

    _forks: int = field(default_factory=lambda: _Forks.count)
    _pid: int = field(default_factory=os.getpid)

    @property
    def is_here(self) -> bool:
        """Whether this is the process, and not a forked child of it."""
        return self._forks == _Forks.count

    def check(self, what: str) -> None:
        """Refuse a forked child.

        Parameters
        ----------
        what : str
            Begins the message: what was carried over the fork.

        Raises
        ------
        ClosedError
            This is a forked child of the process.
        """
        if not self.is_here:
            message = (
                f"{what} was opened by process {self._pid}, and this is process {os.getpid()},"
                " forked from it: open a new one in each process."
            )
            raise ClosedError(message, kind=FORKED)


class PerProcess(Generic[T]):
    """A value that each process makes for itself when it first asks. Threads share it.

    Parameters
    ----------
    make : callable
        Makes it; of several threads that ask at once the values of all but one are thrown away.

    Examples
    --------
    >>> numbers = PerProcess(list)
    >>> numbers.value is numbers.value
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}

    @property
    def value(self) -> T:
        """That of this process."""
        forks = _Forks.count
        found = self._made.get(forks)
        # a dict and no lock, which could be held by a thread of the parent at the fork
        return self._made.setdefault(forks, self._make()) if found is None else found
