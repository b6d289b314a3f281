"""The lookup files of one table on the local disk, shared by the processes of a machine.

1. A file's name says what it was made of (:mod:`tidelake.lookup.stored_columns`), so a file that is
   there is used again: after a restart, by other processes, after a change of the schema that does
   not concern its columns.
2. A missing file is made once: threads wait for the thread that makes it, processes for the process
   (a lock file, which its death frees).
3. A file that does not match its checksum or its name is built again.
4. Files that no view of this process holds and nobody has used for
   ``lookup.cache-file-retention`` are removed; so are temporary files of processes that died. When
   files would be more than ``lookup.cache-max-disk-size``, those unused for the longest time go
   first. A file that another process has open stays readable there.
5. Others may remove files, or the whole directory, at any moment, as cleaners of temporary files
   do. What is open stays readable; a step that misses a name makes the directory and begins anew.

The time of a file's last use is its modification time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from weakref import WeakValueDictionary

from tidelake.errors import StorageError
from tidelake.lookup.build import TEMPORARY_SUFFIX, LookupBuild
from tidelake.lookup.directory import LookupDirectory
from tidelake.lookup.file_memory import MappedBudget
from tidelake.lookup.opened_file import OpenedFile
from tidelake.lookup.stored_columns import StoredColumns
from tidelake.metadata.data_file import DataFileMeta
from tidelake.telemetry import Clock, Ids, PerProcess
from tidelake.types import DataField

SUFFIX = ".lookup"
LOCK_SUFFIX = ".lock"
SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What the system lacks, whatever the file."""
YOUNG_MS = 60_000
"""A temporary file of this age may be about to be locked by its writer."""
SWEEPS_PER_RETENTION = 4
"""How often the use of files is noted while they are kept."""
TRIES_MAX = 8
"""How often a file is begun anew because others removed its directory meanwhile."""


_Shared: TypeAlias = tuple[Path, tuple[str, ...]]
"""A file, and the names that its columns have."""


@dataclass(frozen=True, slots=True)
class LookupLimits:
    """What lookup files may take.

    Parameters
    ----------
    mapped_bytes_max : int
        Bytes mapped into memory: ``lookup.cache-max-memory-size``.
    disk_bytes_max : int
        Bytes on disk: ``lookup.cache-max-disk-size``.
    retention_ms : int
        How long an unused file is kept: ``lookup.cache-file-retention``.
    """

    mapped_bytes_max: int
    disk_bytes_max: int
    retention_ms: int


@dataclass(frozen=True, slots=True)
class LookupStats:
    """Counts of one query.

    Parameters
    ----------
    files_count, mapped_bytes, disk_bytes : int
        Lookup files in use, their bytes that are mapped, and all their bytes.
    builds : int
        Lookup files that this process made for the table; others were found.
    """

    files_count: int = 0
    mapped_bytes: int = 0
    disk_bytes: int = 0
    hits: int = 0
    misses: int = 0
    builds: int = 0


class LookupCache:
    """The lookup files of one table. Thread-safe; a forked child goes on with its own locks.

    Parameters
    ----------
    limits : LookupLimits
        What they may take.
    """

    def __init__(
        self, place: LookupDirectory, limits: LookupLimits, *, clock: Clock, ids: Ids
    ) -> None:
        self.directory = place.path
        self._place = place
        self.limits = limits
        self.budget = MappedBudget(limits.mapped_bytes_max)
        self.builds_count = 0
        """Lookup files made."""
        self._clock = clock
        self._ids = ids
        self._own = PerProcess(_InProcess)
        self._swept_ms = 0
        self._remove_stale(())

    def opened(
        self,
        file: DataFileMeta,
        stored: StoredColumns,
        fields: tuple[DataField, ...],
        fill: Callable[[LookupBuild], int],
        *,
        in_use: Callable[[], Iterable[Path]],
    ) -> OpenedFile:
        """Open the lookup file of a data file; make it if it is not there.

        Parameters
        ----------
        fill : callable
            Adds the data file's rows to a new file; returns how many they are.
        in_use : callable
            The files that must not be removed for room.

        Raises
        ------
        StorageError
            The disk, or ``lookup.cache-max-disk-size``, has no room.
        """
        identity = stored.identity(file, fields)
        path = self.directory / stored.file_name(file, identity)
        order = _Order(path, stored, fields, identity, file.row_count, fill, in_use)
        own = self._own.value
        with own.lock:
            turn = own.turns.setdefault(path, threading.Lock())
        with turn:
            # columns are stored by id: after a rename one file has them under two names
            shared = (path, tuple(field.name for field in fields))
            opened = own.find(shared)
            if opened is None:
                opened = self._open_or_make(order)
                own.keep(shared, opened)
        with own.lock:
            own.turns.pop(path, None)
        return opened

    def sweep(self, in_use: Collection[Path]) -> None:
        """Now and then: note the use of files, and remove those that nobody used for long."""
        now_ms = self._clock.now_ms()
        if now_ms - self._swept_ms < self.limits.retention_ms // SWEEPS_PER_RETENTION:
            return
        self._swept_ms = now_ms  # before anything slow: other threads need not do it too
        for path in in_use:
            with contextlib.suppress(OSError):
                _mark_used(path, now_ms)
        self._remove_stale(in_use)

    def _remove_stale(self, in_use: Collection[Path]) -> None:
        self._swept_ms = now_ms = self._clock.now_ms()
        kept = {*in_use, *self._own.value.paths()}
        for path in self._files(TEMPORARY_SUFFIX):
            with contextlib.suppress(OSError):
                if now_ms - _used_ms(path) > YOUNG_MS and _is_unlocked(path):
                    path.unlink()
        for path in (*self._files(SUFFIX), *self._files(LOCK_SUFFIX)):
            with contextlib.suppress(OSError):
                if path not in kept and now_ms - _used_ms(path) > self.limits.retention_ms:
                    path.unlink()

    def _files(self, suffix: str) -> list[Path]:
        try:
            names = [e.name for e in os.scandir(self.directory) if e.name.endswith(suffix)]
        except OSError:
            return []
        return [self.directory / name for name in names]

    def _open_or_make(self, order: _Order) -> OpenedFile:
        try:
            for _ in range(TRIES_MAX - 1):
                with contextlib.suppress(FileNotFoundError):  # the directory was removed meanwhile
                    return self._tried(order)
            return self._tried(order)
        except OSError as error:
            if error.errno in SCARCE:
                message = (
                    f"A lookup file in {self.directory} could not be opened: {error.strerror}. Each"
                    " data file takes one: raise the limit (ulimit -n), or own fewer buckets."
                )
                raise StorageError(message, kind="too_many_files", path=str(order.path)) from error
            message = (
                f"A lookup file could not be written to {self.directory}: {error}. Make room there,"
                " or name another directory, as in local_query(directory=...)."
            )
            raise StorageError(message, kind="lookup_disk", path=str(order.path)) from error

    def _tried(self, order: _Order) -> OpenedFile:
        self._place.make()
        found = self._found(order)
        if found is not None:
            return found
        with _lock_of(order.path):
            found = self._found(order)  # another process may have made it meanwhile
            return self._made(order) if found is None else found

    def _found(self, order: _Order) -> OpenedFile | None:
        """The file that is there; None without one, or if it is damaged."""
        try:
            opened = order.open(self.budget)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in SCARCE:
                raise  # the file is sound
            with contextlib.suppress(OSError):
                order.path.unlink()
            return None
        self._note_use(order.path)
        return opened

    def _made(self, order: _Order) -> OpenedFile:
        build = LookupBuild(order.stored, order.fields, str(self.directory))
        try:
            rows = order.fill(build)
            assert rows == order.rows_count, "a reader gives every row of its file"
            self._make_room(build.size_bytes, order.in_use())
            build.write(order.path, identity=order.identity, unique=self._ids.uuid())
        finally:
            build.close()
        self.builds_count += 1
        self._note_use(order.path)
        return order.open(self.budget, is_new=True)

    def _note_use(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # others may have removed its name
            _mark_used(path, self._clock.now_ms())

    def _make_room(self, needed_bytes: int, in_use: Iterable[Path]) -> None:
        limit = self.limits.disk_bytes_max
        sizes: dict[Path, tuple[int, int]] = {}
        for path in self._files(SUFFIX):
            with contextlib.suppress(OSError):
                facts = path.stat()
                sizes[path] = (facts.st_mtime_ns, facts.st_size)
        total = sum(size for _, size in sizes.values())
        kept = {*in_use, *self._own.value.paths()}
        for path, (_, size) in sorted(sizes.items(), key=lambda item: item[1]):
            if total + needed_bytes <= limit:
                return
            if path in kept:
                continue
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        if total + needed_bytes > limit:
            message = (
                f"The lookup files in {self.directory} would take {total + needed_bytes:,} bytes,"
                f" but 'lookup.cache-max-disk-size' is {limit:,}. Raise it, name fewer columns, or"
                " own fewer buckets."
            )
            raise StorageError(message, kind="lookup_disk", path=str(self.directory))


@dataclass(frozen=True, slots=True)
class _Order:
    """One lookup file that is wanted."""

    path: Path
    stored: StoredColumns
    fields: tuple[DataField, ...]
    identity: bytes
    rows_count: int
    fill: Callable[[LookupBuild], int]
    in_use: Callable[[], Iterable[Path]]

    def open(self, budget: MappedBudget, *, is_new: bool = False) -> OpenedFile:
        return OpenedFile(
            self.path,
            self.stored,
            self.fields,
            identity=self.identity,
            budget=budget,
            is_new=is_new,
        )


class _InProcess:
    """What this process has open, and the turns of threads that open the same file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turns: dict[Path, threading.Lock] = {}
        # even its get removes what is gone, under a thread that goes over it: all by the lock
        self._opened: WeakValueDictionary[_Shared, OpenedFile] = WeakValueDictionary()

    def find(self, shared: _Shared) -> OpenedFile | None:
        """A file that is open."""
        with self.lock:
            return self._opened.get(shared)

    def keep(self, shared: _Shared, opened: OpenedFile) -> None:
        """Know a file as open, as long as somebody has it."""
        with self.lock:
            self._opened[shared] = opened

    def paths(self) -> set[Path]:
        """The files that are open."""
        with self.lock:
            return {path for path, _ in self._opened}


def _used_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def _mark_used(path: Path, now_ms: int) -> None:
    os.utime(path, ns=(now_ms * 1_000_000,) * 2)


@contextlib.contextmanager
def _lock_of(path: Path) -> Iterator[None]:
    """Hold the lock of a file that is made: one process at a time, until it ends."""
    with path.with_name(path.name + LOCK_SUFFIX).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:  # not by closing it: a child that was forked meanwhile has it open too
            fcntl.flock(lock, fcntl.LOCK_UN)


def _is_unlocked(path: Path) -> bool:
    """Whether no process writes a file: its death frees the lock."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
