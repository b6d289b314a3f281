"""Removes the oldest of the changelogs that outlived their snapshots, with their files.

1. The hint EARLIEST of the changelogs names the first that stays.
2. Changelog by changelog, the oldest first: what goes with it is found out, its file is removed,
   then its files go. Those are what a changelog producer wrote; where none did, the data files that
   the snapshot removed, which stayed for the older changelogs that told them, and the manifests and
   lists that nothing newer needs.

Whatever is still in a snapshot, a tag or a branch stays. Source: Paimon's ``ExpireChangelogImpl``
and ``ChangelogDeletion`` (1.3.1), which always keep one such changelog.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.changelog_retention import are_told_by_data
from tidelake.commit.expiry.referenced_files import (
    is_told,
    manifests_and_lists,
    metadata_files,
    removed_by,
)
from tidelake.commit.expiry.removal import held_id, remove_files, time_of
from tidelake.commit.expiry.result import Expired
from tidelake.commit.expiry.retention import Retention
from tidelake.commit.expiry.tags_and_consumers import Holders
from tidelake.errors import NotFoundError
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import changelog_files, data_files

__all__ = ["expire_changelogs"]


def expire_changelogs(
    context: CommitContext,
    retention: Retention | None,
    *,
    newest_id: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Remove the changelogs, of snapshots that have expired, that a retention does not keep.

    Parameters
    ----------
    context : CommitContext
        The table.
    retention : Retention, optional
        What is kept; None removes all of them.
    newest_id : int, optional
        The newest snapshot as a commit knows it.
    dry_run : bool
        Whether to say only what would go.

    Raises
    ------
    CorruptError
        A changelog, tag, consumer or manifest is damaged; what was found before it is gone.
    StorageError
        The storage failed. Call it again.
    """
    kept = KeptChangelogs(context.fileio, context.paths)
    found = kept.range()
    newest_id = context.log.latest_id() if newest_id is None else newest_id
    if found is None or newest_id is None:
        return Expired()
    oldest_id, last_id = found
    end_id = last_id + 1
    if retention is not None:
        told_end = retention.end(
            oldest_id, newest_id, held_id=None, time_ms=lambda number: time_of(context, number)
        )
        end_id = min(told_end, end_id)
        held = held_id(context) if end_id > oldest_id else None
        end_id = end_id if held is None else min(end_id, held)
    earliest_id = context.log.earliest_id() if end_id > oldest_id else None
    if earliest_id is None:
        return Expired()
    while earliest_id > 1 and context.fileio.exists(context.paths.snapshot(earliest_id - 1)):
        earliest_id -= 1  # left behind by an expiry that was killed
    end_id = min(end_id, earliest_id)  # the changelog of a snapshot that is there goes with it
    if end_id <= oldest_id:
        return Expired()
    earliest = context.log.load(earliest_id)
    expiry = _Expiry(
        context,
        Holders(context),
        frozenset(metadata_files(context, earliest)),
        by_data=are_told_by_data(context),
    )
    if not dry_run:
        kept.begin_at(end_id)
    ids, count = [], 0
    for number in range(oldest_id, end_id):
        removed = expiry.look_at(number) if dry_run else expiry.remove(number)
        if removed is not None:
            ids.append(number)
            count += removed
    if end_id > last_id:  # none is left, and none tells of what the oldest snapshot removed
        files = expiry.told_by_none(earliest)
        count += len(files)
        if not dry_run:
            remove_files(context, files)
            kept.forget_hints()
    return Expired(tuple(ids), count)


@dataclass(slots=True)
class _Expiry:
    """Removes changelogs of one table, one after the other.

    Parameters
    ----------
    context, holders
        The table, and what keeps files in it.
    needed : frozenset of str
        Paths of the metadata files of the table's oldest snapshot.
    by_data : bool
        Whether data files tell some of them.
    """

    context: CommitContext
    holders: Holders
    needed: frozenset[str]
    by_data: bool

    def look_at(self, snapshot_id: int) -> int | None:
        """How many files go with a changelog; None where it is gone."""
        changelog = self._load(snapshot_id)
        return None if changelog is None else len(self._free(changelog))

    def remove(self, snapshot_id: int) -> int | None:
        """Remove a changelog and its files; how many, None where another has removed it."""
        changelog = self._load(snapshot_id)
        if changelog is None:
            return None
        files = self._free(changelog)
        if not self.context.fileio.delete(self.context.paths.changelog(snapshot_id)):
            return None
        if self.holders.look_again():
            files = self._free(changelog)
        remove_files(self.context, files)
        return len(files)

    def told_by_none(self, oldest: Snapshot) -> frozenset[str]:
        """Files that the oldest snapshot removed, and that stayed for older changelogs."""
        if not self.by_data:
            return frozenset()
        data = self.holders.keep_data(removed_by(self.context, oldest), oldest.id)
        return frozenset(data_files(self.context, data.take(is_told(data))))

    def _load(self, snapshot_id: int) -> Snapshot | None:
        try:
            return KeptChangelogs(self.context.fileio, self.context.paths).load(snapshot_id)
        except NotFoundError:
            return None

    def _free(self, changelog: Snapshot) -> frozenset[str]:
        context, number = self.context, changelog.id
        data = self.holders.keep_data(removed_by(context, changelog), number)
        metadata = set(manifests_and_lists(context, changelog, is_dying=True))
        try:
            after = context.log.load_or_changelog(number + 1)
            metadata.difference_update(metadata_files(context, after, is_dying=True))
        except NotFoundError:
            pass
        metadata -= self.needed | self.holders.metadata(number)
        files = frozenset(data_files(context, data)) | metadata
        try:
            return files | frozenset(changelog_files(context, changelog))
        except NotFoundError:
            return files
