"""A storage with planned faults: the plan names the calls that fail, and how; calls are traced.

1. Each call gets a number, from 1, and an entry in the trace.
2. If the plan names that number, the call fails in the given :class:`FaultMode`. A mode that makes
   no sense for the call (an old listing of a ``delete``) has no effect.
3. After a crash the instance is dead: each further call raises :class:`SimulatedCrash` again and
   has no effect, because a killed process runs no ``finally`` blocks either.
4. An effect that comes late comes before a later call, or at :meth:`FaultyFileIO.settle`. It goes
   to the path as it is then, as on an object store: no open directory holds it back.

A new file counts as few calls whatever its writer does: its opening, each
:data:`OUTPUT_BLOCK_BYTES` written, its closing. The same plan and engine give the same trace.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from tidelake.errors import StorageError, StorageRefusedError, TidelakeError
from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileIO,
    FileStatus,
    OpenDirectory,
    OutputFile,
    file_closed,
    name_taken,
    parent_of,
)

T = TypeVar("T")
OUTPUT_BLOCK_BYTES = 4 << 20
LATE_CALLS = 3


class FaultMode(enum.Enum):
    """How a call fails."""

    EIO_BEFORE = "eio_before"
    """The caller sees an error; nothing happened."""
    EIO_AFTER = "eio_after"
    """The caller sees an error; the effect happened."""
    CRASH_BEFORE = "crash_before"
    CRASH_AFTER = "crash_after"
    TORN = "torn"
    """Half of the data is written, then the process dies."""
    ENOSPC = "enospc"
    """The disk is full; half of the data is there if it went to a file still being written."""
    DUP = "dup"
    """The storage's client sends the call twice; the caller sees the second answer."""
    STALE_LIST = "stale_list"
    """The listing is the one from before the directory's last change."""
    EMPTY_LIST = "empty_list"
    """The listing is empty."""
    CONFLICT = "conflict"
    """The storage says that the name is taken; nothing happened, and nothing may be there."""
    LATE = "late"
    """The caller sees an error; the effect comes some calls later."""

    def affects(self, op: str) -> bool:
        """Whether a call of this name fails in this mode at all.

        Examples
        --------
        >>> FaultMode.STALE_LIST.affects("delete"), FaultMode.DUP.affects("put_if_absent")
        (False, True)
        """
        match self:
            case FaultMode.TORN:
                return op in _WITH_DATA
            case FaultMode.ENOSPC:
                return op in _WITH_DATA or op in {"open_output", "close", "make_dirs", "open_dir"}
            case FaultMode.DUP:
                return op in _REPLAYED
            case FaultMode.STALE_LIST | FaultMode.EMPTY_LIST:
                return op == "list_dir"
            case FaultMode.CONFLICT:
                return op in _CONDITIONAL
            case FaultMode.LATE:
                return op in _DELAYED
            case _:
                return True


_WITH_DATA = frozenset({"write", "write_once", "put_if_absent", "replace"})
_REPLAYED = frozenset(
    {"write_once", "put_if_absent", "replace", "delete", "delete_dir", "make_dirs"}
)
_CONDITIONAL = frozenset({"write_once", "put_if_absent", "close", "move_dir"})
_DELAYED = _REPLAYED | {"close", "move_dir"}


class SimulatedCrash(BaseException):
    """The process died here. Not an ``Exception``, so that no handler of the engine catches it."""


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One call: its number, name, path, and the fault it met."""

    call: int
    op: str
    path: str
    mode: FaultMode | None


class FaultyFileIO:
    """Another storage with faults. For one thread.

    Parameters
    ----------
    inner : FileIO
        The storage that the calls go to.
    plan : mapping of int to FaultMode
        By call number, from 1, how it fails.
    late_calls : int
        In :attr:`FaultMode.LATE`, the further calls that see nothing of the effect.

    Examples
    --------
    >>> from tidelake.fileio.memory import MemoryFileIO
    >>> inner = MemoryFileIO()
    >>> files = FaultyFileIO(inner, {1: FaultMode.EIO_AFTER})
    >>> files.put_if_absent("/a", b"1")
    Traceback (most recent call last):
    tidelake.errors.StorageError: put_if_absent of /a failed (fault of call 1).
    >>> inner.exists("/a")
    True
    """

    def __init__(
        self,
        inner: FileIO,
        plan: Mapping[int, FaultMode] | None = None,
        *,
        late_calls: int = LATE_CALLS,
    ) -> None:
        self._inner = inner
        self._plan = dict(plan or {})
        self._late_calls = late_calls
        self._later: list[tuple[int, Callable[[], object]]] = []
        self._remembers = FaultMode.STALE_LIST in self._plan.values()
        self._is_ever_late = FaultMode.LATE in self._plan.values()
        self._listings_before: dict[str, list[FileStatus]] = {}
        self._dead = False
        self.trace: list[TraceEntry] = []

    def settle(self) -> bool:
        """Let all effects happen that are still to come; whether there were any."""
        return self._let_happen(None)

    def is_hit(self) -> bool:
        """Whether any call has failed."""
        return any(entry.mode is not None for entry in self.trace)

    @property
    def inner(self) -> FileIO:
        """The storage of the files."""
        return self._inner

    @property
    def is_remote(self) -> bool:
        """Whether the other storage is."""
        return self._inner.is_remote

    @property
    def holds_directories(self) -> bool:
        """Whether the other storage does."""
        return self._inner.holds_directories

    def uri_of(self, path: str) -> str:
        """How the other storage shows a path; no call of it."""
        return self._inner.uri_of(path)

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file."""
        return self._call(
            "read_bytes", path, lambda: self._inner.read_bytes(path, bytes_max=bytes_max)
        )

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        return self._call("read_range", path, lambda: self._inner.read_range(path, offset, length))

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges of one file: one call."""
        return self._call("read_ranges", path, lambda: self._inner.read_ranges(path, ranges))

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; reads from it do not count as calls."""
        return self._call("open_input", path, lambda: self._inner.open_input(path))

    def open_output(self, path: str) -> OutputFile:
        """Open a new file."""
        self._remember(path)
        output = self._call("open_output", path, lambda: self._inner.open_output(path))
        return _FaultyOutputFile(self, path, output)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        self._remember(path)
        self._call(
            "write_once",
            path,
            lambda: self._inner.write_once(path, data),
            lambda: self._inner.write_once(path, data[: len(data) // 2]),
        )

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._call("sync_dir", path, lambda: self._inner.sync_dir(path))

    def open_dir(self, path: str, *, make: bool = False) -> OpenDirectory:
        """Open a directory; operations within it are calls too."""
        self._remember(path)
        held = self._call("open_dir", path, lambda: self._inner.open_dir(path, make=make))
        return _FaultyDirectory(held)

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file; torn, it leaves half a temporary file and nothing under the name."""
        self._remember(path)
        held: dict[str, Any] = _inner_of(within)
        replaced: dict[str, Any] = {} if over is None else {"over": over}
        return self._call(
            "put_if_absent",
            path,
            lambda: self._inner.put_if_absent(path, data, **held, **replaced),
            lambda: self._inner.replace(
                f"{parent_of(path)}/.torn-{len(self.trace)}.tmp", data[: len(data) // 2], **held
            ),
            lambda: self._inner.put_if_absent(path, data, **replaced),
        )

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Overwrite a file; torn, it holds half of the data."""
        self._remember(path)
        held = _inner_of(within)
        self._call(
            "replace",
            path,
            lambda: self._inner.replace(path, data, **held),
            lambda: self._inner.replace(path, data[: len(data) // 2], **held),
            lambda: self._inner.replace(path, data),
        )

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether a file or directory of that name exists."""
        held = _inner_of(within)
        return self._call("exists", path, lambda: self._inner.exists(path, **held))

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return self._call("size", path, lambda: self._inner.size(path))

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory."""
        return self._call("list_dir", path, lambda: self._inner.list_dir(path))

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file."""
        self._remember(path)
        held = _inner_of(within)
        return self._call(
            "delete",
            path,
            lambda: self._inner.delete(path, reused=reused, expected=expected, **held),
            late_effect=lambda: self._inner.delete(path),
        )

    def delete_dir(self, path: str) -> None:
        """Delete a directory and all in it."""
        self._remember(path)
        self._call("delete_dir", path, lambda: self._inner.delete_dir(path))

    @property
    def storage_id(self) -> str:
        """The storage behind it."""
        return self._inner.storage_id

    def copy_within(self, source: str, target: str) -> bool:
        """Copy a file."""
        self._remember(target)
        return self._call("copy_within", target, lambda: self._inner.copy_within(source, target))

    def move_dir(self, source: str, target: str) -> None:
        """Rename a directory."""
        self._remember(source)
        self._call("move_dir", source, lambda: self._inner.move_dir(source, target))

    def make_dirs(self, path: str) -> None:
        """Make a directory and its parents."""
        self._remember(path)
        self._call("make_dirs", path, lambda: self._inner.make_dirs(path))

    def _call(
        self,
        op: str,
        path: str,
        effect: Callable[[], T],
        half_effect: Callable[[], object] | None = None,
        late_effect: Callable[[], object] | None = None,
    ) -> T:
        self._require_alive()
        call = len(self.trace) + 1
        self._let_happen(call)
        mode = self._plan.get(call)
        if mode is not None and not mode.affects(op):
            mode = None
        self.trace.append(TraceEntry(call, op, path, mode))
        if mode is None:
            return effect()
        where = f"{op} of {path} failed (fault of call {call})"
        match mode:
            case FaultMode.TORN | FaultMode.ENOSPC:
                raise self._half_done(mode, op, path, half_effect, where)
            case FaultMode.CONFLICT if op != "put_if_absent":
                raise name_taken(path)
            case FaultMode.CONFLICT:
                return False  # type: ignore[return-value]
            case FaultMode.LATE:
                self._later.append((call + self._late_calls, late_effect or effect))
                raise StorageError(f"{where}.", path=path)
            case FaultMode.EIO_BEFORE:
                raise StorageError(f"{where}.", path=path)
            case FaultMode.CRASH_BEFORE:
                raise self._crash(where)
            case FaultMode.EMPTY_LIST:
                return []  # type: ignore[return-value] # only list_dir gets here
            case FaultMode.STALE_LIST:
                listing = self._listings_before.get(path.rstrip("/"))
                return effect() if listing is None else listing  # type: ignore[return-value]
        if mode is FaultMode.EIO_AFTER:
            with suppress(TidelakeError):  # that answer is lost, too
                effect()
            raise StorageError(f"{where}.", path=path)
        result = effect()
        if mode is FaultMode.CRASH_AFTER:
            raise self._crash(where)
        return effect() if mode is FaultMode.DUP else result

    def _half_done(
        self,
        mode: FaultMode,
        op: str,
        path: str,
        half_effect: Callable[[], object] | None,
        where: str,
    ) -> BaseException:
        """Do half of it, where that shows; what to raise."""
        if half_effect is not None and (mode is FaultMode.TORN or op == "write"):
            half_effect()  # on a full disk the others clean up
        if mode is FaultMode.TORN:
            return self._crash(where)
        refuses = op in {"put_if_absent", "open_dir"}  # the others may have begun
        failed = StorageRefusedError if refuses else StorageError
        return failed(f"{where}: no space left.", kind="no_space", path=path)

    def _let_happen(self, call: int | None) -> bool:
        """Let the effects happen that are due before a call, or all."""
        due = [effect for after, effect in self._later if call is None or after < call]
        self._later = [(at, effect) for at, effect in self._later if effect not in due]
        for effect in due:
            with suppress(TidelakeError):  # nobody hears of it
                effect()
        return bool(due)

    def _crash(self, where: str) -> SimulatedCrash:
        self._dead = True
        return SimulatedCrash(where)

    def _require_alive(self) -> None:
        if self._dead:
            raise SimulatedCrash("this process is dead")

    def _remember(self, path: str) -> None:
        if self._remembers and not self._dead:
            parent = parent_of(path)
            self._listings_before[parent.rstrip("/")] = self._inner.list_dir(parent)


def _inner_of(within: OpenDirectory | None) -> dict[str, OpenDirectory]:
    """The open directory of the inner storage, as a keyword argument."""
    if within is None:
        return {}
    assert isinstance(within, _FaultyDirectory), "the directory is of this storage"
    return {"within": within.inner}


class _FaultyDirectory:
    """An open directory."""

    def __init__(self, inner: OpenDirectory) -> None:
        self.inner = inner

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def has_late_put(self) -> bool:
        return self.inner.has_late_put

    def close(self) -> None:
        self.inner.close()  # for a dead process too: the system closes it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _FaultyOutputFile:
    """A new file whose writes reach the storage in blocks, each of them a call."""

    def __init__(self, owner: FaultyFileIO, path: str, inner: OutputFile) -> None:
        self._owner = owner
        self._path = path
        self._inner = inner
        self._pending = bytearray()
        self._whole = bytearray()
        """All that was written, where the file may come late."""
        self._length = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def write(self, data: bytes) -> int:
        self._owner._require_alive()
        if self._closed:
            raise file_closed(self._path)
        self._pending += data
        if self._owner._is_ever_late:
            self._whole += data
        self._length += len(data)
        if len(self._pending) >= OUTPUT_BLOCK_BYTES:
            self._write_through()
        return len(data)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self._closed:
            return
        self._owner._require_alive()
        if self._pending:
            self._write_through()
        self._owner._call("close", self._path, self._inner.close, late_effect=self._put_whole)
        self._closed = True

    def abort(self) -> None:
        if self._closed:
            return
        self._owner._call("abort", self._path, self._inner.abort)
        self._closed = True

    def _put_whole(self) -> None:
        """The file comes late, and whole, whoever has aborted it meanwhile."""
        self._inner.abort()
        self._owner._inner.write_once(self._path, bytes(self._whole))

    def _write_through(self) -> None:
        data, self._pending = bytes(self._pending), bytearray()

        def half() -> None:
            self._inner.write(data[: len(data) // 2])
            if self._owner._plan.get(len(self._owner.trace)) is FaultMode.TORN:
                self._inner.close()  # bytes that a dead process wrote are visible

        self._owner._call("write", self._path, lambda: self._inner.write(data), half)
