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
files become orphans. Which tags a branch needs: :mod:`tidelake.commit.tags.branch_starts`.

Source: Paimon's ``TagManager`` and ``TagDeletion`` (1.3.1), which consider neither case.
"""

from __future__ import annotations

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry import kept_for_changelogs, remove_files
from tidelake.commit.tags.success_file import tell_deleted
from tidelake.errors import NotFoundError
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.log.tag import TagLog
from tidelake.metadata.paths import BRANCH_PREFIX
from tidelake.metadata.snapshot_files import state_files


def tags_of(context: CommitContext) -> TagLog:
    """The tags of a table."""
    return TagLog(context.fileio, context.paths, table=context.table)


def delete_tag_and_files(
    context: CommitContext, name: str, *, without_branch: str | None = None
) -> None:
    """Remove a tag, and files that it alone kept.

    Parameters
    ----------
    without_branch : str, optional
        A branch that is being deleted, which needs no files.

    Raises
    ------
    NotFoundError
        There is no such tag.
    CorruptError
        The tag's snapshot, or one beside it, cannot be read; nothing was deleted.
    """
    tags = tags_of(context)
    snapshot = tags.load(name).snapshot
    try:
        files = _only_of_tag(context, name, snapshot, without_branch)
    except NotFoundError:
        if _is_whole(context, snapshot):
            raise
        files = frozenset[str]()  # an unreadable tag: the files that it kept are unknown
    tags.delete(name)
    tell_deleted(context, name)
    if files:
        remove_files(context, files & _only_of_tag(context, name, snapshot, without_branch))


def _is_whole(context: CommitContext, snapshot: Snapshot) -> bool:
    """Whether the snapshot's manifest lists exist."""
    try:
        return bool(frozenset(state_files(context, snapshot)))
    except NotFoundError:
        return False


def _only_of_tag(
    context: CommitContext, name: str, snapshot: Snapshot, without_branch: str | None
) -> frozenset[str]:
    """Paths of the files that only this tag keeps."""
    fileio, paths = context.fileio, context.paths
    if fileio.exists(paths.snapshot(snapshot.id)):
        return frozenset()
    gone = f"{BRANCH_PREFIX}{without_branch}"
    if any(status.name != gone for status in fileio.list_dir(paths.branch_dir)):
        return frozenset()
    others = [
        tags_of(context).load(other).snapshot for other in tags_of(context).names() if other != name
    ]
    earliest_id = context.snapshots.earliest_id()
    if earliest_id is None or any(other.id == snapshot.id for other in others):
        return frozenset()
    before = [other for other in others if other.id < snapshot.id]
    after = [other for other in others if other.id > snapshot.id]
    earliest = context.snapshots.load(earliest_id)
    after.append(earliest)
    neighbours = [*sorted(before, key=_id)[-1:], min(after, key=_id)]
    try:
        kept = {path for other in neighbours for path in state_files(context, other)}
    except NotFoundError:
        return frozenset()  # one that cannot be read either: what this one leaves are orphans
    kept |= kept_for_changelogs(context, earliest)
    return frozenset(state_files(context, snapshot)) - kept


def _id(snapshot: Snapshot) -> int:
    return snapshot.id
