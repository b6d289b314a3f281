"""Protects objects from use in a forked child, which gets copies of them.

A forked child has a copy of all objects of its parent and one thread. So it must not

1. wait for the parent's threads or for a lock that one of them held: each process makes its own
   value of a :class:`PerProcess`;
2. end the parent's work, or delete or write the parent's files: an object that owns them keeps a
   :class:`ProcessMark`, and in a child it refuses (:meth:`ProcessMark.check`) or leaves them
   unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tidelake.errors import ClosedError

FORKED = "forked"
"""Kind of the error for an object used in a forked child."""

T = TypeVar("T")


class _Forks:
    """Number of forks between the first process and this one: process ids are reused."""

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
        """Whether this is that process, and not a forked child."""
        return self._forks == _Forks.count

    def check(self, what: str) -> None:
        """Refuse a forked child.

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
    """A value that each process makes at its first use. Threads share it.

    Parameters
    ----------
    make : callable
        Makes the value; if several threads call it at once, one of their values is kept.

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
        """The value of this process."""
        forks = _Forks.count
        found = self._made.get(forks)
        # a dict and no lock, which could be held by a thread of the parent at the fork
        return self._made.setdefault(forks, self._make()) if found is None else found
