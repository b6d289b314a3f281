"""Deletes a tag, and the files that only the tag kept.

1. If the tag's snapshot exists, or another tag names it, only the tag's file is deleted.
2. Otherwise the snapshot has expired and only the tag kept its files. Those are deleted that
   neither the tag before it nor its successor (the next tag or the oldest snapshot) has. A file
   that both neighbours lack is needed nowhere beyond them: a removed file never returns under its
   name. Files that long-lived changelogs need stay.
3. All of this is read before anything is deleted. The tag's file is deleted first; then the check
   is repeated, because another process may have made a tag from this one. A crash half-way leaves
   orphans.

In a table with branches, which share files with tags, only the tag's file is deleted; the other
files become orphans.

Source: Paimon's ``TagManager`` and ``TagDeletion`` (1.3.1), which consider neither case.
"""

from __future__ import annotations

from tidelake.commit.expiry import kept_for_changelogs, remove_files
from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import state_files
from tidelake.table.handle.handle import TableHandle


def delete_tag(handle: TableHandle, name: str) -> None:
    """Remove a tag, and files that it alone kept.

    Raises
    ------
    NotFoundError
        There is no such tag; the message offers near names.
    CorruptError
        The tag's snapshot, or one beside it, cannot be read; nothing was deleted.
    """
    handle.time_travel.by_tag(name)  # refuses an unknown tag with near names
    snapshot = handle.tags.load(name).snapshot
    try:
        files = _only_of_tag(handle, name, snapshot)
    except NotFoundError:
        if _is_whole(handle, snapshot):
            raise
        files = frozenset[str]()  # an unreadable tag: the files that it kept are unknown
    handle.tags.delete(name)
    if files:
        remove_files(handle.commit_context(), files & _only_of_tag(handle, name, snapshot))


def _is_whole(handle: TableHandle, snapshot: Snapshot) -> bool:
    """Whether the snapshot's manifest lists exist."""
    try:
        return bool(frozenset(state_files(handle, snapshot)))
    except NotFoundError:
        return False


def _only_of_tag(handle: TableHandle, name: str, snapshot: Snapshot) -> frozenset[str]:
    """Paths of the files that only this tag keeps."""
    fileio, paths = handle.fileio, handle.paths
    if fileio.exists(paths.snapshot(snapshot.id)):
        return frozenset()
    if fileio.list_dir(paths.branch_dir):
        return frozenset()
    others = [handle.tags.load(other).snapshot for other in handle.tags.names() if other != name]
    earliest_id = handle.snapshots.earliest_id()
    if earliest_id is None or any(other.id == snapshot.id for other in others):
        return frozenset()
    before = [other for other in others if other.id < snapshot.id]
    after = [other for other in others if other.id > snapshot.id]
    earliest = handle.snapshots.load(earliest_id)
    after.append(earliest)
    neighbours = [*sorted(before, key=_id)[-1:], min(after, key=_id)]
    try:
        kept = {path for other in neighbours for path in state_files(handle, other)}
    except NotFoundError:
        return frozenset()  # one that cannot be read either: what this one leaves are orphans
    kept |= kept_for_changelogs(handle.commit_context(), earliest)
    return frozenset(state_files(handle, snapshot)) - kept


def _id(snapshot: Snapshot) -> int:
    return snapshot.id
