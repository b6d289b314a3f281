"""Removes the oldest long-lived changelogs, with their files.

1. The hint EARLIEST of the changelogs names the first that stays. Consumers are read once more: one
   may have been created before it could see the hint.
2. Changelog by changelog, the oldest first: find the files that expire with it, remove its own
   file, then remove those files. They are the files that a changelog producer wrote. Where there is
   no producer, they are the data files that the snapshot removed, which were kept for older
   changelogs, and the manifests and lists that nothing newer needs.

What a snapshot, a tag or a branch still needs stays. Source: Paimon's ``ExpireChangelogImpl``
and ``ChangelogDeletion`` (1.3.1), which always keep one such changelog.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.changelog_retention import are_in_data_files
from tidelake.commit.expiry.consumers import held_snapshots
from tidelake.commit.expiry.referenced_files import (
    is_changelog,
    manifests_and_lists,
    metadata_files,
    removed_by,
)
from tidelake.commit.expiry.removal import committed_ms, remove_files
from tidelake.commit.expiry.result import Expired
from tidelake.commit.expiry.retention import Retention
from tidelake.commit.expiry.tags_and_branches import References
from tidelake.errors import NotFoundError
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.snapshot_files import changelog_files, data_files


def expire_changelogs(
    context: CommitContext,
    retention: Retention | None,
    *,
    newest_id: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Remove the long-lived changelogs that a retention does not keep.

    Parameters
    ----------
    retention : Retention, optional
        What is kept; None removes all of them.
    newest_id : int, optional
        The newest snapshot as a commit knows it.
    dry_run : bool
        Whether to report only what would be removed.

    Raises
    ------
    CorruptError
        A changelog, tag, consumer or manifest is damaged; older ones have been removed.
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
        retained_id = retention.end(oldest_id, newest_id, time_ms=partial(committed_ms, context))
        end_id = min(retained_id, end_id)
        end_id = held_snapshots(context).end(end_id) if end_id > oldest_id else end_id
    earliest_id = context.log.earliest_id() if end_id > oldest_id else None
    if earliest_id is None:
        return Expired()
    while earliest_id > 1 and context.log.has(earliest_id - 1):
        earliest_id -= 1  # left behind by an expiry that was killed
    end_id = min(end_id, earliest_id)  # the changelog of a live snapshot expires with it
    if end_id <= oldest_id:
        return Expired()
    earliest = context.log.load(earliest_id)
    expiry = _Expiry(
        context,
        References(context),
        frozenset(metadata_files(context, earliest)),
        in_data_files=are_in_data_files(context),
    )
    if not dry_run:
        kept.begin_at(end_id)
        if retention is not None:
            end_id = held_snapshots(context).end(end_id)
    ids, count = [], 0
    for number in range(oldest_id, end_id):
        removed = expiry.count_files(number) if dry_run else expiry.remove(number)
        if removed is not None:
            ids.append(number)
            count += removed
    if end_id > last_id:  # no changelog is left that names files removed by the oldest snapshot
        files = expiry.last_removed(earliest)
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
    kept_metadata : frozenset of str
        Paths of the metadata files of the table's oldest snapshot.
    in_data_files : bool
        Whether some changelogs are read from data files.
    """

    context: CommitContext
    references: References
    kept_metadata: frozenset[str]
    in_data_files: bool

    def count_files(self, snapshot_id: int) -> int | None:
        """Count the files that expire with a changelog; None if another expiry removed it."""
        changelog = self._load(snapshot_id)
        return None if changelog is None else len(self._free(changelog))

    def remove(self, snapshot_id: int) -> int | None:
        """Remove a changelog and its files; return their number, None if it was removed before."""
        changelog = self._load(snapshot_id)
        if changelog is None:
            return None
        files = self._free(changelog)
        if not self.context.fileio.delete(self.context.paths.changelog(snapshot_id)):
            return None
        if self.references.refresh():
            files = self._free(changelog)
        remove_files(self.context, files)
        return len(files)

    def last_removed(self, oldest: Snapshot) -> frozenset[str]:
        """Files that the oldest snapshot removed, and that were kept for older changelogs."""
        if not self.in_data_files:
            return frozenset()
        data = self.references.unreferenced(removed_by(self.context, oldest), oldest.id)
        return frozenset(data_files(self.context, data.take(is_changelog(data))))

    def _load(self, snapshot_id: int) -> Snapshot | None:
        try:
            return KeptChangelogs(self.context.fileio, self.context.paths).load(snapshot_id)
        except NotFoundError:
            return None

    def _free(self, changelog: Snapshot) -> frozenset[str]:
        context, number = self.context, changelog.id
        data = self.references.unreferenced(removed_by(context, changelog), number)
        metadata = set(manifests_and_lists(context, changelog, may_be_missing=True))
        try:
            after = context.log.load_or_changelog(number + 1)
            metadata.difference_update(metadata_files(context, after, may_be_missing=True))
        except NotFoundError:
            pass
        shared = self.references.metadata(number)
        metadata -= self.kept_metadata | shared
        files = frozenset(data_files(context, data)) | metadata
        try:
            return files | (frozenset(changelog_files(context, changelog)) - shared)
        except NotFoundError:
            return files
