"""From a snapshot to entries: its manifests, its live files, its changes.

A snapshot's manifests are those of its base list, then those of its delta list; in that order their
entries fold into the live files (:meth:`EntryTable.fold`). The sizes and counts in snapshot and
lists are checked, so a file truncated at a block's end is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.at_once import at_once
from tidelake.metadata.data_file import FileKind
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.paths import TablePaths


def manifest_files(
    fileio: FileIO, paths: TablePaths, snapshot: Snapshot, manifests: ManifestCache
) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot's state, in fold order."""
    name, size_bytes = snapshot.base_manifest_list, snapshot.base_manifest_list_size_bytes
    of_base = partial(
        _manifest_list, fileio, paths, snapshot, manifests, name=name, size_bytes=size_bytes
    )
    of_delta = partial(delta_manifests, fileio, paths, snapshot, manifests)
    base, delta = at_once(fileio, manifests.reads, [of_base, of_delta])
    return base + delta


def delta_manifests(
    fileio: FileIO, paths: TablePaths, snapshot: Snapshot, manifests: ManifestCache
) -> tuple[ManifestFile, ...]:
    """The manifests that a snapshot added itself."""
    name, size_bytes = snapshot.delta_manifest_list, snapshot.delta_manifest_list_size_bytes
    return _manifest_list(fileio, paths, snapshot, manifests, name=name, size_bytes=size_bytes)


def _manifest_list(
    fileio: FileIO,
    paths: TablePaths,
    snapshot: Snapshot,
    manifests: ManifestCache,
    *,
    name: str,
    size_bytes: int | None,
) -> tuple[ManifestFile, ...]:
    """One of a snapshot's lists; an error names the snapshot's file too, which may be the cause."""
    try:
        return manifests.manifest_list(fileio, paths, name, size_bytes=size_bytes)
    except (NotFoundError, CorruptError) as error:
        path = paths.snapshot(snapshot.id)
        message = f"{error} Snapshot file {path} refers to it: one of the two may be damaged."
        context = {**error.context, "snapshot": path}
        raise type(error)(message, kind=error.kind, **context) from error


def read_manifests(
    fileio: FileIO,
    paths: TablePaths,
    files: Sequence[ManifestFile],
    manifests: ManifestCache,
) -> list[EntryTable]:
    """The entries of some manifests, one table each."""
    return manifests.all_entries(fileio, paths, files)


def live_entries(
    fileio: FileIO,
    paths: TablePaths,
    snapshot: Snapshot,
    manifests: ManifestCache,
    *,
    keep: Callable[[ManifestFile], bool] | None = None,
    rows: Callable[[EntryTable], np.ndarray] | None = None,
) -> EntryTable:
    """The live files of a snapshot.

    Parameters
    ----------
    keep : callable, optional
        Whether a manifest may hold wanted entries. It must decide by what ADD and DELETE of a
        file have in common (partition and bucket); unwanted entries are included too.
    rows : callable, optional
        Positions of a manifest's wanted entries. It must decide by the same, and `keep` must keep
        every manifest that has any. The others are not folded, so the cost of a few buckets is
        that of their own entries.

    Returns
    -------
    EntryTable
        One ADD entry per file.

    Raises
    ------
    CorruptError
        A manifest is damaged, or the manifests contradict each other.
    """
    files = manifest_files(fileio, paths, snapshot, manifests)
    wanted = [f for f in files if keep is None or keep(f)]
    where = f"snapshot {snapshot.id} of {paths.location}"
    tables = read_manifests(fileio, paths, wanted, manifests)
    if rows is not None:
        chosen = ((table, rows(table)) for table in tables)
        tables = [table.in_order(positions) for table, positions in chosen if len(positions)]
    if rows is not None or len(wanted) == len(files):
        given, tables = iter(tables), []
        return EntryTable.fold(given, where=where)
    # A wanted manifest may delete a file of another bucket whose ADD is in an unwanted one: such a
    # DELETE is left over, and does not concern the wanted buckets.
    left = EntryTable.cancel(tables, where=where)
    return left.take(left["kind"] == FileKind.ADD)


def delta_entries(
    fileio: FileIO, paths: TablePaths, snapshot: Snapshot, manifests: ManifestCache
) -> EntryTable:
    """The entries that a snapshot added itself, ADD and DELETE."""
    files = delta_manifests(fileio, paths, snapshot, manifests)
    return EntryTable.concat(read_manifests(fileio, paths, files, manifests))


def changelog_entries(
    fileio: FileIO, paths: TablePaths, snapshot: Snapshot, manifests: ManifestCache
) -> EntryTable:
    """The changelog files of a snapshot, in the order they were committed; often none."""
    files = changelog_manifests(fileio, paths, snapshot, manifests)
    return EntryTable.concat(read_manifests(fileio, paths, files, manifests))


def changelog_manifests(
    fileio: FileIO, paths: TablePaths, snapshot: Snapshot, manifests: ManifestCache
) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot's changelog; often none."""
    name, size_bytes = snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size_bytes
    if name is None:
        return ()
    return _manifest_list(fileio, paths, snapshot, manifests, name=name, size_bytes=size_bytes)
