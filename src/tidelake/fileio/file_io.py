"""Storage for the engine: write-once files, one atomic publish, plain listings.

A :class:`FileIO` promises only what every storage that can hold a table provides:

1. A file is written once, by :meth:`FileIO.open_output` or :meth:`FileIO.write_once`. It is whole
   and durable when the call that closes it returns. The name of an opened file survives a power
   loss after :meth:`FileIO.sync_dir`, so that a directory of many files is synced once. From the
   opening until then its name is taken, and reads of it are undefined; unique names keep others
   away.
2. :meth:`FileIO.put_if_absent` is the one compare-and-set: of several puts of one name at most one
   succeeds, and every reader of the name sees the winner's bytes whole. Publishing a snapshot
   relies on it alone.
3. A ``StorageError`` of a change leaves open whether the change took effect (a time-out after the
   effect looks the same); a caller that must know reads back. A ``StorageRefusedError`` means that
   nothing was changed.
4. Listings show what exists, in no order. Missing parents of a written file are created.
5. :meth:`FileIO.open_dir` opens a directory. A call `within` it concerns the file of the path's
   last name in that very directory, or none, whatever is at the path by then: the table there may
   have been dropped, and another created under its name. Such a call creates no directory.
   An object store has no directories and cannot keep this (:attr:`FileIO.holds_directories`):
   there the path decides, so a commit checks the table before a put into one and after it.
6. :attr:`FileIO.is_remote` says that each call waits for a network. Readers then ask for what they
   need early and in few rounds: several ranges of a file by one :meth:`FileIO.read_ranges`, several
   files side by side (ADR 74).

Paths are absolute POSIX strings without a scheme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import pyarrow as pa

from tidelake.errors import (
    AlreadyExistsError,
    ClosedError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)

ByteRange: TypeAlias = tuple[int, int]
"""Offset and length, in bytes."""

SMALL_FILE_BYTES_MAX = 16 << 20
"""The largest file that is read whole without a known length: snapshots, schemas, tags, hints and
other JSON. A schema of 10,000 columns has about 1 MiB."""


PUTS_MAX = 3
"""Puts of a name that the storage calls taken while it shows nothing there."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One entry of a listing.

    Parameters
    ----------
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
        """Append bytes; returns the number of bytes taken (always all)."""
        ...

    def tell(self) -> int:
        """Bytes written so far."""
        ...

    def flush(self) -> None:
        """Do nothing: no flush is needed before ``close``."""
        ...

    def close(self) -> None:
        """Make the file whole, visible and durable; call it once."""
        ...

    def abort(self) -> None:
        """Abort and remove the file; does nothing after a close."""
        ...


class OpenDirectory(Protocol):
    """An open directory, wherever it is moved; must be closed. Not picklable."""

    @property
    def path(self) -> str:
        """The path it was opened by."""
        ...

    @property
    def has_late_put(self) -> bool:
        """Whether a put into it was not answered, and may take effect once the name is free."""
        ...

    def close(self) -> None:
        """Close it; may be called several times."""
        ...

    def __enter__(self) -> Self:
        """Return the directory itself; the end of the block closes it."""
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

    @property
    def is_remote(self) -> bool:
        """Whether a call waits for a network, so that many at once pay."""
        ...

    @property
    def holds_directories(self) -> bool:
        """Whether an open directory is more than its path, so that what was opened first counts."""
        ...

    def uri_of(self, path: str) -> str:
        """How a path is shown to users: with its scheme, where it has one."""
        ...

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file. ``NotFoundError`` if it is missing.

        ``CorruptError`` if it has more than `bytes_max` bytes, before more than that are in memory.
        One call to the storage.
        """
        ...

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes at ``offset``; ``CorruptError`` if the file ends before."""
        ...

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges of one file, each exact as in :meth:`read_range`, in their order.

        A remote storage asks for all of them at once. Ranges are not joined: the caller knows which
        holes are worth reading. :func:`read_one_by_one` is enough for a storage without latency.
        """
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access."""
        ...

    def open_output(self, path: str) -> OutputFile:
        """Open a new file; ``AlreadyExistsError`` if the name is taken.

        Its name, and those of directories created for it, are durable after :meth:`sync_dir`.
        """
        ...

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file, its name durable; ``AlreadyExistsError`` if it is taken."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable, whoever created them."""
        ...

    def open_dir(self, path: str, *, make: bool = False) -> OpenDirectory:
        """Open a directory; with `make` it is created if missing, but its parent is not.

        ``NotFoundError`` if it, or with `make` its parent, is missing.
        """
        ...

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file atomically; False, and nothing changed, if the name is taken.

        With `within` it goes into that directory, which was opened by the path's parent;
        ``NotFoundError``, and nothing changed, if that was removed.

        With `over` a file of these very bytes counts as absent and is replaced. Of several that
        put over one file at most one succeeds. Where the storage cannot exchange a file, the old
        one goes first; if the new one is then refused, nothing has the name.
        """
        ...

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file: for hints only, durability is not promised.

        `within` is that of :meth:`put_if_absent`.
        """
        ...

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists; False in a removed directory."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes. ``NotFoundError`` if it is missing."""
        ...

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory, in no order; empty if it is missing."""
        ...

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file; False if it, or the open directory, was missing.

        With `reused` others may use its name again. Once the call has returned, no request of it
        takes effect any more: a storage whose requests may come late sees to that.

        With `expected` a file of other bytes is another's: it stays, and the answer is False. A
        storage that deletes on a condition does so on this one; others look right before.
        """
        ...

    def delete_dir(self, path: str) -> None:
        """Delete a directory with its content; does nothing if it is missing."""
        ...

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory with its content, atomically and durably.

        ``NotFoundError`` if it is missing, ``AlreadyExistsError`` if the new name is taken.
        """
        ...

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents; does nothing if it exists."""
        ...

    @property
    def storage_id(self) -> str:
        """What tells a storage from others; no secret. Equal: a path means the same file."""
        ...

    def copy_within(self, source: str, target: str) -> bool:
        """Give a file's bytes a second name without reading them; False if that is not possible.

        A file system makes a hard link: neither name may be written again, and the bytes stay until
        both are deleted. A store copies. The new name is durable after :meth:`sync_dir`.
        ``AlreadyExistsError`` if it is taken; a store may write over it, so it is the caller's own.
        """
        ...


def put_new(fileio: FileIO, path: str, data: bytes, *, within: OpenDirectory | None = None) -> bool:
    """Put a file if its name is free; False only where a file of that name was seen.

    A storage may answer "taken" to a put that met another one on its way, though neither takes
    effect. So what it says is checked, and the file is put again while the name is free.

    Raises
    ------
    StorageError
        As :meth:`FileIO.put_if_absent`; or the storage says "taken" each time and shows nothing.

    Examples
    --------
    >>> from tidelake.fileio import MemoryFileIO
    >>> from tidelake.testing import FaultMode, FaultyFileIO
    >>> files = FaultyFileIO(MemoryFileIO(), {1: FaultMode.CONFLICT})
    >>> put_new(files, "/a", b"1"), put_new(files, "/a", b"2")
    (True, False)
    """
    held: dict[str, Any] = {} if within is None else {"within": within}
    for _ in range(PUTS_MAX):
        if fileio.put_if_absent(path, data, **held):
            return True
        if fileio.exists(path, **held):
            return False
    raise contradicted(path)


def is_expected(fileio: BytesReader, path: str, expected: bytes | None) -> bool:
    """Whether a file has the bytes given; True if none are given.

    Examples
    --------
    >>> from tidelake.fileio import MemoryFileIO
    >>> files = MemoryFileIO()
    >>> files.write_once("/a", b"1")
    >>> [is_expected(files, "/a", given) for given in (None, b"1", b"2")]
    [True, True, False]
    >>> is_expected(files, "/b", b"1")
    False
    """
    if expected is None:
        return True
    try:
        return fileio.read_bytes(path) == expected
    except NotFoundError:
        return False


class BytesReader(Protocol):
    """The part of a storage that reads a whole file."""

    def read_bytes(self, path: str) -> bytes:
        """Read a whole file. ``NotFoundError`` if it is missing."""
        ...


class RangeReader(Protocol):
    """The part of a storage that reads one range."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes at ``offset``."""
        ...


class PathDirectory:
    """An open directory; here nothing but its path. A storage that holds more has a subclass."""

    has_late_put: bool = False

    def __init__(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_one_by_one(fileio: RangeReader, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
    """Read ranges one after the other: :meth:`FileIO.read_ranges` of a storage without its own.

    Examples
    --------
    >>> from tidelake.fileio import MemoryFileIO
    >>> files = MemoryFileIO()
    >>> files.write_once("/a", b"0123456789")
    >>> [bytes(part) for part in read_one_by_one(files, "/a", [(7, 2), (0, 3)])]
    [b'78', b'012']
    """
    return [pa.py_buffer(fileio.read_range(path, *one)) for one in ranges]


def check_range(path: str, offset: int, length: int, found: int) -> None:
    """Refuse an answer that is shorter or longer than the range asked for.

    Raises
    ------
    CorruptError
        The file ends before the range does.
    StorageError
        The storage sent more than was asked for.
    """
    if found < length:
        raise range_missing(path, offset, length, found)
    if found > length:
        message = (
            f"The storage sent {found} bytes of {path} for the {length} at offset {offset}: it does"
            " not keep to ranges. Try again, or read through another gateway."
        )
        raise StorageError(message, kind="wrong_range", path=path)


def check_path(path: str) -> str:
    """Return the path, or refuse one that is not absolute and plain.

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
    """Return the parent directory of a path.

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


def file_closed(path: str) -> ClosedError:
    """Make the error for bytes that come after the end of a file."""
    message = f"File {path} was closed; nothing can be written to it any more."
    return ClosedError(message, kind="file_closed", path=path)


def file_too_large(path: str, found: int, bytes_max: int) -> CorruptError:
    """Make the error for a file that is larger than any of its kind."""
    message = (
        f"File {path} has {found} bytes, but such a file has at most {bytes_max}: it is"
        " damaged or another file. Restore it from a backup."
    )
    return CorruptError(message, kind="file_too_large", path=path)


def dir_missing(path: str) -> NotFoundError:
    """Make the error for a missing directory."""
    message = f"Directory {path} does not exist: it was removed, or the path is wrong."
    return NotFoundError(message, kind="directory_not_found", path=path)


def name_taken(path: str) -> AlreadyExistsError:
    """Make the error for a file that must not be there yet."""
    message = f"File {path} exists and is never overwritten: use another name."
    return AlreadyExistsError(message, kind="file_exists", path=path)


def contradicted(path: str) -> StorageError:
    """Make the error for a name that the storage calls taken while it shows nothing there."""
    message = (
        f"The storage says that {path} exists, and does not show it: nothing was written there. Try"
        " again."
    )
    return StorageError(message, kind="name_contradicted", path=path)


def range_missing(path: str, offset: int, length: int, found: int) -> CorruptError:
    """Make the error for a file that ends before a range that it must hold."""
    message = (
        f"File {path} holds only {found} of the {length} bytes at offset {offset}: it is"
        " truncated. Restore it from a backup."
    )
    return CorruptError(message, kind="file_truncated", path=path)
