"""Files of the local file system (or one mounted like it).

:meth:`LocalFileIO.put_if_absent` publishes by a hard link because ``link`` is atomic and never
replaces. A rename replaces, and lost acknowledged commits between processes.

1. Write the bytes to a hidden temporary file of unique name in the same directory; fsync it.
2. ``link(temporary, name)``. EEXIST: another process was first, unless the temporary file has two
   links (a network file system that replayed our call).
3. fsync the directory, so that the name survives a power loss; unlink the temporary file.

All names are relative to the directory's descriptor: a file goes into the directory that was
opened, and if that was removed the system answers ENOENT. A system call that ended with an errno of
:data:`_REFUSALS` has changed nothing, nor has one before step 2: that is a
:class:`~tidelake.errors.StorageRefusedError`.

A crash between the steps leaves at most a hidden file ``.tidelake-<uuid>.tmp``, which is never
read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidelake.errors import (
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
)
from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileStatus,
    OpenDirectory,
    PathDirectory,
    check_path,
    check_range,
    dir_missing,
    file_closed,
    file_missing,
    file_too_large,
    is_expected,
    name_taken,
    parent_of,
    range_missing,
)
from tidelake.telemetry import Ids, ProcessMark, SystemIds

WRITE_BUFFER_BYTES = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READING = frozenset({"read", "open", "look up"})
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EROFS})
_NO_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)
_REFUSALS = (
    _NO_LINKS
    | _NO_SPACE
    | {errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG}
    | {errno.ENOTDIR, errno.ELOOP, errno.EINVAL}
)
"""Answers of the system before it changes a directory; after a time-out it is EIO or others."""
_GONE = frozenset({errno.ENOENT, errno.ESTALE})
DELETE_TRIES = 10
"""Passes over a directory into which others write while it is deleted."""


class LocalFileIO:
    """The local file system. Picklable; may be used by several threads."""

    def __init__(self, ids: Ids | None = None) -> None:
        self._ids = SystemIds() if ids is None else ids

    @property
    def is_remote(self) -> bool:
        """False: a call takes microseconds, and the system reads ahead by itself."""
        return False

    @property
    def holds_directories(self) -> bool:
        """True: by a descriptor."""
        return True

    def uri_of(self, path: str) -> str:
        """The path itself."""
        return path

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file; the open file's length is checked first."""
        try:
            with open(check_path(path), "rb") as file:
                found = os.fstat(file.fileno()).st_size
                if found > bytes_max:
                    raise file_too_large(path, found, bytes_max)
                return file.read()
        except OSError as error:
            raise _translated(error, path, "read") from error

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        try:
            with open(check_path(path), "rb") as file:
                file.seek(offset)
                data = file.read(length)
        except OSError as error:
            raise _translated(error, path, "read") from error
        if len(data) != length:
            raise range_missing(path, offset, length, len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges of one open file."""
        found: list[pa.Buffer] = []
        try:
            with open(check_path(path), "rb", buffering=0) as file:
                for offset, length in ranges:
                    data = _pread(file.fileno(), offset, length)
                    check_range(path, offset, length, len(data))
                    found.append(pa.py_buffer(data))
        except OSError as error:
            raise _translated(error, path, "read") from error
        return found

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access.

        Plain reads, not a memory map: truncating a mapped file would kill the process.
        """
        try:
            return pa.OSFile(check_path(path), "rb")
        except OSError as error:
            raise _translated(error, path, "open") from error

    def open_output(self, path: str) -> _LocalOutputFile:
        """Open a new file; its bytes are durable when closed, its name after ``sync_dir``."""
        return self._open(path, sync_name=False)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file, durably."""
        output = self._open(path, sync_name=True)
        try:
            output.write(data)
            output.close()
        except BaseException:  # an interrupt too
            output.abort()
            raise

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        try:
            _sync_dir(check_path(path))
        except OSError as error:
            raise _translated(error, path, "sync") from error

    def open_dir(self, path: str, *, make: bool = False) -> _LocalDirectory:
        """Open a directory by its descriptor."""
        verb = "make" if make else "open"
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(check_path(path))
                    _sync_dir(parent_of(path))
            verb = "open"
            return _LocalDirectory(path, os.open(check_path(path), _DIRECTORY))
        except FileNotFoundError as error:
            raise dir_missing(path) from error
        except OSError as error:
            raise _translated(error, path, verb, refused=True) from error

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file by a hard link, atomically and durably."""
        name = _name(path)
        with self._parent(path, "publish", within) as place:
            if over is None and self.exists(path, within=place):
                return False  # the loser of a race need not write and sync a temporary file
            with self._temporary(place) as temporary:
                try:
                    _write_temporary(place, temporary, data, sync=True)
                except OSError as error:
                    raise _unpublished(error, path, place, refused=True) from error
                try:
                    if over is not None:
                        done = self._exchange(path, place, temporary, over)
                    else:
                        done = _link(place, temporary, name)
                except OSError as error:
                    refused = error.errno in _REFUSALS
                    raise _unpublished(error, path, place, refused=refused) from error
                if not done:
                    return False
            try:
                _sync(place.descriptor)
            except OSError as error:
                raise _translated(error, path, "publish") from error
        return True

    def _exchange(self, path: str, place: _LocalDirectory, temporary: str, over: bytes) -> bool:
        """Rename a temporary file over one of certain bytes; False if that is not there.

        Whoever changes a file of a certain content, or deletes one whose name is used again, holds
        the directory's lock meanwhile. Without one of them the name is taken, so nobody puts a file
        there.
        """
        held, name = place.descriptor, _name(path)
        with _locked(held):
            try:
                with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=held), "rb") as file:
                    if file.read() != over:
                        return False
            except FileNotFoundError:
                return False
            os.rename(temporary, name, src_dir_fd=held, dst_dir_fd=held)
        return True

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file."""
        with self._parent(path, "replace", within) as place:
            held = place.descriptor
            try:
                with self._temporary(place) as temporary:
                    _write_temporary(place, temporary, data, sync=False)
                    os.replace(temporary, _name(path), src_dir_fd=held, dst_dir_fd=held)
            except OSError as error:
                if error.errno in _GONE:
                    raise dir_missing(place.path) from error
                raise _translated(error, path, "replace") from error

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists."""
        name, held = _resolved(path, within)
        try:
            os.stat(name, dir_fd=held)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if within is not None and error.errno in _GONE:
                return False
            # os.path.exists would return False here, which is a dangerous guess
            raise _translated(error, path, "look up") from error
        return True

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        try:
            status = os.stat(check_path(path))
        except OSError as error:
            raise _translated(error, path, "look up") from error
        if stat.S_ISDIR(status.st_mode):
            raise file_missing(path)
        return status.st_size

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory, including hidden files; empty if it is missing."""
        found = []
        try:
            with os.scandir(check_path(path)) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                        status = entry.stat()
                        is_dir = stat.S_ISDIR(status.st_mode)
                        size_bytes = 0 if is_dir else status.st_size
                        modified_ms = status.st_mtime_ns // 1_000_000
                        found.append(FileStatus(entry.name, size_bytes, is_dir, modified_ms))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _translated(error, path, "list") from error
        return found

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file; False if it was missing."""
        name, held = _resolved(path, within)
        try:
            with contextlib.ExitStack() as locks:
                if held is not None and (reused or expected is not None):
                    locks.enter_context(_locked(held))
                if not is_expected(self, path, expected):
                    return False
                os.unlink(name, dir_fd=held)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if within is not None and error.errno in _GONE:
                return False
            raise _translated(error, path, "delete") from error
        return True

    def delete_dir(self, path: str) -> None:
        """Delete a directory with its content; symbolic links inside are removed, not followed.

        If the directory itself is a link, its target and the link are deleted.
        """
        try:
            if os.path.islink(check_path(path)):
                self._delete_all(os.path.realpath(path))
                os.unlink(path)
            else:
                self._delete_all(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _translated(error, path, "delete") from error

    def _delete_all(self, path: str) -> None:
        for tries in range(1, DELETE_TRIES + 1):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                if not os.path.lexists(path):
                    return
                if tries == DELETE_TRIES:  # another process deletes in it too
                    raise
            except OSError as error:  # another process writes into it
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or tries == DELETE_TRIES:
                    raise
            else:
                return

    @property
    def storage_id(self) -> str:
        """The local file system."""
        return "file"

    def copy_within(self, source: str, target: str) -> bool:
        """Make a hard link; False on another file system, or where links are not allowed."""
        try:
            _make_dirs(parent_of(check_path(target)))
            os.link(os.path.realpath(check_path(source)), target)
        except FileExistsError as error:
            raise name_taken(target) from error
        except OSError as error:
            if error.errno in _NO_LINKS or error.errno == errno.EACCES:
                return False
            if not os.path.lexists(source):
                raise file_missing(source) from error
            raise _translated(error, target, "link") from error
        return True

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory; both names are durable when this returns."""
        check_path(source)
        try:
            _make_dirs(parent_of(check_path(target)))
            if not os.path.isdir(source):
                raise file_missing(source)
            if os.path.lexists(target):  # an empty directory would be overwritten
                raise name_taken(target)
            if os.path.islink(source) and not os.path.isabs(os.readlink(source)):
                # from another directory a relative link would point elsewhere
                os.symlink(os.path.realpath(source), target)
                os.unlink(source)
            else:
                os.rename(source, target)
        except OSError as error:
            if error.errno == errno.EXDEV:
                message = (
                    f"{source} and {target} are on two file systems, and a directory cannot move"
                    " from one to the other atomically: copy the table (CREATE TABLE ... AS SELECT)"
                    " and drop the old one."
                )
                raise UnsupportedError(message, kind="no_atomic_move", path=source) from error
            refused = error.errno in _REFUSALS or error.errno == errno.EBUSY
            raise _translated(error, source, "move", refused=refused) from error
        try:
            _sync_dir(parent_of(target))
            _sync_dir(parent_of(source))
        except OSError as error:
            raise _translated(error, source, "move") from error

    def make_dirs(self, path: str) -> None:
        """Make a directory and its parents, durably."""
        try:
            _make_dirs(check_path(path))
        except OSError as error:
            raise _translated(error, path, "create") from error

    def _open(self, path: str, *, sync_name: bool) -> _LocalOutputFile:
        check_path(path)
        try:
            descriptor = self._create(path, sync=sync_name)
        except FileExistsError as error:
            raise name_taken(path) from error
        except OSError as error:
            raise _translated(error, path, "create") from error
        return _LocalOutputFile(path, descriptor, sync_name=sync_name)

    def _create(self, path: str, *, sync: bool = True) -> int:
        try:
            return os.open(path, _CREATE, 0o666)
        except FileNotFoundError:
            _make_dirs(parent_of(path), sync=sync)
            return os.open(path, _CREATE, 0o666)

    @contextlib.contextmanager
    def _parent(
        self, path: str, verb: str, within: OpenDirectory | None
    ) -> Iterator[_LocalDirectory]:
        """The directory of a new file: the open one, or the path's parent."""
        if within is not None:
            yield _local(within)
            return
        parent = parent_of(check_path(path))
        try:
            _make_dirs(parent)
            place = _LocalDirectory(parent, os.open(parent, _DIRECTORY))
        except OSError as error:
            raise _translated(error, path, verb, refused=True) from error
        with place:
            yield place

    @contextlib.contextmanager
    def _temporary(self, place: _LocalDirectory) -> Iterator[str]:
        """The name of a hidden file, which is gone at the end, also after an interrupt."""
        name = f".tidelake-{self._ids.uuid()}.tmp"
        try:
            yield name
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=place.descriptor)


class _LocalDirectory(PathDirectory):
    """A directory opened by its descriptor."""

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(path)
        self.descriptor = descriptor

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _local(within: OpenDirectory) -> _LocalDirectory:
    assert isinstance(within, _LocalDirectory), "the directory is of this storage"
    return within


def _resolved(path: str, within: OpenDirectory | None) -> tuple[str, int | None]:
    """A file's name with the descriptor that it is relative to; else the path and None."""
    if within is None:
        return check_path(path), None
    return _name(path), _local(within).descriptor


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Hold the lock of an open directory; the system frees it when its process ends."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write_temporary(place: _LocalDirectory, name: str, data: bytes, *, sync: bool) -> None:
    """Write a new file into a directory; ``OSError`` if that fails."""
    descriptor = os.open(name, _CREATE, 0o666, dir_fd=place.descriptor)
    with open(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        if sync:
            os.fsync(file.fileno())


def _link(place: _LocalDirectory, temporary: str, name: str) -> bool:
    """Give a temporary file its name; False if that is taken."""
    held = place.descriptor
    try:
        os.link(temporary, name, src_dir_fd=held, dst_dir_fd=held, follow_symlinks=False)
    except OSError as error:
        # a network file system may replay the call and then see our own link
        if os.stat(temporary, dir_fd=held).st_nlink < 2:
            if error.errno == errno.EEXIST:
                return False
            raise
    return True


def _unpublished(
    error: OSError, path: str, place: _LocalDirectory, *, refused: bool
) -> TidelakeError:
    """Make the error for a file that was not put; with `refused` nothing was changed."""
    if error.errno in _GONE:
        return dir_missing(place.path)
    if error.errno in _NO_LINKS:
        message = (
            f"The file system of {path} refuses hard links ({error.strerror}), so a commit"
            " cannot be published there safely: put the warehouse on a file system with"
            " hard links (ext4, xfs, apfs, nfs, ...)."
        )
        return StorageRefusedError(message, kind="no_hard_links", path=path)
    return _translated(error, path, "publish", refused=refused)


class _LocalOutputFile:
    """A new local file; buffered, synced when closed, its name too on request.

    The buffer belongs to this object. A forked child has a copy of it and shares the file
    position: a buffer of Python's would be written a second time when the child ends.
    """

    def __init__(self, path: str, descriptor: int, *, sync_name: bool = False) -> None:
        self._path = path
        self._sync_name = sync_name
        self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115
        self._waiting = bytearray()
        self._length = 0
        self._whole = False
        self._failed: OSError | None = None
        self._mark = ProcessMark()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        if self._file.closed:
            raise file_closed(self._path)
        self._mark.check(f"File {self._path}")
        try:
            if len(self._waiting) + len(data) > WRITE_BUFFER_BYTES:
                self._write_waiting()
            if len(data) > WRITE_BUFFER_BYTES:
                self._write_all(data)
            else:
                self._waiting += data
        except OSError as error:
            self._failed = error  # a part of it may be written: the file can only be aborted
            raise _translated(error, self._path, "write") from error
        self._length += len(data)
        return len(data)

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        self._write_all(waiting)

    def _write_all(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self._file.closed:
            return
        self._mark.check(f"File {self._path}")
        if self._failed is not None:
            raise _translated(self._failed, self._path, "write")
        try:
            self._write_waiting()
            os.fsync(self._file.fileno())
            self._file.close()
            if self._sync_name:
                _sync_dir(parent_of(self._path))
        except OSError as error:
            raise _translated(error, self._path, "write") from error
        self._whole = True

    def abort(self) -> None:
        if self._whole:
            return
        self._waiting.clear()
        with contextlib.suppress(OSError):
            self._file.close()
        if self._mark.is_here:  # otherwise it is the parent's
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._whole = True


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    """Read a range; shorter only at the file's end. One call of the system reads 2 GiB at most."""
    data = os.pread(descriptor, length, offset)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _make_dirs(path: str, *, sync: bool = True) -> None:
    """Make missing directories from the top; with `sync` each is durable."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = parent_of(path)
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        if not os.path.isdir(directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
        if sync:
            _sync_dir(parent_of(directory))


def _sync_dir(path: str) -> None:
    descriptor = os.open(path, _DIRECTORY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Make the names in a directory durable."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some network file systems cannot sync a directory; they write names synchronously
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _translated(error: OSError, path: str, verb: str, *, refused: bool = False) -> TidelakeError:
    """Convert an error of the operating system to ours."""
    of_storage = StorageRefusedError if refused else StorageError
    if isinstance(error, (FileNotFoundError, NotADirectoryError)) and verb in _READING:
        return file_missing(path)
    reason = error.strerror or str(error)
    if error.errno in _NO_SPACE:
        message = f"No space left to {verb} {path} ({reason}): free some and try again."
        return of_storage(message, kind="no_space", path=path)
    if error.errno == errno.EMFILE:
        message = f"Too many open files to {verb} {path}: raise the limit (ulimit -n)."
        return of_storage(message, kind="too_many_files", path=path)
    message = f"Could not {verb} {path}: {reason}. Check the storage and its permissions."
    if error.errno in _NOT_WRITABLE and verb not in _READING:
        return of_storage(message, kind="not_writable", path=path)
    return of_storage(message, path=path)
