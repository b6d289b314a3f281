"""The metadata files that a snapshot needs, and the data files that it removed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from tidelake.commit.context import CommitContext
from tidelake.errors import NotFoundError
from tidelake.metadata.data_file import FileKind, FileSource
from tidelake.metadata.index.index_manifest import index_entries
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import delta_entries
from tidelake.metadata.paths import plain_name
from tidelake.options import Options, declared

NONE = "none"
NAMING = (
    "partition_id",
    "bucket",
    "file_name",
    "extra_files",
    "external_path",
    "file_source",
)
"""Columns of entries that say which files they are of."""


def data_is_changelog(context: CommitContext) -> bool:
    """Whether the data files as they were written are the table's changelog."""
    return has_no_producer(context.options)


def has_no_producer(options: Options) -> bool:
    """Whether options name no changelog producer."""
    return options.get(declared.CHANGELOG_PRODUCER) == NONE


def is_changelog(data: EntryTable) -> np.ndarray:
    """The data files that are changelog where there is no producer: those of writers; a mask."""
    return np.asarray(pc.fill_null(data["file_source"], FileSource.APPEND)) == FileSource.APPEND


def metadata_files(
    context: CommitContext, snapshot: Snapshot, *, may_be_missing: bool = False
) -> Iterator[str]:
    """Paths of the files that a snapshot's state needs, without data files.

    Parameters
    ----------
    may_be_missing : bool
        Whether a missing list or index manifest counts as empty and is no error: a killed expiry of
        Java Paimon leaves old snapshots like that.

    Raises
    ------
    NotFoundError
        One is missing.
    """
    yield from manifests_and_lists(context, snapshot, may_be_missing=may_be_missing)
    yield from index_and_statistics(context, snapshot, may_be_missing=may_be_missing)


def manifests_and_lists(
    context: CommitContext, snapshot: Snapshot, *, may_be_missing: bool
) -> Iterator[str]:
    """Paths of the manifests of a snapshot's state and of their lists."""
    fileio, paths = context.fileio, context.paths
    directory = paths.manifest_dir
    sized = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size_bytes),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size_bytes),
    )
    for name, size_bytes in sized:
        yield paths.manifest(name)
        try:
            listed = context.manifests.manifest_list(fileio, paths, name, size_bytes=size_bytes)
        except NotFoundError:
            if may_be_missing:
                continue
            raise
        for manifest in listed:
            yield f"{directory}/{plain_name(manifest.file_name)}"


def index_and_statistics(
    context: CommitContext, snapshot: Snapshot, *, may_be_missing: bool
) -> Iterator[str]:
    """Paths of a snapshot's index manifest, index files and statistics."""
    fileio, paths = context.fileio, context.paths
    if snapshot.index_manifest is not None:
        yield paths.manifest(snapshot.index_manifest)
        try:
            for entry in index_entries(fileio, paths, snapshot, context.manifests):
                yield paths.index_file_of(entry)
        except NotFoundError:
            if not may_be_missing:
                raise
    if snapshot.statistics is not None:
        yield paths.statistics(snapshot.statistics)


def removed_by(context: CommitContext, snapshot: Snapshot) -> EntryTable:
    """The data files that a snapshot removed from the table, without those that it only moved.

    A compaction that moves a file to another level deletes its name and adds it again.
    """
    try:
        delta = delta_entries(context.fileio, context.paths, snapshot, context.manifests)
    except NotFoundError:  # see metadata_files: its files were removed before its manifests
        return EntryTable.of(())
    is_added = delta["kind"] == FileKind.ADD
    delta = delta.only(NAMING)  # a filter takes as long as it has columns
    if not is_added.any():
        return delta
    if is_added.all():
        return delta.take(~is_added)
    # in Python: most snapshots have a few, for which a call of Arrow's takes ten times as long
    names = delta["file_name"].to_pylist()
    added = {name for name, stays in zip(names, is_added.tolist(), strict=True) if stays}
    return delta.take(np.array([i for i, name in enumerate(names) if name not in added], np.int64))
