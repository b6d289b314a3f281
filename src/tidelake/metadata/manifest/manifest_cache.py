"""A cache of decoded manifests. It needs no invalidation, because no file ever changes.

Keys are paths. Besides manifests and manifest lists a catalog keeps other decoded metadata files
here, and for each table the live files of the snapshot that was planned last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tidelake.errors import CorruptError
from tidelake.fileio import FileIO
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest import decode_manifest, decode_small_manifests
from tidelake.metadata.manifest.manifest_list import ManifestFile, read_manifest_list
from tidelake.metadata.paths import TablePaths
from tidelake.metadata.unique_file import resized, whole_bytes_max
from tidelake.telemetry import Executor, RecentlyUsed, SerialExecutor

TABLE_BYTES = 24 << 10
LIST_ROW_BYTES = 1_500
"""The size of a cached manifest besides its values, and of a list row: measured, of one entry each.
With small commits the cache is full of such, and their values are a fiftieth of them."""

SMALL_BYTES_MAX = 16 << 10
SMALL_MIN = 8
SMALL_AT_ONCE = 64
"""How many small manifests of a local storage make it worth to decode them together; and groups."""

READ_BYTES_MAX = 64 << 20
"""Bytes of manifests that are on their way, or here and not decoded yet."""

T = TypeVar("T")


class ManifestCache:
    """Decoded manifests and manifest lists; the least recently used are evicted. Thread-safe.

    Parameters
    ----------
    bytes_max : int
        Memory for the cached tables; a larger one is not kept.
    reads : Executor, optional
        Reads files of a remote storage side by side; by default they come one after the other.
    """

    def __init__(self, bytes_max: int, *, reads: Executor | None = None) -> None:
        self.reads: Executor = SerialExecutor() if reads is None else reads
        self._kept: RecentlyUsed[str, Any] = RecentlyUsed(bytes_max=bytes_max)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._kept.nbytes

    def entries(
        self, fileio: FileIO, path: str, *, expected: ManifestFile | None = None
    ) -> EntryTable:
        """The entries of a manifest, decoded at the first call.

        Raises
        ------
        CorruptError
            The file is damaged or does not match the list; the message names it.
        NotFoundError
            It is missing.
        """

        def load() -> tuple[EntryTable, int]:
            size_bytes = None if expected is None else expected.file_size_bytes
            return _decoded(_read(fileio, path, size_bytes), path)

        table = self.get(path, load)
        if expected is not None:
            _check_counts(table, path, expected)
        return table

    def all_entries(
        self, fileio: FileIO, paths: TablePaths, files: Sequence[ManifestFile]
    ) -> list[EntryTable]:
        """The entries of several manifests, one table each; errors as of :meth:`entries`.

        Of a remote storage, up to 64 files with :data:`READ_BYTES_MAX` bytes are on their way while
        earlier ones are decoded here.
        """
        named = [(paths.manifest(file.file_name), file) for file in files]
        # a name that comes twice is read once, so that each content meets its own name
        missing = [one for one in dict(named).items() if one[0] not in self._kept]
        if not fileio.is_remote or len(missing) < 2:
            small = self._small(fileio, missing)
            for path, file in named:
                if path in small:
                    _check_counts(small[path], path, file)
            return [
                small[path] if path in small else self.entries(fileio, path, expected=file)
                for path, file in named
            ]
        coming = {path for path, _ in missing}
        tables = []
        with closing(
            self.reads.map_ahead(
                lambda one: _read(fileio, one[0], one[1].file_size_bytes),
                missing,
                weight=lambda one: one[1].file_size_bytes,
                weight_max=READ_BYTES_MAX,
            )
        ) as contents:
            for path, file in named:
                if path in coming:
                    coming.remove(path)
                    data = next(contents)
                    table = self.get(path, partial(_decoded, data, path))
                    _check_counts(table, path, file)
                else:
                    table = self.entries(fileio, path, expected=file)
                tables.append(table)
        return tables

    def _small(
        self, fileio: FileIO, missing: Sequence[tuple[str, ManifestFile]]
    ) -> dict[str, EntryTable]:
        """Decode the small ones of manifests together; errors as of :meth:`entries`."""
        found: dict[str, EntryTable] = {}
        small = [one for one in missing if one[1].file_size_bytes <= SMALL_BYTES_MAX]
        if len(small) < SMALL_MIN:
            return found
        for start in range(0, len(small), SMALL_AT_ONCE):
            group = small[start : start + SMALL_AT_ONCE]
            contents = [(_read(fileio, path, f.file_size_bytes), path) for path, f in group]
            decoded = decode_small_manifests(contents)
            if decoded is None:
                tables = [decode_manifest(data, path=path) for data, path in contents]
                sizes = [table.nbytes for table in tables]
            else:
                tables, nbytes = decoded
                sizes = [nbytes // len(tables)] * len(tables)
            for (path, _), table, nbytes in zip(group, tables, sizes, strict=True):
                found[path] = table
                self._kept.keep(path, table, nbytes + TABLE_BYTES)
        return found

    def manifest_list(
        self, fileio: FileIO, paths: TablePaths, name: str, *, size_bytes: int | None = None
    ) -> tuple[ManifestFile, ...]:
        """The rows of a manifest list, decoded at the first call: :func:`read_manifest_list`."""

        def load() -> tuple[tuple[ManifestFile, ...], int]:
            files = read_manifest_list(fileio, paths, name, size_bytes=size_bytes)
            return files, LIST_ROW_BYTES * (len(files) + 1)

        return self.get(paths.manifest(name), load)

    def folded(
        self, branch_dir: str, snapshot: Snapshot, fold: Callable[[], EntryTable]
    ) -> EntryTable:
        """The live files of a snapshot, folded at the first call; each branch keeps the last one.

        Parameters
        ----------
        snapshot : Snapshot
            The version. Its lists' names are unique, so a recreated table differs.
        fold : callable
            Gives the live files, always in the same order.
        """
        lists = snapshot.base_manifest_list, snapshot.delta_manifest_list
        key = f"{branch_dir}/live"
        kept = self._kept.get(key)
        if kept is not None and kept[0] == lists:
            found: EntryTable = kept[1]
            return found
        table = fold()
        self._kept.keep(key, (lists, table), table.nbytes + TABLE_BYTES)
        return table

    def keep(self, path: str, table: EntryTable) -> None:
        """Keep a table that was just written, so that it is not read back."""
        self._kept.keep(path, table, table.nbytes + TABLE_BYTES)

    def forget(self, paths: Iterable[str]) -> None:
        """Drop the decoded content of removed files."""
        for path in paths:
            if path in self._kept:
                self._kept.pop(path)

    def get(self, path: str, load: Callable[[], tuple[T, int]]) -> T:
        """The decoded content of a file; `load` returns it and its size in memory."""
        kept: T | None = self._kept.get(path)
        if kept is not None:
            return kept
        value, nbytes = load()  # outside the lock: two threads may decode the same file once each
        self._kept.keep(path, value, nbytes)
        return value


def _read(fileio: FileIO, path: str, size_bytes: int | None) -> bytes:
    """Read a manifest, whose size must be the list's."""
    data = fileio.read_bytes(path, bytes_max=whole_bytes_max(size_bytes))
    if size_bytes is not None and len(data) != size_bytes:
        raise resized(path, len(data), size_bytes)
    return data


def _decoded(data: bytes, path: str) -> tuple[EntryTable, int]:
    """The entries of a manifest, and their size in memory."""
    table = decode_manifest(data, path=path)
    return table, table.nbytes + TABLE_BYTES


def _check_counts(table: EntryTable, path: str, expected: ManifestFile) -> None:
    """Refuse a manifest with other numbers of entries than its list says."""
    deleted = int(np.count_nonzero(table["kind"]))
    if (table.num_rows - deleted, deleted) != (expected.added_count, expected.deleted_count):
        message = (
            f"Manifest {path} holds {table.num_rows} entries, but its list says"
            f" {expected.entries_count}. Restore it from a backup."
        )
        raise CorruptError(message, kind="manifest_file", path=path)
