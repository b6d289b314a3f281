"""Deletes a tag, and the files that nothing but the tag kept.

1. While the tag's snapshot is there, or another tag names it, only the tag's file goes.
2. Else the snapshot has expired, and its files were kept for the tag alone: those go that neither
   the tag before it nor what comes next (the next tag or the oldest snapshot) has. A file that is
   in none of these neighbours is in nothing beyond them: what is removed from a table never comes
   back under its name.
   What changelogs need which outlived their snapshots stays.
3. What is read to find this out is read before anything is deleted; the tag's file goes first, and
   it is found out once more, for somebody may have made a tag of this one. A crash half-way leaves
   orphans.

Of a table with branches, which share files with tags, only the tag's file goes; what is left are
orphans.

Source: Paimon's ``TagManager`` and ``TagDeletion`` (1.3.1), which look at neither.
"""

from __future__ import annotations

from tidelake.commit.expiry import kept_for_changelogs, remove_files
from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import state_files
from tidelake.table.handle.handle import TableHandle

__all__ = ["delete_tag"]


def delete_tag(handle: TableHandle, name: str) -> None:
    """Remove a tag, and files that it alone kept.

    Raises
    ------
    NotFoundError
        There is no such tag; near names are offered.
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
        files = frozenset[str]()  # of a tag that cannot be read, nobody knows what it kept
    handle.tags.delete(name)
    if files:
        remove_files(handle.commit_context(), files & _only_of_tag(handle, name, snapshot))


def _is_whole(handle: TableHandle, snapshot: Snapshot) -> bool:
    """Whether what says the snapshot's state is there."""
    try:
        return bool(frozenset(state_files(handle, snapshot)))
    except NotFoundError:
        return False


def _only_of_tag(handle: TableHandle, name: str, snapshot: Snapshot) -> frozenset[str]:
    """Paths of the files that nothing else has."""
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
    kept = {path for other in neighbours for path in state_files(handle, other)}
    kept |= kept_for_changelogs(handle.commit_context(), earliest)
    return frozenset(state_files(handle, snapshot)) - kept


def _id(snapshot: Snapshot) -> int:
    return snapshot.id
