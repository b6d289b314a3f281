"""A cache of a remote storage's files on the local disk, shared by the processes of a machine.

Only files that never change are kept: data files, changelog files, manifests, manifest lists, index
files and statistics with a uuid in their name. Those of any other directory are read from the
storage each time (snapshots, schemas, tags, consumers and their leases, hints), so the cache never
decides what a table holds.

1. What was read is kept as it came: a whole file, or a range of one. A later read that lies inside
   is served from there. An entry is named by its place, its length and its CRC32. One that
   does not match them is removed, and the storage is asked.
2. An entry is written beside its place and renamed, so other processes see it whole or not at all.
3. A process that has added one part in :data:`SWEEP_SHARE` of the limit looks at all entries and
   removes those that were not used for longest. So the cache takes the limit, and such a part more
   for each further process that writes at the same time.

A disk that is full or fails costs a request, never a read: the cache raises no error of its own.
The files are readable to their owner only. They are not encrypted. A directory that belongs to
another user, or that others may write to, is not used, and a warning says so: its content may be
anybody's.

Layout::

    <directory>/<2 hex>/<32 hex of SHA-256 over place and path>/<offset>-<length>-<crc32>[-whole]
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileIO,
    FileStatus,
    OpenDirectory,
    OutputFile,
    file_too_large,
)
from tidelake.telemetry import Clock, Ids, PerProcess, SystemClock, SystemIds

KINDS = frozenset({"meta", "data", "bucket-index", "global-index", "file-index"})
"""The kinds of files, as in Paimon's ``local-cache.whitelist``."""

SWEEP_SHARE = 16
"""A process sweeps after it has added one part in so many of the limit."""
BLOCK_BYTES = 4096
"""A file takes at least this much of a disk."""
ABANDONED_MS = 3_600_000
"""A part that a killed process left is removed after an hour."""
_UNIQUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PART = re.compile(r"\..*\.part")
_ENTRY = re.compile(r"(\d+)-(\d+)-([0-9a-f]{8})(-whole)?")
_DIRECTORIES = frozenset({"manifest", "index", "statistics"})
"""Directories of a table, beside its buckets, whose files never change."""
_SHARD = re.compile(r"[0-9a-f]{2}")
_FILE = re.compile(r"[0-9a-f]{32}")
_LOG = logging.getLogger(__name__)
_WARNED: PerProcess[set[str]] = PerProcess(set)
"""Directories that are not used, of which the log was told."""
OTHERS_MAY_WRITE = 0o022


@dataclass(frozen=True, slots=True)
class _Entry:
    """A part of a file on the local disk."""

    place: str
    offset: int
    length: int
    crc: int
    is_whole: bool


class CachedFileIO:
    """Another storage behind a cache on the local disk. Picklable if the other is.

    Parameters
    ----------
    directory : str
        A local directory of the cache alone; created at the first read. If it is there, it must be
        this user's, and nobody else may write to it.
    bytes_max : int
        About the most bytes that it takes there.
    place : str
        Names the storage, so that several may share a directory: its endpoint and bucket.
    clock, ids
        For parts that killed processes left, and for names of files.

    Examples
    --------
    >>> import tempfile
    >>> from tidelake.fileio import MemoryFileIO
    >>> from tidelake.testing import DelayedFileIO
    >>> files = DelayedFileIO(MemoryFileIO(), delay_ms=0)
    >>> name = "/t/bucket-0/data-0b2f4c3e-52cf-4b3a-9f0e-6f0d7c1f5a11-0.parquet"
    >>> files.write_once(name, b"0123456789")
    >>> cached = CachedFileIO(files, tempfile.mkdtemp(), bytes_max=1 << 20)
    >>> cached.read_range(name, 2, 6), cached.read_range(name, 4, 2)
    (b'234567', b'45')
    >>> files.counts.bytes_read
    6
    """

    def __init__(
        self,
        inner: FileIO,
        directory: str,
        *,
        bytes_max: int,
        place: str = "",
        kinds: frozenset[str] = KINDS,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._inner = inner
        self._directory = directory
        self._bytes_max = bytes_max
        self._place = place
        self._kinds = kinds
        self._clock = SystemClock() if clock is None else clock
        self._ids = SystemIds() if ids is None else ids
        self._added_bytes = bytes_max  # a new process sweeps before it has added much

    def __repr__(self) -> str:
        return f"CachedFileIO({self._inner!r}, {self._directory!r})"

    @property
    def inner(self) -> FileIO:
        """The storage behind the cache."""
        return self._inner

    @property
    def is_remote(self) -> bool:
        """Whether the storage is: files that are not here yet are read from it."""
        return self._inner.is_remote

    @property
    def holds_directories(self) -> bool:
        """Whether the storage does."""
        return self._inner.holds_directories

    def uri_of(self, path: str) -> str:
        """How the storage shows a path."""
        return self._inner.uri_of(path)

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file."""
        if not self._keeps(path):
            return self._inner.read_bytes(path, bytes_max=bytes_max)
        for entry in self._entries(path):
            if entry.is_whole:
                if entry.length > bytes_max:
                    raise file_too_large(path, entry.length, bytes_max)
                data = self._content(entry)
                if data is not None:
                    return data
        data = self._inner.read_bytes(path, bytes_max=bytes_max)
        self._keep(path, 0, data, is_whole=True)
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        if not self._keeps(path):
            return self._inner.read_range(path, offset, length)
        found = self._found(self._entries(path), offset, length)
        if found is not None:
            return bytes(found)
        data = self._inner.read_range(path, offset, length)
        self._keep(path, offset, data)
        return data

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges of one file; those that are not here come by one call."""
        if not self._keeps(path):
            return self._inner.read_ranges(path, ranges)
        entries = self._entries(path)
        known = [self._found(entries, *one) for one in ranges]
        missing = [one for one, found in zip(ranges, known, strict=True) if found is None]
        came = iter(self._inner.read_ranges(path, missing) if missing else [])
        parts: list[pa.Buffer] = []
        for (offset, _), found in zip(ranges, known, strict=True):
            if found is None:
                part = next(came)
                self._keep(path, offset, part)
            else:
                part = pa.py_buffer(found)
            parts.append(part)
        return parts

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file of the storage for random access; its reads are not kept."""
        return self._inner.open_input(path)

    def open_output(self, path: str) -> OutputFile:
        """Open a new file."""
        return self._inner.open_output(path)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        self._inner.write_once(path, data)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._inner.sync_dir(path)

    def open_dir(self, path: str, *, make: bool = False) -> OpenDirectory:
        """Open a directory."""
        return self._inner.open_dir(path, make=make)

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file; False if the name is taken."""
        done = self._inner.put_if_absent(path, data, within=within, over=over)
        if over is not None:
            self._forget(path)
        return done

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file; what is here of it is removed."""
        self._inner.replace(path, data, within=within)
        self._forget(path)

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists in the storage."""
        return self._inner.exists(path, within=within)

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return self._inner.size(path)

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory."""
        return self._inner.list_dir(path)

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file, here too."""
        deleted = self._inner.delete(path, within=within, reused=reused, expected=expected)
        self._forget(path)
        return deleted

    def delete_dir(self, path: str) -> None:
        """Delete a directory with its content; its files here are swept when others need room."""
        self._inner.delete_dir(path)

    @property
    def storage_id(self) -> str:
        """The storage behind it."""
        return self._inner.storage_id

    def copy_within(self, source: str, target: str) -> bool:
        """Copy a file, there."""
        return self._inner.copy_within(source, target)

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory; its files are read anew."""
        self._inner.move_dir(source, target)

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents."""
        self._inner.make_dirs(path)

    def _keeps(self, path: str) -> bool:
        return _never_changes(path) and _kind_of(path) in self._kinds

    def _of(self, path: str) -> str:
        """The directory of a file's entries."""
        digest = hashlib.sha256(f"{self._place}\0{path}".encode()).hexdigest()
        return os.path.join(self._directory, digest[:2], digest[2:34])

    def _forget(self, path: str) -> None:
        """Remove what is here of a file."""
        if _never_changes(path):
            for entry in self._entries(path):
                _remove(entry.place)

    def _entries(self, path: str) -> list[_Entry]:
        """What is here of a file, the smallest first."""
        directory = self._of(path)
        try:
            if not self._is_private(directory):
                return []
            names = os.listdir(directory)
        except OSError:
            return []
        found = []
        for name in names:
            parts = _ENTRY.fullmatch(name)
            if parts:
                offset, length, crc = int(parts[1]), int(parts[2]), int(parts[3], 16)
                place = os.path.join(directory, name)
                found.append(_Entry(place, offset, length, crc, parts[4] is not None))
        return sorted(found, key=lambda entry: entry.length)

    def _found(self, entries: Sequence[_Entry], offset: int, length: int) -> memoryview | None:
        """A range, from the smallest entry that has it."""
        for entry in entries:
            if entry.offset <= offset and offset + length <= entry.offset + entry.length:
                data = self._content(entry)
                if data is not None:
                    begin = offset - entry.offset
                    return memoryview(data)[begin : begin + length]
        return None

    def _content(self, entry: _Entry) -> bytes | None:
        """The bytes of an entry; None if it is gone or damaged, and then it is removed."""
        try:
            with open(entry.place, "rb") as file:
                data = file.read(entry.length + 1)
            os.utime(entry.place)
        except OSError:
            return None
        if len(data) == entry.length and zlib.crc32(data) == entry.crc:
            return data
        _remove(entry.place)
        return None

    def _keep(
        self, path: str, offset: int, data: bytes | pa.Buffer, *, is_whole: bool = False
    ) -> None:
        """Keep what was read, unless the disk refuses."""
        length = len(data)
        if length > self._bytes_max // SWEEP_SHARE:
            return  # it would push out too much of the rest
        directory = self._of(path)
        part = os.path.join(directory, f".{self._ids.uuid()}.part")
        name = f"{offset}-{length}-{zlib.crc32(data):08x}{'-whole' if is_whole else ''}"
        try:
            _make_private(directory)
            if not self._is_private(directory):
                return
            self._sweep_if_due(max(length, BLOCK_BYTES))
            os.makedirs(directory, mode=0o700, exist_ok=True)  # the sweep may have removed it
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            os.replace(part, os.path.join(directory, name))
        except OSError:
            _remove(part)

    def _sweep_if_due(self, adds_bytes: int) -> None:
        share = self._bytes_max // SWEEP_SHARE
        self._added_bytes += adds_bytes
        if self._added_bytes <= share:
            return
        self._added_bytes = adds_bytes
        used = sorted(self._on_disk())
        excess = sum(size for _, size, _ in used) - (self._bytes_max - share)
        for _, size, place in used:
            if excess <= 0:
                return
            _remove(place)
            excess -= size

    def _on_disk(self) -> Iterator[tuple[int, int, str]]:
        """The last use, the size and the place of each entry; old parts are removed."""
        shards = _below([self._directory], _SHARD)
        for directory in _below(shards, _FILE):
            for name in _names(directory):
                place = os.path.join(directory, name)
                try:
                    status = os.lstat(place)
                except OSError:
                    continue
                used_ns = status.st_mtime_ns
                if _ENTRY.fullmatch(name):
                    yield used_ns, max(status.st_size, BLOCK_BYTES), place
                elif _PART.fullmatch(name) and self._is_abandoned(used_ns):
                    _remove(place)

    def _is_private(self, directory: str) -> bool:
        """Whether a file's directory, and those above it in the cache, are this user's alone."""
        for place in (self._directory, os.path.dirname(directory), directory):
            status = os.stat(place)
            if status.st_uid != os.geteuid():
                _warn(place, "belongs to another user")
                return False
            if status.st_mode & OTHERS_MAY_WRITE:
                _warn(place, "is one that others may write to")
                return False
        return True

    def _is_abandoned(self, written_ns: int) -> bool:
        return self._clock.now_ms() - written_ns // 1_000_000 > ABANDONED_MS


def _never_changes(path: str) -> bool:
    """Whether a file is written once under a name that no other file ever gets.

    Its directory tells: a user may give a tag or a consumer a uuid as its name, and their files are
    written again.

    Examples
    --------
    >>> unique = "0b2f4c3e-52cf-4b3a-9f0e-6f0d7c1f5a11"
    >>> _never_changes(f"/t/bucket-0/data-{unique}-0.orc")
    True
    >>> _never_changes(f"/t/consumer/lease-1-{unique}")
    False
    """
    directory, _, name = path.rpartition("/")
    parent = directory.rpartition("/")[2]
    is_of_files = parent in _DIRECTORIES or parent.startswith("bucket-")
    return is_of_files and _UNIQUE.search(name) is not None


def _kind_of(path: str) -> str:
    """The kind of a file that never changes, by its directory and name.

    Examples
    --------
    >>> _kind_of("/t/manifest/manifest-a-0"), _kind_of("/t/bucket-0/data-a-0.parquet")
    ('meta', 'data')
    """
    directory, _, name = path.rpartition("/")
    match directory.rpartition("/")[2]:
        case "manifest" | "statistics":
            return "meta"
        case "index":
            return "global-index" if name.startswith("global-index-") else "bucket-index"
        case _:
            return "file-index" if name.endswith(".index") else "data"


def _make_private(directory: str) -> None:
    """Make a directory and those above it that are missing, all for their owner only."""
    if not os.path.isdir(directory):
        _make_private(os.path.dirname(directory))
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, mode=0o700)


def _warn(place: str, why: str) -> None:
    """Say once in a process why a directory is not used."""
    warned = _WARNED.value
    if place not in warned:
        warned.add(place)
        _LOG.warning(
            "Nothing is kept in the local cache: its directory %s %s. Make it your own and"
            " writable to you only, or name one in 'local-cache.dir' that is not there yet.",
            place,
            why,
        )


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _below(directories: Iterable[str], shape: re.Pattern[str]) -> Iterator[str]:
    """The directories in these whose names have a shape; links are not followed."""
    for directory in directories:
        for name in _names(directory):
            place = os.path.join(directory, name)
            if shape.fullmatch(name) and os.path.isdir(place) and not os.path.islink(place):
                yield place


def _remove(place: str) -> None:
    """Remove an entry or a part, and its file's directory if that is empty then."""
    with contextlib.suppress(OSError):
        os.unlink(place)
        os.rmdir(os.path.dirname(place))
