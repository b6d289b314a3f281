"""Files that are written once, under unique names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from tidelake.errors import AlreadyExistsError, CorruptError, NotFoundError
from tidelake.fileio import SMALL_FILE_BYTES_MAX, FileIO
from tidelake.fileio.file_io import contradicted
from tidelake.metadata.at_once import at_once
from tidelake.telemetry import Executor

WAITING_BYTES_MAX = 32 << 20
"""Bytes of files that wait to be written together."""
LARGE_FILE_BYTES_MAX = 1 << 30
"""The largest manifest, manifest list or index; a manifest is merged at 8 MiB."""
WRITES_MAX = 3
"""Writes of a name that the storage calls taken while it shows nothing there."""


def whole_bytes_max(size_bytes: int | None = None) -> int:
    """The bytes to read of a file whose length other metadata gives (None if none does).

    A wrong length costs no more memory than the right one: the reader notices it after the read.
    """
    asked = LARGE_FILE_BYTES_MAX if size_bytes is None else size_bytes
    return min(max(asked, SMALL_FILE_BYTES_MAX), LARGE_FILE_BYTES_MAX)


class WholeFiles(Protocol):
    """The part of a storage that writes whole files."""

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file."""
        ...

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        ...


class TogetherFiles:
    """Writes whole new files of a remote storage side by side, when they must be there.

    A storage that is not remote writes each at once.
    """

    def __init__(self, fileio: FileIO, threads: Executor) -> None:
        self._fileio = fileio
        self._threads = threads
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file."""
        return self._fileio.read_bytes(path, bytes_max=bytes_max)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a file; of a remote storage at :meth:`finish`, or when much waits."""
        if not self._fileio.is_remote:
            self._fileio.write_once(path, data)
            return
        assert path not in self._waiting, "names are unique"
        self._waiting[path] = data
        self._waiting_bytes += len(data)
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self.finish()

    def finish(self) -> None:
        """Write what waits; all of it is there when this returns.

        After an error no write runs any more, and some files may be there.
        """
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        calls = [partial(write_unique, self._fileio, *one) for one in waiting.items()]
        at_once(self._fileio, self._threads, calls)

    def forget(self, paths: Iterable[str]) -> None:
        """Do not write these files if they still wait."""
        for path in paths:
            self._waiting_bytes -= len(self._waiting.pop(path, b""))


def write_unique(fileio: WholeFiles, path: str, data: bytes) -> None:
    """Write a file under a unique name.

    If a storage client sends a call twice, it finds its own file; that is no error. If it says that
    the name is taken where nothing is, the file is written again.
    """
    for _ in range(WRITES_MAX):
        try:
            fileio.write_once(path, data)
        except AlreadyExistsError:
            try:
                found = fileio.read_bytes(path, bytes_max=whole_bytes_max(len(data)))
            except NotFoundError:
                continue
            if found != data:
                raise
        return
    raise contradicted(path)


def resized(path: str, found: int, expected: int) -> CorruptError:
    """The error of a file whose size differs from other metadata."""
    message = (
        f"File {path} has {found} bytes but should have {expected}: it was truncated or"
        " replaced. Restore it from a backup."
    )
    return CorruptError(message, kind="file_size", path=path)
