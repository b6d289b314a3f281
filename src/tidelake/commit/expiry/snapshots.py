"""Removes the oldest snapshots, and the files that nothing else needs.

1. All that the first snapshot that stays needs, and what tags and branches are there, is read. Then
   the hint EARLIEST names that snapshot; consumers are looked at once more, for one may have been
   put there before it could see that.
2. Snapshot by snapshot, the oldest first: what goes with it is found out, while it can be read.
   Where changelogs live longer its file is copied to ``changelog/``. Its file is removed; then
   tags are listed, for one may have been made before its snapshot was gone; then its files go:

   - data files that the next snapshot removed, unless a tag or a branch has them;
   - files of its changelog, unless that lives longer;
   - manifests, their lists, index files and statistics that neither the next snapshot nor a tag or
     a branch has. Where changelogs live longer and no producer writes them, the data files as they
     were written are the changelog: these and the manifests stay, until the changelog expires.

Others may roll the table back meanwhile, to a snapshot that is to go, or drop it and create another
one. So all of this happens in the directory of the snapshots that was there before the table was
seen to be the one that was opened; and before each snapshot goes, and once more before its files
do, the first that stays must be there, the very same file. If it is not, the expiry ends, and the
snapshot gets its file back where no other is there: then it is what was gone back to. A rollback
holds its target by a tag until it has looked at its file for the last time, so one of the two sees
the other.

A process that dies leaves no snapshot that cannot be read: at most the files of one that is gone
stay behind as orphans, and the next expiry goes on. Two that run at once remove the same files.
Whoever reads a snapshot while it expires loses its files and is told so; ``time-retained`` is for
that.

Source: Paimon's ``ExpireSnapshotsImpl`` and ``SnapshotDeletion`` (1.3.1), which remove data first
and snapshots last, all of them at once. Cost: the manifests that each snapshot added, and the lists
of each; of a tag all its manifests; the file of the first that stays, twice for each that goes.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.changelog_retention import are_told_by_data
from tidelake.commit.expiry.referenced_files import (
    index_and_statistics,
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
from tidelake.fileio import OpenDirectory
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.snapshot_files import changelog_files, data_files

__all__ = ["expire_snapshots"]


def expire_snapshots(
    context: CommitContext,
    retention: Retention,
    *,
    keeps_changelogs: bool,
    newest_id: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Remove the snapshots that a retention does not keep.

    Parameters
    ----------
    context : CommitContext
        The table.
    retention : Retention
        What is kept.
    keeps_changelogs : bool
        Whether changelogs outlive their snapshots.
    newest_id : int, optional
        The newest snapshot as a commit knows it, which is cheap to be asked after each: what an
        expiry that was killed has left is then looked for only where there is more to remove.
    dry_run : bool
        Whether to say only what would go.

    Raises
    ------
    CorruptError
        A snapshot, tag, consumer or manifest is damaged; what was found before it is gone.
    StorageError
        The storage failed. Call it again.
    """
    log = context.log
    is_asked = newest_id is None
    newest_id = log.latest_id() if newest_id is None else newest_id
    oldest_id = log.earliest_id()
    if newest_id is None or oldest_id is None:
        return Expired()
    end_id = retention.end(
        oldest_id, newest_id, held_id=None, time_ms=lambda number: time_of(context, number)
    )
    if end_id > oldest_id:
        end_id = _not_held(context, end_id, oldest_id=oldest_id)
    if end_id > oldest_id or is_asked:
        while oldest_id > 1 and context.fileio.exists(context.paths.snapshot(oldest_id - 1)):
            oldest_id -= 1  # left behind by an expiry that was killed
    if end_id <= oldest_id:
        return Expired()
    kept = KeptChangelogs(context.fileio, context.paths)
    by_data = are_told_by_data(context)
    # data files stay for changelogs kept before: those that remove them must be kept
    keeps_changelogs = keeps_changelogs or (by_data and kept.range() is not None)
    with ExitStack() as held:
        place = held.enter_context(log.open_dir())
        kept_place = None
        if keeps_changelogs and not dry_run:
            kept_place = held.enter_context(kept.open_dir())
        SchemaLog(context.fileio, context.paths).check_same(context.schema, table=context.table)
        try:
            expiry = _Expiry.until(
                context, place, oldest_id, end_id, keeps_changelogs=keeps_changelogs
            )
            if not dry_run:
                free_id = _announced(context, place, end_id, oldest_id=oldest_id)
                if free_id < end_id:
                    end_id = free_id
                    expiry = _Expiry.until(
                        context, place, oldest_id, end_id, keeps_changelogs=keeps_changelogs
                    )
        except NotFoundError:
            if context.fileio.exists(context.paths.snapshot(end_id)):
                raise
            return Expired()  # another expiry is further
        expiry.kept_place = kept_place
        expiry.by_data = by_data
        return expiry.look(oldest_id) if dry_run else expiry.run(oldest_id)


def _announced(context: CommitContext, place: OpenDirectory, end_id: int, *, oldest_id: int) -> int:
    """Say in EARLIEST where the table begins; that, for a consumer may hold more than was seen."""
    hint = context.paths.earliest_hint
    context.fileio.replace(hint, str(end_id).encode(), within=place)
    free_id = _not_held(context, end_id, oldest_id=oldest_id)
    if free_id < end_id:
        context.fileio.replace(hint, str(free_id).encode(), within=place)
    return free_id


def _not_held(context: CommitContext, end_id: int, *, oldest_id: int) -> int:
    """How far consumers let an expiry go."""
    held = held_id(context)
    return end_id if held is None else max(oldest_id, min(held, end_id))


@dataclass(slots=True)
class _Doomed:
    """What goes with a snapshot, unless a tag or a branch has it."""

    snapshot_id: int
    removed_id: int
    """The snapshot that removed its data."""
    data: EntryTable
    metadata: frozenset[str]
    changelog: frozenset[str]


@dataclass(slots=True)
class _Expiry:
    """Removes snapshots of one table, one after the other.

    Parameters
    ----------
    context, holders
        The table, and what keeps files in it.
    place : OpenDirectory
        The directory of its snapshots.
    end, end_data : Snapshot, bytes
        The first that stays, and its file.
    needed : frozenset of str
        Paths of its metadata files.
    keeps_changelogs : bool
        Whether changelogs outlive their snapshots.
    is_over : bool
        Whether the first that stays is gone.
    kept_place : OpenDirectory, optional
        The directory of changelogs that outlive their snapshots.
    by_data : bool
        Whether data files tell some of these.
    """

    context: CommitContext
    holders: Holders
    place: OpenDirectory
    end: Snapshot
    end_data: bytes
    needed: frozenset[str]
    keeps_changelogs: bool
    is_over: bool = False
    kept_place: OpenDirectory | None = None
    by_data: bool = False

    @classmethod
    def until(
        cls,
        context: CommitContext,
        place: OpenDirectory,
        oldest_id: int,
        end_id: int,
        *,
        keeps_changelogs: bool,
    ) -> _Expiry:
        """Read all that says what is needed, before anything goes."""
        end = context.log.load(end_id)
        end_data = context.fileio.read_bytes(context.paths.snapshot(end_id))
        needed = frozenset(metadata_files(context, end))
        holders = Holders(context)
        holders.read_between(oldest_id, end_id)
        return cls(context, holders, place, end, end_data, needed, keeps_changelogs)

    def look(self, oldest_id: int) -> Expired:
        """What would go."""
        found = {i: self.look_at(i) for i in range(oldest_id, self.end.id)}
        counts = {i: count for i, count in found.items() if count is not None}
        return Expired(tuple(counts), sum(counts.values()))

    def run(self, oldest_id: int) -> Expired:
        """Remove snapshots, the oldest first, as long as the first that stays is there."""
        ids, count = [], 0
        for number in range(oldest_id, self.end.id):
            if not self._stands():
                self.is_over = True
            if self.is_over:
                break
            removed = self.remove(number)
            if removed is not None:
                ids.append(number)
                count += removed
        if self.is_over:
            self.context.log.mend_earliest(within=self.place)
        return Expired(tuple(ids), count)

    def _stands(self) -> bool:
        """Whether the first snapshot that stays is there: no rollback took it, it is no other's."""
        try:
            path = self.context.paths.snapshot(self.end.id)
            return self.context.fileio.read_bytes(path) == self.end_data
        except NotFoundError:
            return False

    def look_at(self, snapshot_id: int) -> int | None:
        """How many files go with a snapshot; None where it is gone."""
        try:
            snapshot = self.context.log.load(snapshot_id)
        except NotFoundError:
            return None
        return len(self._free(self._doomed(snapshot)))

    def remove(self, snapshot_id: int) -> int | None:
        """Remove a snapshot and its files; how many, None where another has removed it."""
        context, path = self.context, self.context.paths.snapshot(snapshot_id)
        try:
            data = context.fileio.read_bytes(path)
        except NotFoundError:
            return None
        snapshot = Snapshot.from_json(data, path=path)
        doomed = self._doomed(snapshot)
        files = self._free(doomed)
        if self.kept_place is not None:
            kept = KeptChangelogs(context.fileio, context.paths)
            kept.keep(snapshot_id, data, within=self.kept_place)
        if not context.fileio.delete(path, within=self.place):
            return None
        if self.holders.look_again():
            files = self._free(doomed)
        if not self._stands():
            self.is_over = True
            if context.log.latest_id() is None:  # the table was rolled back to this very snapshot
                context.fileio.put_if_absent(path, data, within=self.place)
            return None
        remove_files(context, files)
        return len(files)

    def _doomed(self, snapshot: Snapshot) -> _Doomed:
        context = self.context
        after = self._after(snapshot)
        data = removed_by(context, after)
        metadata = set(index_and_statistics(context, snapshot, is_dying=True))
        if self.keeps_changelogs and self.by_data:
            data = data.take(~is_told(data))
        else:
            metadata.update(manifests_and_lists(context, snapshot, is_dying=True))
        metadata.difference_update(metadata_files(context, after, is_dying=True))
        metadata.difference_update(self.needed)
        changelog = frozenset[str]()
        if not self.keeps_changelogs:
            changelog = frozenset(_changelog_files(context, snapshot))
        return _Doomed(snapshot.id, after.id, data, frozenset(metadata), changelog)

    def _after(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot after one, or the next that there is."""
        for number in range(snapshot.id + 1, self.end.id):
            try:
                return self.context.log.load(number)
            except NotFoundError:
                continue
        return self.end

    def _free(self, doomed: _Doomed) -> frozenset[str]:
        data = self.holders.keep_data(doomed.data, doomed.removed_id)
        metadata = doomed.metadata - self.holders.metadata(doomed.snapshot_id)
        return frozenset(data_files(self.context, data)) | metadata | doomed.changelog


def _changelog_files(context: CommitContext, snapshot: Snapshot) -> frozenset[str]:
    try:
        return frozenset(changelog_files(context, snapshot))
    except NotFoundError:  # an expiry of Java Paimon that was killed
        return frozenset()
