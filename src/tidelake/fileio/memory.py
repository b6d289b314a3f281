"""Files in memory: the promises of a disk without its cost; for tests and simulation.

A file that was never closed stays as an empty file under its name, as a crash on a disk would leave
it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa

from tidelake.errors import NotFoundError, StorageError
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
    name_taken,
    parent_of,
    range_missing,
)
from tidelake.telemetry import Clock, ManualClock, PerProcess


class MemoryFileIO:
    """A file tree in this process's memory. Thread-safe; not picklable.

    Parameters
    ----------
    clock : Clock, optional
        The clock of the files' times; by default one that stands still.

    Examples
    --------
    >>> files = MemoryFileIO()
    >>> files.put_if_absent("/t/snapshot/snapshot-1", b"{}")
    True
    >>> files.put_if_absent("/t/snapshot/snapshot-1", b"[]")
    False
    >>> [s.name for s in files.list_dir("/t")]
    ['snapshot']
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = ManualClock() if clock is None else clock
        self._lock = PerProcess(threading.RLock)
        self._files: dict[str, tuple[bytes, int]] = {}
        self._dirs: dict[str, dict[str, None]] = {"/": {}}  # names in order of creation

    @property
    def is_remote(self) -> bool:
        """False: a call does not wait."""
        return False

    @property
    def holds_directories(self) -> bool:
        """True: by its table of names."""
        return True

    def uri_of(self, path: str) -> str:
        """The path itself."""
        return path

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file."""
        data = self._content(path)
        if len(data) > bytes_max:
            raise file_too_large(path, len(data), bytes_max)
        return data

    def _content(self, path: str) -> bytes:
        with self._lock.value:
            return self._file(path)[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        data = self._content(path)[offset : offset + length]
        if len(data) != length:
            raise range_missing(path, offset, length, len(data))
        return data

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges, without a copy."""
        whole = memoryview(self._content(path))
        found = [pa.py_buffer(whole[offset : offset + length]) for offset, length in ranges]
        for (offset, length), part in zip(ranges, found, strict=True):
            check_range(path, offset, length, part.size)
        return found

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access, without a copy."""
        return pa.BufferReader(self._content(path))

    def open_output(self, path: str) -> _MemoryOutputFile:
        """Open a new file; its bytes exist once it is closed."""
        with self._lock.value:
            if self.exists(path):
                raise name_taken(path)
            self._put(path, b"")
        return _MemoryOutputFile(self, path)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        if not self.put_if_absent(path, data):
            raise name_taken(path)

    def sync_dir(self, path: str) -> None:
        """Do nothing: memory is never durable."""

    def open_dir(self, path: str, *, make: bool = False) -> _MemoryDirectory:
        """Open a directory."""
        plain = _plain(path)
        with self._lock.value:
            if plain not in self._dirs and make and parent_of(plain) in self._dirs:
                self.make_dirs(plain)
            if plain not in self._dirs:
                raise dir_missing(path)
            return _MemoryDirectory(self, path, self._dirs[plain])

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file; False if the name is taken."""
        with self._lock.value:
            place = self._resolved(path, within)
            found = self._files.get(_plain(place))
            is_replaced = over is not None and found is not None and found[0] == over
            if self.exists(place) and not is_replaced:
                return False
            self._put(place, data)
            return True

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file."""
        with self._lock.value:
            self._put(self._resolved(path, within), data)

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists."""
        with self._lock.value:
            try:
                plain = _plain(self._resolved(path, within))
            except NotFoundError:
                return False
            return plain in self._files or plain in self._dirs

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return len(self._content(path))

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory; empty if it is missing."""
        plain = _plain(path)
        with self._lock.value:
            if plain in self._files:
                raise StorageError(f"Could not list {path}: it is a file.", path=path)
            return [self._status(plain, name) for name in self._dirs.get(plain, ())]

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,  # noqa: ARG002  (no request comes late)
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file; False if it was missing."""
        with self._lock.value:
            try:
                plain = _plain(self._resolved(path, within))
            except NotFoundError:
                return False
            if plain in self._dirs:
                raise StorageError(f"Could not delete {path}: it is a directory.", path=path)
            found = self._files.get(plain)
            if found is None or expected not in {None, found[0]}:
                return False
            del self._files[plain]
            del self._dirs[parent_of(plain)][_name(plain)]
            return True

    def delete_dir(self, path: str) -> None:
        """Delete a directory and all in it."""
        plain = _plain(path)
        with self._lock.value:
            if plain in self._files:
                raise StorageError(f"Could not delete {path}: it is a file.", path=path)
            if plain not in self._dirs:
                return
            for name in list(self._dirs[plain]):
                child = f"{plain.rstrip('/')}/{name}"
                if child in self._dirs:
                    self.delete_dir(child)
                else:
                    self.delete(child)
            if plain != "/":
                del self._dirs[plain]
                del self._dirs[parent_of(plain)][_name(plain)]

    @property
    def storage_id(self) -> str:
        """The object in memory."""
        return f"memory-{id(self)}"

    def copy_within(self, source: str, target: str) -> bool:
        """Share the bytes of a file."""
        with self._lock.value:
            found = self._files.get(_plain(source))
            if found is None:
                raise file_missing(source)
            if _plain(target) in self._files:
                raise name_taken(target)
            self.write_once(target, found[0])
        return True

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory."""
        old, new = _plain(source), _plain(target)
        with self._lock.value:
            if old not in self._dirs:
                raise file_missing(source)
            if new in self._dirs or new in self._files:
                raise name_taken(target)
            self.make_dirs(parent_of(new))
            inside = f"{old}/"
            for known in (self._files, self._dirs):
                for path in [p for p in known if p == old or p.startswith(inside)]:
                    known[new + path[len(old) :]] = known.pop(path)  # type: ignore[assignment]
            del self._dirs[parent_of(old)][_name(old)]
            self._dirs[parent_of(new)][_name(new)] = None

    def make_dirs(self, path: str) -> None:
        """Make a directory and its parents."""
        plain = _plain(path)
        with self._lock.value:
            if plain in self._files:
                raise StorageError(f"Could not create {path}: a file has this name.", path=path)
            if plain not in self._dirs:
                self.make_dirs(parent_of(plain))
                self._dirs[plain] = {}
                self._dirs[parent_of(plain)][_name(plain)] = None

    def _resolved(self, path: str, within: OpenDirectory | None) -> str:
        """The current target of a path; inside an open directory, if there is one."""
        if within is None:
            return path
        assert isinstance(within, _MemoryDirectory), "the directory is of this storage"
        directory = within.now_at()
        if directory is None:
            raise dir_missing(within.path)
        return f"{directory.rstrip('/')}/{_name(path)}"

    def _put(self, path: str, data: bytes) -> None:
        plain = _plain(path)
        if plain in self._dirs:
            raise StorageError(f"Could not write {path}: it is a directory.", path=path)
        self.make_dirs(parent_of(plain))
        self._files[plain] = (bytes(data), self._clock.now_ms())
        self._dirs[parent_of(plain)][_name(plain)] = None

    def _finish(self, path: str, data: bytes) -> None:
        with self._lock.value:
            if _plain(path) in self._files:  # otherwise deleted meanwhile, as on a disk
                self._put(path, data)

    def _file(self, path: str) -> tuple[bytes, int]:
        found = self._files.get(_plain(path))
        if found is None:
            raise file_missing(path)
        return found

    def _status(self, directory: str, name: str) -> FileStatus:
        found = self._files.get(f"{directory.rstrip('/')}/{name}")
        if found is None:
            return FileStatus(name, 0, is_dir=True, modified_ms=0)
        return FileStatus(name, len(found[0]), is_dir=False, modified_ms=found[1])


class _MemoryDirectory(PathDirectory):
    """A directory in memory: its table of names, wherever it is moved."""

    def __init__(self, owner: MemoryFileIO, path: str, names: dict[str, None]) -> None:
        super().__init__(path)
        self._owner = owner
        self._names = names

    def now_at(self) -> str | None:
        """Its current path; None if it was removed."""
        with self._owner._lock.value:
            known = self._owner._dirs
            if known.get(_plain(self.path)) is self._names:
                return _plain(self.path)
            return next((path for path, names in known.items() if names is self._names), None)


class _MemoryOutputFile:
    """A new file in memory."""

    def __init__(self, owner: MemoryFileIO, path: str) -> None:
        self._owner = owner
        self._path = path
        self._parts: list[bytes] = []
        self._length = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def write(self, data: bytes) -> int:
        if self._closed:
            raise file_closed(self._path)
        self._parts.append(bytes(data))
        self._length += len(data)
        return len(data)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._owner._finish(self._path, b"".join(self._parts))

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._owner.delete(self._path)


def _plain(path: str) -> str:
    return check_path(path).rstrip("/") or "/"


def _name(path: str) -> str:
    return path.rpartition("/")[2]
