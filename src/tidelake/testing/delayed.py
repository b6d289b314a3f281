"""A storage whose calls take as long as requests over a network, and are counted.

For tests and benchmarks of what a read or a commit costs on an object store. Each call is one
request and waits; :meth:`DelayedFileIO.read_ranges` sends one request a range, all at once. Reads
through :meth:`DelayedFileIO.open_input` are requests too, one for each read of the file.

Requests are counted by **rounds** too: the longest chain of requests of which each began when the
one before had ended. So rounds times the delay is what a caller waits at least, however many
requests it has in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileIO,
    FileStatus,
    OpenDirectory,
    OutputFile,
)
from tidelake.fileio.files import PositionedFile
from tidelake.telemetry import Clock, PerProcess, SystemClock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """What was asked of a storage."""

    requests: int = 0
    rounds: int = 0
    in_flight_max: int = 0
    bytes_read: int = 0


class _Counter:
    """Counts requests of several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = self._rounds = self._in_flight = self._in_flight_max = self._bytes = 0

    @property
    def counts(self) -> RequestCounts:
        with self._lock:
            return RequestCounts(self._requests, self._rounds, self._in_flight_max, self._bytes)

    @contextmanager
    def counted(self, requests: int) -> Iterator[None]:
        with self._lock:
            own = self._rounds + 1
            self._requests += requests
            self._in_flight += requests
            self._in_flight_max = max(self._in_flight_max, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= requests
                self._rounds = max(self._rounds, own)

    def add_bytes(self, count: int) -> None:
        with self._lock:
            self._bytes += count


class DelayedFileIO:
    """Another storage behind a delay. Picklable if the other is; a copy counts anew.

    Examples
    --------
    >>> from tidelake.fileio.memory import MemoryFileIO
    >>> files = DelayedFileIO(MemoryFileIO(), delay_ms=0)
    >>> files.write_once("/a", b"0123456789")
    >>> [part.size for part in files.read_ranges("/a", [(0, 2), (5, 5)])]
    [2, 5]
    >>> files.counts
    RequestCounts(requests=3, rounds=2, in_flight_max=2, bytes_read=7)
    """

    def __init__(self, inner: FileIO, *, delay_ms: float, clock: Clock | None = None) -> None:
        self._inner = inner
        self._delay_ms = delay_ms
        self._clock = SystemClock() if clock is None else clock
        self._counter = PerProcess(_Counter)

    def __reduce__(self) -> tuple[Callable[..., DelayedFileIO], tuple[object, ...]]:
        return (_delayed, (self._inner, self._delay_ms, self._clock))

    @property
    def counts(self) -> RequestCounts:
        """What was asked so far."""
        return self._counter.value.counts

    def reset(self) -> None:
        """Count from 0 again; no request may be in flight."""
        self._counter = PerProcess(_Counter)

    @property
    def is_remote(self) -> bool:
        """True: a call waits."""
        return True

    @property
    def holds_directories(self) -> bool:
        """False: it stands for an object store."""
        return False

    def uri_of(self, path: str) -> str:
        """How the other storage shows a path; no call of it."""
        return self._inner.uri_of(path)

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file."""
        return self._read(lambda: self._inner.read_bytes(path, bytes_max=bytes_max))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        return self._read(lambda: self._inner.read_range(path, offset, length))

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges of one file, a request for each, all at once."""
        found = self._waited(lambda: self._inner.read_ranges(path, ranges), len(ranges))
        self._counter.value.add_bytes(sum(part.size for part in found))
        return found

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; each read of it is a request."""
        size = self.size(path)
        return pa.PythonFile(_RequestedFile(self, path, size), mode="r")

    def open_output(self, path: str) -> OutputFile:
        """Open a new file; its writes do not wait."""
        return self._waited(lambda: self._inner.open_output(path))

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        self._waited(lambda: self._inner.write_once(path, data))

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable; an object store has no such request."""
        self._inner.sync_dir(path)

    def open_dir(self, path: str, *, make: bool = False) -> OpenDirectory:
        """Open a directory."""
        return self._waited(lambda: self._inner.open_dir(path, make=make))

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file; False if the name is taken."""
        return self._waited(lambda: self._inner.put_if_absent(path, data, within=within, over=over))

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file."""
        self._waited(lambda: self._inner.replace(path, data, within=within))

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists."""
        return self._waited(lambda: self._inner.exists(path, within=within))

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return self._waited(lambda: self._inner.size(path))

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory."""
        return self._waited(lambda: self._inner.list_dir(path))

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file; False if it was missing."""
        return self._waited(
            lambda: self._inner.delete(path, within=within, reused=reused, expected=expected)
        )

    def delete_dir(self, path: str) -> None:
        """Delete a directory with its content."""
        self._waited(lambda: self._inner.delete_dir(path))

    @property
    def storage_id(self) -> str:
        """The storage behind it."""
        return self._inner.storage_id

    def copy_within(self, source: str, target: str) -> bool:
        """Copy a file by one request."""
        return self._waited(lambda: self._inner.copy_within(source, target))

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory."""
        self._waited(lambda: self._inner.move_dir(source, target))

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents; an object store has no such request."""
        self._inner.make_dirs(path)

    def _read(self, read: Callable[[], bytes]) -> bytes:
        data = self._waited(read)
        self._counter.value.add_bytes(len(data))
        return data

    def _waited(self, call: Callable[[], T], requests: int = 1) -> T:
        with self._counter.value.counted(requests):
            self._clock.sleep_ms(self._delay_ms)
            return call()


def _delayed(inner: FileIO, delay_ms: float, clock: Clock) -> DelayedFileIO:
    return DelayedFileIO(inner, delay_ms=delay_ms, clock=clock)


class _RequestedFile(PositionedFile):
    """A file of which each read is a request."""

    def __init__(self, files: DelayedFileIO, path: str, size: int) -> None:
        super().__init__(size)
        self._files = files
        self._path = path

    def read_at(self, offset: int, length: int) -> bytes:
        return self._files.read_range(self._path, offset, length)
