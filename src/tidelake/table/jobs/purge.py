"""Empties a table and removes its history: rows, older snapshots, tags, changelogs, consumers.

1. The table is truncated, unless it is empty. The newest snapshot then is the one that stays.
2. All files that older snapshots and tags name are listed, minus those that the remaining snapshots
   need. Nothing is removed so far.
3. EARLIEST is set to the snapshot that stays. Then tags are removed, older snapshots (the oldest
   first), changelogs that outlived theirs, consumers, and last the files. A crash leaves orphan
   files and snapshots that the next call removes.

A concurrent commit is safe: it builds on the snapshot that stays, and its files are new. A reader
of an older snapshot loses its files. Source: Paimon's ``FileStoreTable.purgeFiles`` (1.3.1), which
removes branches too; Tidelake refuses a table with branches.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tidelake.commit.expiry import kept_for_changelogs
from tidelake.errors import OutcomeUnknownError, StorageError, UnsupportedError
from tidelake.metadata.log.consumer import CONSUMER_PREFIX, LEASE_PREFIX
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.snapshot_entries import live_entries, manifest_files
from tidelake.metadata.snapshot_files import named_files, state_files
from tidelake.table.handle.handle import TableHandle
from tidelake.table.rowlevel.delete import truncate
from tidelake.table.write.result import CommitIdentity


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The result of a purge.

    Parameters
    ----------
    snapshot_id : int, optional
        The oldest snapshot now; None for a table without snapshots.
    removed_snapshot_ids : tuple of int
        Removed snapshots, ascending.
    removed_tags : tuple of str
        Removed tags, sorted.
    removed_files : int
        Removed data, index and metadata files.
    """

    snapshot_id: int | None = None
    removed_snapshot_ids: tuple[int, ...] = ()
    removed_tags: tuple[str, ...] = ()
    removed_files: int = 0


def purge_files(handle: TableHandle, *, dry_run: bool = False) -> PurgeResult:
    """Remove all rows and all history.

    Parameters
    ----------
    dry_run : bool
        Whether to report only what would be removed.

    Raises
    ------
    UnsupportedError
        The table has branches.
    CorruptError
        A snapshot, tag or manifest cannot be read; only rows were removed.
    OutcomeUnknownError
        The storage failed while history was removed. Call it again.
    """
    fileio, paths, log = handle.fileio, handle.paths, handle.snapshots
    if fileio.list_dir(paths.branch_dir):
        message = (
            f"Table '{handle.identifier}' has branches, which share its files: delete them"
            " with table.branches.delete() first."
        )
        raise UnsupportedError(message, kind="branches", table=handle.identifier)
    if dry_run:
        return _foreseen(handle)
    truncate(handle, identity=CommitIdentity.of(handle, None, None))
    stays = log.latest()
    if stays is None:
        return PurgeResult()
    older, tags = _older(handle, stays), _tags(handle)
    files = _named(handle, [*older, *tags.values()]) - _needed(handle, stays)
    try:
        fileio.replace(paths.earliest_hint, str(stays.id).encode())
        for name in tags:
            fileio.delete(paths.tag(name))
        for snapshot in older:
            fileio.delete(paths.snapshot(snapshot.id))
        fileio.delete_dir(paths.changelog_dir)
        for status in fileio.list_dir(paths.consumer_dir):
            if status.name.startswith((CONSUMER_PREFIX, LEASE_PREFIX)):
                fileio.delete(f"{paths.consumer_dir}/{status.name}")
    except StorageError as error:
        message = (
            f"The storage failed while the history of table '{handle.identifier}' was removed"
            f" ({error}). Its rows are already deleted; purge it again."
        )
        raise OutcomeUnknownError(message, kind="purge_unknown", table=handle.identifier) from error
    for path in sorted(files):
        with contextlib.suppress(StorageError):  # an orphan does no harm
            fileio.delete(path)
    return PurgeResult(stays.id, tuple(s.id for s in older), tuple(tags), len(files))


def _foreseen(handle: TableHandle) -> PurgeResult:
    """Find what a purge would remove now."""
    newest = handle.snapshots.latest()
    if newest is None:
        return PurgeResult()
    where = (handle.fileio, handle.paths, newest, handle.manifests)
    older, tags = _older(handle, newest), _tags(handle)
    stays_id, needed = newest.id, _needed(handle, newest)
    if live_entries(*where).num_rows:  # a truncate keeps manifests and statistics only
        older, stays_id = [*older, newest], newest.id + 1
        needed = {handle.paths.manifest(m.file_name) for m in manifest_files(*where)}
        if newest.statistics is not None and newest.schema_id == handle.schemas.latest_id():
            needed.add(handle.paths.statistics(newest.statistics))
    files = _named(handle, [*older, *tags.values()]) - needed
    return PurgeResult(stays_id, tuple(s.id for s in older), tuple(tags), len(files))


def _older(handle: TableHandle, snapshot: Snapshot) -> list[Snapshot]:
    return [handle.snapshots.load(i) for i in handle.snapshots.ids() if i < snapshot.id]


def _tags(handle: TableHandle) -> dict[str, Snapshot]:
    return {name: handle.tags.load(name).snapshot for name in handle.tags.names()}


def _named(handle: TableHandle, snapshots: list[Snapshot]) -> set[str]:
    """Files that snapshots and long-lived changelogs name."""
    named = {path for snapshot in snapshots for path in named_files(handle, snapshot)}
    oldest = handle.snapshots.earliest_id()
    if oldest is not None:
        named |= kept_for_changelogs(handle.commit_context(), handle.snapshots.load(oldest))
    return named


def _needed(handle: TableHandle, snapshot: Snapshot) -> set[str]:
    """Files that a snapshot and those after it need."""
    latest_id = handle.snapshots.latest_id() or snapshot.id
    later = [handle.snapshots.load(i) for i in range(snapshot.id + 1, latest_id + 1)]
    return {path for s in (snapshot, *later) for path in state_files(handle, s)}
