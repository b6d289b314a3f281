"""Removes the oldest snapshots, and the files that nothing else needs.

1. Read all files that the first remaining snapshot needs, the tags and the branches. Name that
   snapshot in the hint EARLIEST. Read the consumers once more: one may have been created before it
   could see the hint.
2. Snapshot by snapshot, the oldest first: find the files that expire with it while it can be read.
   Where changelogs live longer, copy its file to ``changelog/``. Remove its file; list the tags,
   since one may have been created before the snapshot was gone; then remove the files:

   - data files that the next snapshot removed, unless a tag or a branch has them;
   - files of its changelog, unless that lives longer;
   - manifests, their lists, index files and statistics that neither the next snapshot nor a tag or
     a branch has. Where changelogs live longer and no producer writes them, the data files as they
     were written are the changelog: these and the manifests stay until the changelog expires.

Others may meanwhile roll the table back to a snapshot that is to expire, or drop the table and
create another one. So the directory of the snapshots is opened before the check that the table is
the one that was opened, and all removals of snapshots happen in this directory. Before each
snapshot is removed, and once more before its files are, the first remaining one must be there, the
very same file. If it is not, the expiry ends. The snapshot gets its file back if no other snapshot
is there: then it is the target of a rollback. A rollback holds its target by a tag until it has
read its file for the last time, so one of the two sees the other.

In an object store a directory is only a path. There the first remaining snapshot is read right
before each removal too, and the table is checked before and after a file is given back.

A process that dies leaves no snapshot that cannot be read. At most the files of one removed
snapshot stay behind as orphans, and the next expiry goes on. Two that run at once remove the same
files. A reader of a snapshot that expires gets an error that says so; ``time-retained`` prevents
that.

Source: Paimon's ``ExpireSnapshotsImpl`` and ``SnapshotDeletion`` (1.3.1), which remove data first
and snapshots last, all of them at once. Cost: the lists of each snapshot and the manifests that it
added; all manifests of a tag; for each snapshot two reads of the file of the first remaining one,
three in an object store.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tidelake.commit.context import CommitContext
from tidelake.commit.expiry.changelog_retention import are_in_data_files
from tidelake.commit.expiry.consumers import forget_consumers, held_snapshots
from tidelake.commit.expiry.referenced_files import (
    index_and_statistics,
    is_changelog,
    manifests_and_lists,
    metadata_files,
    removed_by,
)
from tidelake.commit.expiry.removal import committed_ms, remove_files
from tidelake.commit.expiry.result import Expired, Holder
from tidelake.commit.expiry.retention import Retention
from tidelake.commit.expiry.tags_and_branches import References
from tidelake.errors import NotFoundError
from tidelake.fileio import OpenDirectory, put_new
from tidelake.metadata.log.chain import follows
from tidelake.metadata.log.long_lived_changelog import KeptChangelogs
from tidelake.metadata.log.schema_log import SchemaLog
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_cache import SMALL_BYTES_MAX
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import delta_manifests, read_manifests
from tidelake.metadata.snapshot_files import DataFilePaths, changelog_files

AHEAD_MIN, AHEAD_COUNT = 16, 64
"""From how many snapshots on they are read ahead, and how many at once."""
AHEAD_BYTES_MAX = 4 << 20
"""Bytes of small manifests that are read ahead; decoded they take some ten times as many."""


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
    keeps_changelogs : bool
        Whether changelogs outlive their snapshots.
    newest_id : int, optional
        The newest snapshot as a commit knows it, which saves calls after each commit: what a killed
        expiry left behind is then looked for only where there is more to remove.
    dry_run : bool
        Whether to report only what would be removed.

    Raises
    ------
    CorruptError
        A snapshot, tag, consumer or manifest is damaged; older ones have been removed.
    StorageError
        The storage failed. Call it again.
    """
    log = context.log
    is_explicit = newest_id is None
    newest_id = log.latest_id() if newest_id is None else newest_id
    oldest_id = log.earliest_id()
    if newest_id is None or oldest_id is None:
        return Expired()
    if is_explicit and not dry_run:
        _remove_left_behind(context, oldest_id)
    end_id = retention.end(oldest_id, newest_id, time_ms=partial(committed_ms, context))
    held_by: tuple[Holder, ...] = ()
    if end_id > oldest_id:
        held = held_snapshots(context)
        held_by = held.before(end_id)
        end_id = held.end(end_id)
        if not dry_run:
            forget_consumers(context, held)
    if end_id > oldest_id or is_explicit:
        while oldest_id > 1 and log.has(oldest_id - 1):
            oldest_id -= 1  # left behind by an expiry that was killed
    if end_id <= oldest_id:
        return Expired(held_by=held_by)
    kept = KeptChangelogs(context.fileio, context.paths)
    in_data_files = are_in_data_files(context)
    # data files are kept for older changelogs, so changelogs that remove them are kept too
    keeps_changelogs = keeps_changelogs or (in_data_files and kept.range() is not None)
    with ExitStack() as opened:
        directory = opened.enter_context(log.open_dir())
        changelog_directory = None
        if keeps_changelogs and not dry_run:
            changelog_directory = opened.enter_context(kept.open_dir())
        SchemaLog(context.fileio, context.paths).check_same(context.schema, table=context.table)
        try:
            expiry = _Expiry.until(
                context, directory, oldest_id, end_id, keeps_changelogs=keeps_changelogs
            )
            if not dry_run:
                free_id, came = _announce_earliest(context, directory, end_id, oldest_id=oldest_id)
                held_by = tuple(dict.fromkeys((*held_by, *came)))
                if free_id < end_id:
                    end_id = free_id
                    expiry = _Expiry.until(
                        context, directory, oldest_id, end_id, keeps_changelogs=keeps_changelogs
                    )
        except NotFoundError:
            if context.fileio.exists(context.paths.snapshot(end_id)):
                raise
            return Expired(held_by=held_by)  # another expiry is ahead
        expiry.changelog_directory = changelog_directory
        expiry.in_data_files = in_data_files
        expired = expiry.preview(oldest_id) if dry_run else expiry.run(oldest_id)
        return replace(expired, held_by=held_by)


def _remove_left_behind(context: CommitContext, oldest_id: int) -> None:
    """Remove the files of snapshots that came late, after they had expired with all their files."""
    left = context.log.left_behind()
    if not left:
        return
    fileio, paths = context.fileio, context.paths
    with context.log.open_dir() as directory:
        for number in left:
            try:
                data = fileio.read_bytes(paths.snapshot(number))
                SchemaLog(fileio, paths).check_same(context.schema, table=context.table)
            except NotFoundError:
                return
            if fileio.exists(paths.snapshot(oldest_id), within=directory):
                path = paths.snapshot(number)
                fileio.delete(path, within=directory, reused=True, expected=data)


def _announce_earliest(
    context: CommitContext, directory: OpenDirectory, end_id: int, *, oldest_id: int
) -> tuple[int, tuple[Holder, ...]]:
    """Write the first remaining id to EARLIEST; its value, less if a new consumer needs more.

    Also returns the readers that came meanwhile and keep more.

    EARLIEST goes back for a consumer of Paimon, which does not look at it. It does not for a lease
    of ours: its holder looks at EARLIEST after it put the lease, and would otherwise believe what
    another expiry, which did not see the lease, is about to remove.
    """
    hint = context.paths.earliest_hint
    context.fileio.replace(hint, str(end_id).encode(), within=directory)
    held = held_snapshots(context)
    free_id = max(oldest_id, held.end(end_id))
    if free_id < end_id and not held.by_lease:
        context.fileio.replace(hint, str(free_id).encode(), within=directory)
    return free_id, held.before(end_id)


@dataclass(slots=True)
class _Candidates:
    """Files that expire with a snapshot, unless a tag or a branch has them."""

    snapshot_id: int
    removed_id: int
    """The snapshot that removed its data files."""
    data: EntryTable
    metadata: frozenset[str]
    changelog: frozenset[str]


@dataclass(slots=True)
class _Expiry:
    """Removes snapshots of one table, one after the other.

    Parameters
    ----------
    end, end_data : Snapshot, bytes
        The first remaining snapshot, and the bytes of its file.
    keeps_changelogs : bool
        Whether changelogs outlive their snapshots.
    is_over : bool
        Whether the first remaining snapshot was removed.
    in_data_files : bool
        Whether some of these are read from data files.
    """

    context: CommitContext
    references: References
    directory: OpenDirectory
    end: Snapshot
    end_data: bytes
    kept_metadata: frozenset[str]
    keeps_changelogs: bool
    is_over: bool = False
    changelog_directory: OpenDirectory | None = None
    in_data_files: bool = False
    data_paths: DataFilePaths = field(init=False)
    ahead: dict[int, tuple[bytes, Snapshot]] = field(default_factory=dict)
    """Snapshots that were read with those before them, and their files."""
    named: tuple[str, frozenset[str], frozenset[str]] = ("", frozenset(), frozenset())
    """Of the snapshot that was looked at last: its list, its manifests and lists, its others."""

    def __post_init__(self) -> None:
        self.data_paths = DataFilePaths(self.context.paths)

    @classmethod
    def until(
        cls,
        context: CommitContext,
        directory: OpenDirectory,
        oldest_id: int,
        end_id: int,
        *,
        keeps_changelogs: bool,
    ) -> _Expiry:
        """Read everything that decides what is kept, before anything is removed."""
        end = context.log.load(end_id)
        end_data = context.fileio.read_bytes(context.paths.snapshot(end_id))
        kept_metadata = frozenset(metadata_files(context, end))
        references = References(context)
        references.preload(oldest_id, end_id)
        return cls(context, references, directory, end, end_data, kept_metadata, keeps_changelogs)

    def preview(self, oldest_id: int) -> Expired:
        """Find what an expiry would remove."""
        found = {i: self.count_files(i) for i in range(oldest_id, self.end.id)}
        counts = {i: count for i, count in found.items() if count is not None}
        return Expired(tuple(counts), sum(counts.values()))

    def run(self, oldest_id: int) -> Expired:
        """Remove snapshots, the oldest first, as long as the first remaining one is there."""
        ids, count = [], 0
        for number in range(oldest_id, self.end.id):
            if (number - oldest_id) % AHEAD_COUNT == 0 and self.end.id - number >= AHEAD_MIN:
                self._read_ahead(number + 1)
            if not self._end_is_there():
                self.is_over = True
            if self.is_over:
                break
            removed = self.remove(number)
            if removed is not None:
                ids.append(number)
                count += removed
        if self.is_over:
            self.context.log.mend_earliest(within=self.directory)
        return Expired(tuple(ids), count)

    def _read_ahead(self, first_id: int) -> None:
        """Read some snapshots at once, and what they removed: small manifests decode together.

        Large ones are read in their turn, so that those of one snapshot are in memory at a time.
        """
        context = self.context
        self.ahead.clear()
        files: list[ManifestFile] = []
        left_bytes = AHEAD_BYTES_MAX
        for number in range(first_id, min(first_id + AHEAD_COUNT, self.end.id)):
            with suppress(NotFoundError):
                path = context.paths.snapshot(number)
                data = context.fileio.read_bytes(path)
                snapshot = Snapshot.from_json(data, path=path)
                self.ahead[number] = data, snapshot
                named = delta_manifests(context.fileio, context.paths, snapshot, context.manifests)
                for file in named:
                    if file.file_size_bytes <= min(SMALL_BYTES_MAX, left_bytes):
                        files.append(file)
                        left_bytes -= file.file_size_bytes
        with suppress(NotFoundError):  # then each is read in its turn
            read_manifests(context.fileio, context.paths, files, context.manifests)

    def _end_is_there(self) -> bool:
        """Whether the first remaining snapshot is unchanged: no rollback removed or replaced it."""
        try:
            path = self.context.paths.snapshot(self.end.id)
            return self.context.fileio.read_bytes(path) == self.end_data
        except NotFoundError:
            return False

    def count_files(self, snapshot_id: int) -> int | None:
        """Count the files that expire with a snapshot; None if it was removed."""
        try:
            snapshot = self.context.log.load(snapshot_id)
        except NotFoundError:
            return None
        return len(self._free(self._candidates(snapshot)))

    def remove(self, snapshot_id: int) -> int | None:
        """Remove a snapshot and its files; how many, None where another has removed it."""
        context, path = self.context, self.context.paths.snapshot(snapshot_id)
        try:
            data = context.fileio.read_bytes(path)
        except NotFoundError:
            return None
        before, snapshot = self.ahead.get(snapshot_id, (b"", None))
        if snapshot is None or before != data:
            snapshot = Snapshot.from_json(data, path=path)
        candidates = self._candidates(snapshot)
        files = self._free(candidates)
        if not context.fileio.holds_directories and not self._end_is_there():
            self.is_over = True  # the path may be another table's by now
            return None
        if self.changelog_directory is not None:
            kept = KeptChangelogs(context.fileio, context.paths)
            kept.keep(snapshot_id, data, within=self.changelog_directory)
        if not context.fileio.delete(path, within=self.directory):
            return None
        if self.references.refresh():
            files = self._free(candidates)
        if not self._end_is_there():
            self.is_over = True
            if context.log.latest_id() is None:  # the table was rolled back to this very snapshot
                self._give_back(path, data)
            return None
        remove_files(context, files)
        return len(files)

    def _give_back(self, path: str, data: bytes) -> None:
        """Restore the file of a snapshot, unless the path is another table's by now."""
        fileio = self.context.fileio
        if self._is_other_table() or not put_new(fileio, path, data, within=self.directory):
            return
        with suppress(NotFoundError):
            if self._is_other_table() and fileio.read_bytes(path) == data:
                fileio.delete(path, within=self.directory, reused=True)

    def _is_other_table(self) -> bool:
        """Whether a directory is only a path, and its table is not the one that was opened."""
        context = self.context
        if context.fileio.holds_directories:
            return False
        try:
            SchemaLog(context.fileio, context.paths).check_same(context.schema, table=context.table)
        except NotFoundError:
            return True
        return False

    def _candidates(self, snapshot: Snapshot) -> _Candidates:
        context = self.context
        after = self._after(snapshot)
        if after.id == snapshot.id + 1 and not follows(after, snapshot):
            # it came late: an attempt that lost its race. What it names may be in later snapshots
            nothing = frozenset[str]()
            return _Candidates(snapshot.id, after.id, EntryTable.of(()), nothing, nothing)
        data = removed_by(context, after)
        manifests, others = self._named_by(snapshot)
        metadata = set(others)
        if self.keeps_changelogs and self.in_data_files:
            data = data.take(~is_changelog(data))
        else:
            metadata.update(manifests)
        metadata.difference_update(*self._named_by(after), self.kept_metadata)
        changelog = frozenset[str]()
        if not self.keeps_changelogs:
            changelog = frozenset(_changelog_files(context, snapshot))
        return _Candidates(snapshot.id, after.id, data, frozenset(metadata), changelog)

    def _named_by(self, snapshot: Snapshot) -> tuple[frozenset[str], frozenset[str]]:
        """The manifests and lists of a snapshot's state, and its other metadata files."""
        key, context = snapshot.delta_manifest_list, self.context
        if self.named[0] != key:
            manifests = manifests_and_lists(context, snapshot, may_be_missing=True)
            others = index_and_statistics(context, snapshot, may_be_missing=True)
            self.named = (key, frozenset(manifests), frozenset(others))
        return self.named[1:]

    def _after(self, snapshot: Snapshot) -> Snapshot:
        """The next snapshot that is there."""
        for number in range(snapshot.id + 1, self.end.id):
            if number in self.ahead:
                return self.ahead[number][1]
            try:
                return self.context.log.load(number)
            except NotFoundError:
                continue
        return self.end

    def _free(self, candidates: _Candidates) -> frozenset[str]:
        data = self.references.unreferenced(candidates.data, candidates.removed_id)
        others = candidates.metadata | candidates.changelog
        others -= self.references.metadata(candidates.snapshot_id)
        return frozenset(self.data_paths.of(data)) | others


def _changelog_files(context: CommitContext, snapshot: Snapshot) -> frozenset[str]:
    try:
        return frozenset(changelog_files(context, snapshot))
    except NotFoundError:  # an expiry of Java Paimon that was killed
        return frozenset()
