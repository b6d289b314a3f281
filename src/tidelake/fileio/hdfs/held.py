"""A directory that is held by a hidden one in it, of a unique name.

What is put within the held directory is written into the hidden one and renamed out of it; what is
deleted there is renamed into it. At the end the hidden one is deleted.

A process that dies leaves its hidden directory behind. Whoever lets go of the same directory later
clears it, at most once in :data:`SWEEP_SECONDS`: hidden ones that nobody has changed for
:data:`ABANDONED_MS` longer than one's own are deleted. Both times are the name node's, so no clock
of another machine counts. A process changes those that it holds every :data:`RENEW_SECONDS`, with
whatever else it asks of the storage. Where a process stood still for so long and goes on, it is as
if the directory that it held were removed: it puts and deletes nothing, and its commit is refused
or, if it stood still in the midst of a put, is of unknown outcome.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import Any

from tidelake.errors import StorageError
from tidelake.fileio.file_io import OpenDirectory, PathDirectory, parent_of
from tidelake.fileio.hdfs.calls import HdfsCalls
from tidelake.fileio.hdfs.errors import CLIENT_ERRORS
from tidelake.telemetry import Clock, PerProcess

HELD_PREFIX = ".tidelake-held-"
ABANDONED_MS = 3_600_000
SWEEP_SECONDS = 3_600.0
SWEPT_MAX = 1_000
"""Directories that a process remembers; an older one may be cleared too often."""
RENEW_SECONDS = 600.0
RENEWED = ".renewed"
"""A directory that is made and deleted in a hidden one, so that the name node changes its time."""


class Sweeps:
    """When each directory was last cleared by this storage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._swept: dict[str, float] = {}

    def is_due(self, directory: str) -> bool:
        """Whether to clear a directory now; then not again for a while."""
        now = self._clock.monotonic_seconds()
        before = self._swept.get(directory)
        if before is not None and now - before < SWEEP_SECONDS:
            return False
        self._swept.pop(directory, None)
        self._swept[directory] = now  # the last to be forgotten
        for oldest in list(self._swept)[:-SWEPT_MAX]:
            self._swept.pop(oldest, None)
        return True


class HeldDirectory(PathDirectory):
    """The directory and its hidden one.

    Parameters
    ----------
    sweeps : Sweeps
        When others' hidden ones were looked for.
    """

    def __init__(self, path: str, hidden: str, calls: HdfsCalls, sweeps: Sweeps) -> None:
        super().__init__(path)
        self.hidden = hidden
        self._calls = calls
        self._sweeps = sweeps
        self._closed = False

    def renew(self, mode: int) -> None:
        """Let the name node change the hidden one's time, if it is there."""
        path = f"{self.hidden}/{RENEWED}"

        def change(client: Any) -> None:
            client.mkdirs(path, mode, False)
            client.delete(path, True)

        if not self._closed:
            with contextlib.suppress(*CLIENT_ERRORS, StorageError):
                self._calls.once(change)

    def close(self) -> None:
        """Delete the hidden one, and those of dead processes."""
        if self._closed:
            return
        self._closed = True

        def delete(client: Any) -> None:
            with contextlib.suppress(*CLIENT_ERRORS):
                self._sweep(client)
            client.delete(self.hidden, True)

        with contextlib.suppress(*CLIENT_ERRORS, StorageError):  # a forked child's stays too
            self._calls.once(delete)

    def _sweep(self, client: Any) -> None:
        directory = parent_of(self.hidden)
        if not self._sweeps.is_due(directory):
            return
        changed = {
            found.path: found.modification_time
            for found in client.list_status(directory, False)
            if found.path.rpartition("/")[2].startswith(HELD_PREFIX)
        }
        own = changed.get(self.hidden, 0)
        for path, changed_ms in changed.items():
            if own - changed_ms > ABANDONED_MS:
                client.delete(path, True)


class Holds:
    """The directories that this process holds, for :meth:`renew`."""

    def __init__(self, clock: Clock, mode: int) -> None:
        self._clock = clock
        self._mode = mode
        self._lock = PerProcess(threading.Lock)
        self._held: weakref.WeakSet[HeldDirectory] = weakref.WeakSet()
        self._renewed = clock.monotonic_seconds()

    def add(self, held: HeldDirectory) -> HeldDirectory:
        """Renew it, too, as long as it is open."""
        with self._lock.value:
            self._held.add(held)
        return held

    def renew(self) -> None:
        """Change the hidden directories, once in a while."""
        now = self._clock.monotonic_seconds()
        if now - self._renewed < RENEW_SECONDS:
            return
        with self._lock.value:
            self._renewed = now
            held = list(self._held)
        for one in held:
            one.renew(self._mode)


def held_directory(within: OpenDirectory) -> HeldDirectory:
    """An open directory as one of HDFS. Requires: it is."""
    assert isinstance(within, HeldDirectory), "the directory is of this storage"
    return within
