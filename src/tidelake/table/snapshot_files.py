"""The files that a snapshot names: those that its state needs, and all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.index_manifest import index_entries
from tidelake.metadata.live_set import (
    changelog_manifests,
    live_entries,
    manifest_files,
    read_manifests,
)
from tidelake.metadata.manifest_list import ManifestFile
from tidelake.metadata.snapshot import Snapshot
from tidelake.table.handle import TableHandle

__all__ = ["changelog_files", "named_files", "state_files"]


def state_files(handle: TableHandle, snapshot: Snapshot) -> Iterator[str]:
    """Paths of the files that a snapshot's state needs; not of its changelog."""
    where = (handle.fileio, handle.paths, snapshot, handle.manifests)
    yield from _data_files(handle, live_entries(*where))
    for manifest in manifest_files(*where):
        yield handle.paths.manifest(manifest.file_name)
    yield handle.paths.manifest(snapshot.base_manifest_list)
    yield handle.paths.manifest(snapshot.delta_manifest_list)
    yield from _beside(handle, snapshot)


def named_files(handle: TableHandle, snapshot: Snapshot) -> Iterator[str]:
    """Paths of all files that a snapshot names: also those it deleted, and its changelog."""
    where = (handle.fileio, handle.paths, snapshot, handle.manifests)
    yield from _listed_files(handle, manifest_files(*where))
    yield handle.paths.manifest(snapshot.base_manifest_list)
    yield handle.paths.manifest(snapshot.delta_manifest_list)
    yield from changelog_files(handle, snapshot)
    yield from _beside(handle, snapshot)


def changelog_files(handle: TableHandle, snapshot: Snapshot) -> Iterator[str]:
    """Paths of the files of a snapshot's changelog."""
    if snapshot.changelog_manifest_list is None:
        return
    where = (handle.fileio, handle.paths, snapshot, handle.manifests)
    yield from _listed_files(handle, changelog_manifests(*where))
    yield handle.paths.manifest(snapshot.changelog_manifest_list)


def _listed_files(handle: TableHandle, manifests: Sequence[ManifestFile]) -> Iterator[str]:
    """Manifests, and all data files that they name."""
    for entries in read_manifests(handle.fileio, handle.paths, manifests, handle.manifests):
        yield from _data_files(handle, entries)
    for manifest in manifests:
        yield handle.paths.manifest(manifest.file_name)


def _data_files(handle: TableHandle, entries: EntryTable) -> Iterator[str]:
    places = zip(entries["partition_id"].tolist(), entries["bucket"].tolist(), strict=True)
    for (partition_id, bucket), file in zip(places, entries.files(), strict=True):
        partition = entries.partitions[partition_id]
        yield handle.paths.data_file(partition, bucket, file)
        for extra in file.extra_files:
            yield handle.paths.data_file(partition, bucket, extra)


def _beside(handle: TableHandle, snapshot: Snapshot) -> Iterator[str]:
    """Index files and statistics."""
    for entry in index_entries(handle.fileio, handle.paths, snapshot, handle.manifests):
        yield handle.paths.index_file_of(entry)
    if snapshot.index_manifest is not None:
        yield handle.paths.manifest(snapshot.index_manifest)
    if snapshot.statistics is not None:
        yield handle.paths.statistics(snapshot.statistics)
