"""Storage as the engine sees it: write-once files, one atomic publish, plain listings.

What a :class:`FileIO` promises is what every storage that can hold a table gives, no more:

1. A file is written once, by :meth:`FileIO.open_output` or :meth:`FileIO.write_once`, and is whole
   and durable when the call that closes it returns; the name of one that was opened survives a
   power loss after :meth:`FileIO.sync_dir`, so that a directory of many files is synced once. From
   the opening until then its name is taken and what others would read under it is not defined;
   unique names keep others away.
2. :meth:`FileIO.put_if_absent` is the one compare-and-set: of all who put the same name at most
   one succeeds, and whoever reads the name sees the winner's bytes whole. Publishing a snapshot
   rests on it alone.
3. A ``StorageError`` from a call that changes something does not say whether the change took
   effect (a time-out after the effect looks the same); who must know reads back. A
   ``StorageRefusedError`` says that nothing was changed.
4. Listings give what is there, in no order. Parents of a written file come into being with it.
5. :meth:`FileIO.open_dir` holds a directory. A call `within` it concerns the file of the path's
   last name in that very directory, or none, whatever is at the path by then: the table there may
   have been dropped, and another made under its name. No directory comes into being with it.

Paths are absolute POSIX strings without a scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from tidelake.errors import AlreadyExistsError, CorruptError, InvalidInputError, NotFoundError

__all__ = [
    "SMALL_FILE_BYTES_MAX",
    "FileIO",
    "FileStatus",
    "OpenDirectory",
    "OutputFile",
    "check_path",
    "parent_of",
]

SMALL_FILE_BYTES_MAX = 16 << 20
"""What a file has at most that is read whole and whose length nothing else tells: snapshots,
schemas, tags, hints and other JSON. A schema of 10,000 columns has about 1 MiB."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One entry of a listing.

    Parameters
    ----------
    name : str
        The name inside the directory.
    size_bytes : int
        Length of the file; 0 for a directory.
    is_dir : bool
        Whether it is a directory.
    modified_ms : int
        Time of the last change, ms since the epoch.
    """

    name: str
    size_bytes: int
    is_dir: bool
    modified_ms: int


class OutputFile(Protocol):
    """A file being written; usable as a sink of pyarrow through ``pa.PythonFile``."""

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        ...

    def write(self, data: bytes) -> int:
        """Append bytes; the number of bytes taken (always all)."""
        ...

    def tell(self) -> int:
        """Bytes written so far."""
        ...

    def flush(self) -> None:
        """Nothing needs to be flushed before ``close``."""
        ...

    def close(self) -> None:
        """Make the file whole and visible and its bytes durable; not twice."""
        ...

    def abort(self) -> None:
        """Give the file up and remove it; nothing happens to a file already closed."""
        ...


class OpenDirectory(Protocol):
    """A directory that is held, wherever it is moved; to be closed. Not picklable."""

    @property
    def path(self) -> str:
        """The path it was opened by."""
        ...

    def close(self) -> None:
        """Let it go; more than once is fine."""
        ...

    def __enter__(self) -> Self:
        """The directory itself; it is closed at the end of the block."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        ...


class FileIO(Protocol):
    """A storage. Implementations may be used by several threads at once."""

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file. ``NotFoundError`` where it is missing.

        ``CorruptError`` where it has more than `bytes_max` bytes, before more than that are held.
        One call to the storage.
        """
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes at ``offset``; ``CorruptError`` if the file ends before."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        ...

    def open_output(self, path: str) -> OutputFile:
        """Open a new file; ``AlreadyExistsError`` where the name is taken.

        Its name, and those of directories that come with it, are durable after :meth:`sync_dir`.
        """
        ...

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file, its name durable; ``AlreadyExistsError`` where it is taken."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable, whoever put them there."""
        ...

    def open_dir(self, path: str, *, make: bool = False) -> OpenDirectory:
        """Hold a directory; with `make` it is made where it is missing, its parent is not.

        ``NotFoundError`` where it, or with `make` its parent, is missing.
        """
        ...

    def put_if_absent(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> bool:
        """Publish a file atomically; False, and nothing changed, where the name is taken.

        With `within` it goes into that directory, which was opened by the path's parent;
        ``NotFoundError``, and nothing changed, where that was removed.
        """
        ...

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write a file over whatever is there: for hints only, no durability promised.

        `within` is that of :meth:`put_if_absent`.
        """
        ...

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name is there; not in one that was removed."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes. ``NotFoundError`` where it is missing."""
        ...

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory, in no order; empty where it is missing."""
        ...

    def delete(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Delete a file; False where it, or the directory that is held, was missing."""
        ...

    def delete_dir(self, path: str) -> None:
        """Delete a directory and all in it; nothing happens where it is missing."""
        ...

    def move_dir(self, source: str, target: str) -> None:
        """Give a directory another name, with all in it, at once and durably.

        ``NotFoundError`` where it is missing, ``AlreadyExistsError`` where the new name is taken.
        """
        ...

    def make_dirs(self, path: str) -> None:
        """Make a directory and its parents; nothing happens where it exists."""
        ...


def check_path(path: str) -> str:
    """Give the path back, or refuse one that is not absolute and plain.

    Examples
    --------
    >>> check_path("/warehouse/db.db/t")
    '/warehouse/db.db/t'
    """
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        message = f"'{path!r}' is not an absolute POSIX path without '..': give the full path."
        raise InvalidInputError(message, kind="bad_path", path=path)
    return path


def parent_of(path: str) -> str:
    """Give the directory that a path lies in.

    Examples
    --------
    >>> parent_of("/warehouse/db.db/t")
    '/warehouse/db.db'
    >>> parent_of("/warehouse")
    '/'
    """
    return path.rstrip("/").rpartition("/")[0] or "/"


def file_missing(path: str) -> NotFoundError:
    """Make the error for a file that should be there."""
    message = f"File {path} does not exist: it was deleted, expired, or the path is wrong."
    return NotFoundError(message, kind="file_not_found", path=path)


def file_too_large(path: str, found: int, bytes_max: int) -> CorruptError:
    """Make the error for a file that is larger than any of its kind."""
    message = (
        f"File {path} has {found} bytes, but such a file has at most {bytes_max}: it is"
        " damaged or another file. Restore it from a backup."
    )
    return CorruptError(message, kind="file_too_large", path=path)


def dir_missing(path: str) -> NotFoundError:
    """Make the error for a directory that is not there, or not any more."""
    message = f"Directory {path} does not exist: it was removed, or the path is wrong."
    return NotFoundError(message, kind="directory_not_found", path=path)


def name_taken(path: str) -> AlreadyExistsError:
    """Make the error for a file that must not be there yet."""
    message = f"File {path} exists and is never overwritten: use another name."
    return AlreadyExistsError(message, kind="file_exists", path=path)


def range_missing(path: str, offset: int, length: int, found: int) -> CorruptError:
    """Make the error for a file that ends before a range that it must hold."""
    message = (
        f"File {path} holds only {found} of the {length} bytes at offset {offset}: it is"
        " truncated. Restore it from a backup."
    )
    return CorruptError(message, kind="file_truncated", path=path)
