"""A bounded map from which the entries unused for longest go first: :class:`RecentlyUsed`.

Every cache of decoded files, orders, masks and open clients is one. cachetools' ``LRUCache`` was
looked at: its bound is fixed when it is made, and here each read gives the bound of its table; it
has no lock, and one held by another thread at a fork must not stop the child.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from tidelake.telemetry.fork import PerProcess

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """Values by key within a number and a size. Thread-safe.

    A forked child begins with what was there, behind a lock of its own. A fork during a change
    leaves the child's size wrong by one entry, which is harmless.

    Parameters
    ----------
    entries_max : int, optional
        Most entries.
    bytes_max : int, optional
        Bound of the values' sizes together; :meth:`keep` may give another.

    Examples
    --------
    >>> kept = RecentlyUsed(entries_max=2)
    >>> dropped = [kept.keep(key, key.upper()) for key in "ab"]
    >>> kept.get("a")
    'A'
    >>> kept.keep("c", "C")
    [('b', 'B')]
    """

    def __init__(self, *, entries_max: int | None = None, bytes_max: int | None = None) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        # a garbage collection under the lock may end a read, which comes back for the lock
        self._lock = PerProcess(threading.RLock)
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0

    @property
    def lock(self) -> threading.RLock:
        """Makes several calls one step, and keeps what belongs to the entries in step with them."""
        return self._lock.value

    @property
    def nbytes(self) -> int:
        """Sizes of the values together."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        """A value, which from now on is the one used last; None if it is not there."""
        with self._lock.value:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def sizes(self) -> list[tuple[K, V, int]]:
        """Every key, its value and its size, the one unused for longest first."""
        with self._lock.value:
            return [(key, value, nbytes) for key, (value, nbytes) in self._kept.items()]

    def keep(
        self, key: K, value: V, nbytes: int = 0, *, bytes_max: int | None = None
    ) -> list[tuple[K, V]]:
        """Keep a value in place of an older one, unless it is larger than the whole bound.

        Returns
        -------
        list of (key, value)
            What had to go, without the older value.
        """
        bound = self._bytes_max if bytes_max is None else bytes_max
        with self._lock.value:
            self.pop(key)
            if bound is not None and nbytes > bound:
                return []
            self._kept[key] = (value, nbytes)
            self._bytes += nbytes
            dropped = [] if bound is None else self.shrink(bound)
            if self._entries_max is not None and len(self._kept) > self._entries_max:
                dropped.append(self._drop_oldest())
            return dropped

    def pop(self, key: K) -> V | None:
        """Take a value out; None if it is not there."""
        with self._lock.value:
            found = self._kept.pop(key, None)
            if found is None:
                return None
            self._bytes -= found[1]
            return found[0]

    def shrink(self, bytes_max: int) -> list[tuple[K, V]]:
        """Take out until the rest is within a bound; gives what had to go."""
        dropped = []
        with self._lock.value:
            while self._kept and self._bytes > bytes_max:
                dropped.append(self._drop_oldest())
        return dropped

    def _drop_oldest(self) -> tuple[K, V]:
        key, (value, nbytes) = self._kept.popitem(last=False)
        self._bytes -= nbytes
        return key, value
