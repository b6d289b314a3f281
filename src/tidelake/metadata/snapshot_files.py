"""The files that a snapshot names: those of its state, and all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from tidelake.fileio import FileIO
from tidelake.format.compacted import slice_of
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import (
    changelog_manifests,
    live_entries,
    manifest_files,
    read_manifests,
)
from tidelake.metadata.paths import TablePaths, plain_name


class StoredTable(Protocol):
    """The paths of a table's files, and the cache of its manifests."""

    @property
    def fileio(self) -> FileIO:
        """The storage."""
        ...

    @property
    def paths(self) -> TablePaths:
        """The table's paths."""
        ...

    @property
    def manifests(self) -> ManifestCache:
        """Decoded manifests."""
        ...


def state_files(table: StoredTable, snapshot: Snapshot) -> Iterator[str]:
    """Paths of the files that a snapshot's state needs, without its changelog."""
    where = (table.fileio, table.paths, snapshot, table.manifests)
    yield from data_files(table, live_entries(*where))
    for manifest in manifest_files(*where):
        yield table.paths.manifest(manifest.file_name)
    yield table.paths.manifest(snapshot.base_manifest_list)
    yield table.paths.manifest(snapshot.delta_manifest_list)
    yield from _beside(table, snapshot)


def named_files(table: StoredTable, snapshot: Snapshot) -> Iterator[str]:
    """Paths of all files that a snapshot names, including those it deleted and its changelog."""
    where = (table.fileio, table.paths, snapshot, table.manifests)
    yield from _listed_files(table, manifest_files(*where))
    yield table.paths.manifest(snapshot.base_manifest_list)
    yield table.paths.manifest(snapshot.delta_manifest_list)
    yield from changelog_files(table, snapshot)
    yield from _beside(table, snapshot)


def changelog_files(table: StoredTable, snapshot: Snapshot) -> Iterator[str]:
    """Paths of the files of a snapshot's changelog."""
    if snapshot.changelog_manifest_list is None:
        return
    where = (table.fileio, table.paths, snapshot, table.manifests)
    yield from _listed_files(table, changelog_manifests(*where))
    yield table.paths.manifest(snapshot.changelog_manifest_list)


def _listed_files(table: StoredTable, manifests: Sequence[ManifestFile]) -> Iterator[str]:
    """Manifests, and all data files that they name."""
    for entries in read_manifests(table.fileio, table.paths, manifests, table.manifests):
        yield from data_files(table, entries)
    for manifest in manifests:
        yield table.paths.manifest(manifest.file_name)


def data_files(table: StoredTable, entries: EntryTable) -> Iterator[str]:
    """Paths of entries' data files, and of the files beside them; see :class:`DataFilePaths`."""
    yield from DataFilePaths(table.paths).of(entries)


class DataFilePaths:
    """The paths of data files, and of the files beside them.

    The directory of a bucket is found once, because that takes longer than the rest of a path.
    """

    def __init__(self, paths: TablePaths) -> None:
        self._paths = paths
        self._directories: dict[tuple[bytes, int], str] = {}

    def of(self, entries: EntryTable) -> Iterator[str]:
        """The paths of entries; of a changelog that is a part of a file, the path of that file."""
        names, extras = entries["file_name"], entries["extra_files"]
        external = entries["external_path"]
        if external.null_count < len(external):
            first = int(np.flatnonzero(external.is_valid())[0])
            self._paths.check_inside(names[first].as_py(), external[first].as_py())
        partitions = map(entries.partitions.__getitem__, entries["partition_id"].tolist())
        buckets = zip(partitions, entries["bucket"].tolist(), strict=True)
        has_extras = len(extras.flatten()) > 0
        beside = extras.to_pylist() if has_extras else itertools.repeat(())
        for bucket, name, others in zip(buckets, names.to_pylist(), beside, strict=False):
            directory = self._directories.get(bucket)
            if directory is None:
                directory = self._directories[bucket] = self._paths.bucket_dir(*bucket)
            path = f"{directory}/{plain_name(name)}"
            part = slice_of(path)
            yield path if part is None else part.path
            for other in others:
                yield f"{directory}/{plain_name(other)}"


def _beside(table: StoredTable, snapshot: Snapshot) -> Iterator[str]:
    """Index files and statistics."""
    for entry in index_entries(table.fileio, table.paths, snapshot, table.manifests):
        yield table.paths.index_file_of(entry)
    if snapshot.index_manifest is not None:
        yield table.paths.manifest(snapshot.index_manifest)
    if snapshot.statistics is not None:
        yield table.paths.statistics(snapshot.statistics)
