"""A property that an object computes once, without a lock.

Up to Python 3.11 ``functools.cached_property`` computes under a lock of the whole class. So threads
that merge different rows wait for each other, and a process that is forked meanwhile waits for a
thread that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class kept_property(Generic[T]):
    """Computed at its first use and kept in the object, which needs a ``__dict__``.

    Two threads that ask at once may both compute it; one value is kept.

    Examples
    --------
    >>> class Rows:
    ...     @kept_property
    ...     def counted(self) -> int:
    ...         print("counts")
    ...         return 3
    >>> rows = Rows()
    >>> rows.counted, rows.counted
    counts
    (3, 3)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = ""
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, one: None, owner: type | None = None) -> kept_property[T]: ...

    @overload
    def __get__(self, one: object, owner: type | None = None) -> T: ...

    def __get__(self, one: object | None, owner: type | None = None) -> kept_property[T] | T:
        if one is None:
            return self
        # from now on the object's own entry is found before this
        kept: T = vars(one).setdefault(self._name, self._compute(one))
        return kept
