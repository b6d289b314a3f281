"""A cache of masks. It needs no invalidation: a key names files, and no file ever changes.

A mask is kept under its file and the **set of newer files** that it was computed against. A later
read of the same set takes it as it is. A read of a larger set takes the mask of the largest subset
and looks up only the keys of the other files. A read of a smaller one (time travel, a rollback)
finds nothing here that would hide a row of its own.

Memory: at most the bound that each read gives; the masks unused for longest go first. Sets whose
masks would not fit the memory while they are computed are noted, so that no read tries them again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.telemetry import PerProcess

__all__ = ["MaskCache", "NewerFiles"]

NewerFiles = frozenset[str]
"""Newer files by their names, each with its deletion vector if it has one."""

ENTRY_BYTES = 600
NAME_BYTES = 40
"""What an entry takes besides its mask, and each name in its set: the names themselves are
shared."""
SUBSETS_MAX = 64
"""Sets of one file that are compared for the largest subset."""
REFUSED_MAX = 1024
"""Noted sets without masks."""


@dataclass(frozen=True, slots=True)
class _Entry:
    hidden: HiddenRows
    nbytes: int


class MaskCache:
    """Masks by file and set of newer files. Thread-safe.

    A forked child begins with what was there, behind a lock of its own.
    """

    def __init__(self) -> None:
        self._lock = PerProcess(threading.Lock)
        self._kept: OrderedDict[tuple[str, Hashable], _Entry] = OrderedDict()
        self._sets: dict[str, OrderedDict[NewerFiles, None]] = {}
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    def nearest(self, path: str, newer: NewerFiles) -> tuple[NewerFiles, HiddenRows] | None:
        """The mask of a file for the largest kept subset of the newer files.

        Parameters
        ----------
        path : str
            The file.
        newer : frozenset of str
            The newer files.

        Returns
        -------
        (frozenset of str, HiddenRows) or None
            The subset and its mask; None if there is no such mask.
        """
        with self._lock.value:
            own = self._sets.get(path)
            if own is None:
                return None
            found = (
                newer
                if newer in own
                else max((kept for kept in own if kept <= newer), key=len, default=None)
            )
            if found is None:
                return None
            own.move_to_end(found)
            self._kept.move_to_end((path, found))
            return found, self._kept[path, found].hidden

    def keep(self, path: str, newer: NewerFiles, hidden: HiddenRows, *, bytes_max: int) -> None:
        """Keep a mask, unless it is larger than the whole bound.

        Parameters
        ----------
        path : str
            The file.
        newer : frozenset of str
            The newer files that the mask was computed against.
        hidden : HiddenRows
            The mask.
        bytes_max : int
            The bound.
        """
        entry = _Entry(hidden, hidden.nbytes + ENTRY_BYTES + NAME_BYTES * len(newer))
        if entry.nbytes > bytes_max:
            return
        with self._lock.value:
            self._drop(path, newer)
            own = self._sets.setdefault(path, OrderedDict())
            own[newer] = None
            self._kept[path, newer] = entry
            self._bytes += entry.nbytes
            if len(own) > SUBSETS_MAX:
                self._drop(path, next(iter(own)))
        self.shrink(bytes_max)

    def refuse(self, digest: bytes) -> None:
        """Note that masks cannot be computed; the digest names all files."""
        with self._lock.value:
            self._refused[digest] = None
            if len(self._refused) > REFUSED_MAX:
                self._refused.popitem(last=False)

    def is_refused(self, digest: bytes) -> bool:
        """Whether masks are known not to be computable."""
        with self._lock.value:
            return digest in self._refused

    def shrink(self, bytes_max: int) -> None:
        """Drop masks until the rest is within a bound."""
        with self._lock.value:
            while self._bytes > bytes_max:
                path, newer = next(iter(self._kept))
                assert isinstance(newer, frozenset)
                self._drop(path, newer)

    def _drop(self, path: str, newer: NewerFiles) -> None:
        entry = self._kept.pop((path, newer), None)
        if entry is None:
            return
        self._bytes -= entry.nbytes
        own = self._sets[path]
        del own[newer]
        if not own:
            del self._sets[path]
