"""What a snapshot needs beside data files, and what of its data the next one has removed."""

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
from tidelake.metadata.manifest.live_set import delta_entries
from tidelake.options import Options, declared

__all__ = [
    "data_tells",
    "has_no_producer",
    "index_and_statistics",
    "is_told",
    "manifests_and_lists",
    "metadata_files",
    "removed_by",
]

NONE = "none"


def data_tells(context: CommitContext) -> bool:
    """Whether the data files as they were written are the table's changelog."""
    return has_no_producer(context.options)


def has_no_producer(options: Options) -> bool:
    """Whether options name no changelog producer."""
    return options.get(declared.CHANGELOG_PRODUCER) == NONE


def is_told(data: EntryTable) -> np.ndarray:
    """Which data files are changelog where data tells: those that writers made, no compactions."""
    return np.asarray(pc.fill_null(data["file_source"], FileSource.APPEND)) == FileSource.APPEND


def metadata_files(
    context: CommitContext, snapshot: Snapshot, *, is_dying: bool = False
) -> Iterator[str]:
    """Paths of the files that a snapshot's state needs, but for data files.

    Parameters
    ----------
    is_dying : bool
        Whether a list or index manifest that is missing names nothing, in the place of an error: an
        expiry of Java Paimon that was killed leaves old snapshots like that.

    Raises
    ------
    NotFoundError
        One is missing.
    """
    yield from manifests_and_lists(context, snapshot, is_dying=is_dying)
    yield from index_and_statistics(context, snapshot, is_dying=is_dying)


def manifests_and_lists(
    context: CommitContext, snapshot: Snapshot, *, is_dying: bool
) -> Iterator[str]:
    """Paths of the manifests of a snapshot's state and of their lists."""
    fileio, paths = context.fileio, context.paths
    sized = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size_bytes),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size_bytes),
    )
    for name, size_bytes in sized:
        yield paths.manifest(name)
        try:
            listed = context.manifests.manifest_list(fileio, paths, name, size_bytes=size_bytes)
        except NotFoundError:
            if is_dying:
                continue
            raise
        for manifest in listed:
            yield paths.manifest(manifest.file_name)


def index_and_statistics(
    context: CommitContext, snapshot: Snapshot, *, is_dying: bool
) -> Iterator[str]:
    """Paths of a snapshot's index manifest, index files and statistics."""
    fileio, paths = context.fileio, context.paths
    if snapshot.index_manifest is not None:
        yield paths.manifest(snapshot.index_manifest)
        try:
            for entry in index_entries(fileio, paths, snapshot, context.manifests):
                yield paths.index_file_of(entry)
        except NotFoundError:
            if not is_dying:
                raise
    if snapshot.statistics is not None:
        yield paths.statistics(snapshot.statistics)


def removed_by(context: CommitContext, snapshot: Snapshot) -> EntryTable:
    """The data files that a snapshot removed from the table; not those that it only moved.

    A compaction that lifts a file to another level deletes its name and adds it again.
    """
    try:
        delta = delta_entries(context.fileio, context.paths, snapshot, context.manifests)
    except NotFoundError:  # as of metadata_files: its files went before its manifests
        return EntryTable.of(())
    kind = delta["kind"]
    added = delta["file_name"].filter(kind == FileKind.ADD)
    is_back = np.asarray(pc.is_in(delta["file_name"], value_set=added))
    return delta.take((kind == FileKind.DELETE) & ~is_back)
