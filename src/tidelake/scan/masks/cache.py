"""A cache of masks. It needs no invalidation: a key names files, and no file ever changes.

A mask is kept under its file and the **set of newer files** that it was computed against. A later
read of the same set takes it as it is. A read of a larger set takes the mask of the largest subset
and looks up only the keys of the other files. A read of a smaller one (time travel, a rollback)
finds nothing here that would hide a row of its own.

Memory: at most the bound that each read gives; the masks unused for longest go first. Sets whose
masks would not fit the memory while they are computed are noted, so that no read tries them again.
"""

from __future__ import annotations

from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.telemetry import RecentlyUsed

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


class MaskCache:
    """Masks by file and set of newer files. Thread-safe.

    A forked child begins with what was there, behind a lock of its own.
    """

    def __init__(self) -> None:
        self._kept: RecentlyUsed[tuple[str, NewerFiles], HiddenRows] = RecentlyUsed()
        self._sets: dict[str, dict[NewerFiles, None]] = {}  # of a file, the one used last at last
        self._refused: RecentlyUsed[bytes, bool] = RecentlyUsed(entries_max=REFUSED_MAX)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._kept.nbytes

    def __len__(self) -> int:
        return len(self._kept)

    def nearest(self, path: str, newer: NewerFiles) -> tuple[NewerFiles, HiddenRows] | None:
        """The mask of a file for the largest kept subset of the newer files.

        Returns
        -------
        (frozenset of str, HiddenRows) or None
            The subset and its mask; None if there is no such mask.
        """
        with self._kept.lock:
            own = self._sets.get(path, {})
            found = (
                newer
                if newer in own
                else max((kept for kept in own if kept <= newer), key=len, default=None)
            )
            if found is None:
                return None
            hidden = self._kept.get((path, found))
            own[found] = own.pop(found)
            return None if hidden is None else (found, hidden)

    def keep(self, path: str, newer: NewerFiles, hidden: HiddenRows, *, bytes_max: int) -> None:
        """Keep a mask, unless it is larger than the whole bound.

        Parameters
        ----------
        newer : frozenset of str
            The newer files that the mask was computed against.
        """
        nbytes = hidden.nbytes + ENTRY_BYTES + NAME_BYTES * len(newer)
        if nbytes > bytes_max:
            return
        with self._kept.lock:
            self._drop(path, newer)
            own = self._sets.setdefault(path, {})
            own[newer] = None
            if len(own) > SUBSETS_MAX:
                self._drop(path, next(iter(own)))
            for dropped, _ in self._kept.keep((path, newer), hidden, nbytes, bytes_max=bytes_max):
                self._drop(*dropped)

    def refuse(self, digest: bytes) -> None:
        """Note that masks cannot be computed; the digest names all files."""
        self._refused.keep(digest, True)

    def is_refused(self, digest: bytes) -> bool:
        """Whether masks are known not to be computable."""
        return digest in self._refused

    def shrink(self, bytes_max: int) -> None:
        """Drop masks until the rest is within a bound."""
        with self._kept.lock:
            for dropped, _ in self._kept.shrink(bytes_max):
                self._drop(*dropped)

    def _drop(self, path: str, newer: NewerFiles) -> None:
        self._kept.pop((path, newer))
        own = self._sets.get(path, {})
        own.pop(newer, None)
        if not own:
            self._sets.pop(path, None)
