"""Commit plans: the changes of a commit as a value, one class for each kind of commit.

A plan holds the writers' changes. Its only method, ``against(base)``, finds what they change in one
base, the newest snapshot at an attempt: data files, index files and conflicts. The publisher calls
it for each attempt (:mod:`tidelake.commit.publisher`). A plan keeps no state between two calls: the
:class:`Base` has the snapshots that earlier attempts checked. A plan reads the table and writes
nothing.

==========================  =========  ============================================================
plan                        snapshot   what is checked against each base
==========================  =========  ============================================================
:class:`AppendPlan`         APPEND     no rollback; number of buckets; the buckets chosen for keys;
                                       where rows were made from older ones, that nobody wrote to
                                       their keys. Interleaving sequence numbers are reported
... that marks or removes   OVERWRITE  the same, and that the data files and deletion vectors that
older rows                             it replaces are unchanged
:class:`OverwritePlan`      OVERWRITE  it replaces all files that are live in the chosen partitions
                                       of this very base; where it rewrites rows, that they are the
                                       rows that were read
:class:`CompactionPlan`     COMPACT    each bucket's files, levels and deletion vectors; one that
                                       does not fit is dropped and reported
:class:`ManifestMergePlan`  COMPACT    nothing: no data file changes
:class:`AdoptionPlan`       APPEND     that the table has no snapshot yet
:class:`StatisticsPlan`     ANALYZE    nothing: no data file changes
==========================  =========  ============================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tidelake.commit.conflicts.compaction_fit import fitting_compactions
from tidelake.commit.conflicts.concurrent_changes import (
    EMPTY_TABLE,
    EmptyTable,
    check_bucket_counts_kept,
    check_history_continues,
    check_keys_unmoved,
    check_rows_unchanged,
    interleaved_buckets,
)
from tidelake.commit.conflicts.deletion_conflicts import check_deletions
from tidelake.commit.conflicts.index_conflicts import HashIndexChanges
from tidelake.commit.conflicts.key_overlap import KeyOverlap
from tidelake.commit.conflicts.live_buckets import live_in_buckets
from tidelake.commit.conflicts.overwrite import (
    PartitionChoice,
    chosen_partitions,
    replaced_files,
    rewritten_conflict,
    rows_in,
)
from tidelake.commit.context import CommitContext
from tidelake.commit.delta import (
    NO_DELETIONS,
    Compaction,
    DeletionDelta,
    Delta,
    HashIndexes,
    IndexDelta,
    added_entries,
    new_delta,
)
from tidelake.commit.manifest_merge import MergeRule, wants_full
from tidelake.commit.stream_step import StreamStep
from tidelake.errors import ConflictError, UnsupportedError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import CommitMessage, FileKind
from tidelake.metadata.index_entry import DELETION_VECTORS, HASH, IndexEntry
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import manifest_files
from tidelake.options import declared
from tidelake.types.predicate import Predicate


@dataclass(frozen=True, slots=True)
class Base:
    """The base of one attempt of a commit.

    Parameters
    ----------
    snapshot : Snapshot or None
        The newest snapshot; None for the empty table.
    earlier : tuple of Snapshot or None
        The bases of earlier attempts, oldest first. The plan had no conflict with any of them.
    """

    snapshot: Snapshot | None
    earlier: tuple[Snapshot | None, ...] = ()

    @property
    def id(self) -> int:
        """The snapshot's id; 0 for the empty table."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def first(self) -> Snapshot | None:
        """The snapshot that the first attempt built on; None where there was none."""
        return next((snapshot for snapshot in self.earlier if snapshot is not None), None)


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """The progress of a stream in a commit.

    Parameters
    ----------
    watermark : int, optional
        Event time up to which the stream's rows are committed, ms since the epoch. The snapshot
        gets the later one of this and the base's.
    is_wanted_empty : bool
        Whether to make a snapshot even if nothing changes.
    step : StreamStep, optional
        What the commit covers, which its snapshots keep, and the commit that it follows.
    """

    watermark: int | None = None
    is_wanted_empty: bool = False
    step: StreamStep | None = None


NO_STREAM = StreamProgress()


@dataclass(frozen=True, slots=True)
class Planned:
    """The changes of a commit in one base.

    Parameters
    ----------
    index : IndexDelta, optional
        Index files; None if they stay unchanged.
    dropped_compactions : tuple of ConflictError
        One for each compaction that does not fit and is left out.
    merges_manifests : bool
        Whether all manifests of the base are merged.
    next_row_id : int, optional
        The next free id of a row, where the files have their ids already.
    """

    delta: Delta
    index: IndexDelta | None = None
    dropped_compactions: tuple[ConflictError, ...] = ()
    interleaved: tuple[BucketId, ...] = ()
    statistics: str | None = None
    merges_manifests: bool = False
    stream: StreamProgress = NO_STREAM
    next_row_id: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        if self.stream.is_wanted_empty:
            return False
        changes_index = self.index is not None
        changes_metadata = self.statistics is not None or self.merges_manifests
        return self.delta.is_empty and not (changes_index or changes_metadata)


NOTHING = Planned(new_delta([]))


class CommitPlan(Protocol):
    """The changes of one snapshot."""

    @property
    def kind(self) -> CommitKind:
        """The snapshot's kind."""

    def against(self, base: Base) -> Planned:
        """Find the commit's changes in one base.

        Raises
        ------
        ConflictError
            Other commits changed what this one depends on; nothing of it can be committed.
        UnsupportedError
            The base has index files that this version cannot keep up to date.
        CorruptError, StorageError
            The table cannot be read.
        """


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """Adds files; may mark or remove older rows of the same table.

    Parameters
    ----------
    deletions : tuple of DeletionDelta
        The buckets in which older rows are deleted or updated.
    base_snapshot_id : int or None
        The snapshot that the writers began from, 0 for the empty table; None if it is not known.
    keys : KeyOverlap, optional
        The keys of new rows that were computed from older ones: a write of others to them is a
        conflict. It caches the keys of the commit's own files.
    read_snapshot : Snapshot or None
        The snapshot that these older rows were read from; None for the empty table.
    """

    context: CommitContext
    delta: Delta
    new_files: EntryTable
    hash_indexes: HashIndexChanges
    deletions: tuple[DeletionDelta, ...]
    base_snapshot_id: int | None
    keys: KeyOverlap | None
    read_snapshot: Snapshot | None
    stream: StreamProgress = NO_STREAM

    @classmethod
    def of(
        cls,
        context: CommitContext,
        messages: Sequence[CommitMessage],
        *,
        base_snapshot_id: int | None,
        read_snapshot: Snapshot | EmptyTable | None,
        stream: StreamProgress = NO_STREAM,
    ) -> AppendPlan:
        """The plan of writers' messages; see :meth:`tidelake.commit.Committer.commit`."""
        new_files = added_entries(messages)
        return cls(
            context,
            new_delta(messages),
            new_files,
            _hash_indexes(context, messages),
            _deletions(messages),
            base_snapshot_id,
            None if read_snapshot is None else KeyOverlap(context, new_files),
            None if read_snapshot is EMPTY_TABLE else read_snapshot,
            stream,
        )

    @property
    def kind(self) -> CommitKind:
        """APPEND, or OVERWRITE where older rows are deleted or updated."""
        return CommitKind.OVERWRITE if self.deletions else CommitKind.APPEND

    def against(self, base: Base) -> Planned:
        """Find the commit's changes in one base; see :meth:`CommitPlan.against`."""
        context, new_files, snapshot = self.context, self.new_files, base.snapshot
        began_id = self.base_snapshot_id
        check_history_continues(
            context, new_files, snapshot, first_base=base.first, base_snapshot_id=began_id
        )
        check_bucket_counts_kept(context, new_files, snapshot, base_snapshot_id=began_id)
        if self.keys is not None:
            since = base.earlier[-1] if base.earlier else self.read_snapshot
            check_rows_unchanged(context, self.keys, snapshot, since=since)
        interleaved = interleaved_buckets(context, new_files, snapshot, base_snapshot_id=began_id)
        index = None
        if self.deletions or not self.delta.is_empty:
            before = _index_before(context, snapshot)
            self._check_deletions(snapshot, before)
            index = IndexDelta.of(
                before,
                hash_indexes=self._hash_indexes_against(base, before),
                deletions=self.deletions,
            )
        return Planned(
            self.delta,
            index,
            interleaved=interleaved,
            stream=self.stream,
        )

    def _check_deletions(self, base: Snapshot | None, before: Sequence[IndexEntry]) -> None:
        """Check that the data files and deletion vectors that are replaced are unchanged."""
        if not self.deletions:
            return
        bucket_ids = [change.bucket_id for change in self.deletions]
        live = live_in_buckets(self.context, base, bucket_ids)
        names: dict[BucketId, set[str]] = {}
        for partition_id, bucket, name in zip(
            live["partition_id"].tolist(),
            live["bucket"].tolist(),
            live["file_name"].to_pylist(),
            strict=True,
        ):
            bucket_id = BucketId(live.partitions[partition_id], bucket)
            names.setdefault(bucket_id, set()).add(name)
        for change in self.deletions:
            live_names = names.get(change.bucket_id, set())
            check_deletions(change, before, live_names, table=self.context.table)

    def _hash_indexes_against(self, base: Base, before: Sequence[IndexEntry]) -> HashIndexes:
        """Check that the buckets chosen for keys still hold; the new indexes."""
        if not self.context.schema.keys_may_move:
            return self.hash_indexes.against(before, base.id)
        check_keys_unmoved(
            self.context, self.new_files, base.snapshot, read_ids=self.hash_indexes.read_ids
        )
        return {}


@dataclass(frozen=True, slots=True)
class OverwritePlan:
    """Replaces all rows of some partitions.

    Parameters
    ----------
    rows_read : frozenset, optional
        The rows that the new files were made from, as :func:`rows_in` gives them: the partitions
        must hold the same ones.
    """

    kind: ClassVar[CommitKind] = CommitKind.OVERWRITE
    context: CommitContext
    new_files: Delta
    partitions: PartitionChoice
    hash_indexes: HashIndexChanges
    rows_read: frozenset[tuple[str, object]] | None
    stream: StreamProgress = NO_STREAM

    @classmethod
    def of(
        cls,
        context: CommitContext,
        messages: Sequence[CommitMessage],
        *,
        partitions: Predicate | str | None,
        read_snapshot: Snapshot | None,
        stream: StreamProgress = NO_STREAM,
    ) -> OverwritePlan:
        """The plan of writers' messages; see :meth:`tidelake.commit.Committer.overwrite`."""
        new_files = added_entries(messages)
        choice = chosen_partitions(context, partitions, new_files)
        rows_read = None
        if read_snapshot is not None:
            files = replaced_files(context, read_snapshot, choice)
            rows_read = rows_in(context, read_snapshot, files)
        hash_indexes = _hash_indexes(context, messages)
        return cls(
            context,
            Delta(new_files),
            choice,
            hash_indexes,
            rows_read,
            stream,
        )

    @classmethod
    def of_drop(
        cls,
        context: CommitContext,
        partitions: frozenset[bytes],
        *,
        read_snapshot: Snapshot | None,
    ) -> OverwritePlan:
        """The plan that drops partitions, which must be as in `read_snapshot`, if given."""
        choice = PartitionChoice(context, partitions)
        rows_read = None
        if read_snapshot is not None:
            files = replaced_files(context, read_snapshot, choice)
            rows_read = rows_in(context, read_snapshot, files)
        nothing = added_entries(())
        return cls(context, Delta(nothing), choice, _hash_indexes(context, ()), rows_read)

    @property
    def is_no_op(self) -> bool:
        """Whether no partition is replaced: only those that get rows are, and there are none."""
        return self.partitions.partitions == frozenset() and not self.stream.is_wanted_empty

    def against(self, base: Base) -> Planned:
        """Find the commit's changes in one base; see :meth:`CommitPlan.against`."""
        context, delta = self.context, self.new_files
        if base.snapshot is not None:
            live = replaced_files(context, base.snapshot, self.partitions)
            read = self.rows_read
            if read is not None and rows_in(context, base.snapshot, live) != read:
                raise rewritten_conflict(context.table)
            if live.num_rows:
                removed = live.with_kind(FileKind.DELETE)
                delta = Delta(EntryTable.concat([removed, delta.entries]))
        if delta.is_empty:
            return Planned(delta, stream=self.stream)
        before = _index_before(context, base.snapshot)
        found = sorted({entry.partition for entry in before})
        chosen = self.partitions.mask(found)
        dropped = frozenset(p for p, is_chosen in zip(found, chosen, strict=True) if is_chosen)
        hash_indexes = self.hash_indexes.files
        index = IndexDelta.of(before, dropped=dropped, hash_indexes=hash_indexes)
        return Planned(delta, index, stream=self.stream)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Replaces files by fewer that hold the same rows, bucket by bucket.

    Parameters
    ----------
    compactions : tuple of Compaction
        One per bucket.
    all_or_nothing : bool
        Whether one that does not fit is a conflict of all.
    """

    kind: ClassVar[CommitKind] = CommitKind.COMPACT
    context: CommitContext
    compactions: tuple[Compaction, ...]
    all_or_nothing: bool

    def against(self, base: Base) -> Planned:
        """Find the commit's changes in one base; see :meth:`CommitPlan.against`."""
        context = self.context
        before = context.index_entries(base.snapshot)
        fitting = fitting_compactions(
            context, self.compactions, base.snapshot, before, all_or_nothing=self.all_or_nothing
        )
        index = None
        if not fitting.delta.is_empty:
            _check_supported(context, before)
            index = IndexDelta.of(before, deletions=fitting.deletions)
        return Planned(fitting.delta, index, dropped_compactions=fitting.conflicts)


@dataclass(frozen=True, slots=True)
class ManifestMergePlan:
    """Merges all manifests into few, without entries that cancel out."""

    kind: ClassVar[CommitKind] = CommitKind.COMPACT
    context: CommitContext

    def against(self, base: Base) -> Planned:
        """Whether merging changes the base's manifests; see :meth:`CommitPlan.against`."""
        context, snapshot = self.context, base.snapshot
        if snapshot is None:
            return NOTHING
        files = manifest_files(context.fileio, context.paths, snapshot, context.manifests)
        rule = MergeRule.of(context.options).of_all()
        return Planned(NOTHING.delta, merges_manifests=wants_full(files, rule))


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """Makes files of elsewhere the first snapshot of an empty table.

    Parameters
    ----------
    entries : EntryTable
        ADD entries. Levels and sequence numbers stay, and the ids of rows where they have some.
    index : tuple of IndexEntry
        Index files of the same buckets.
    next_row_id : int, optional
        The next free id of a row; None where the commit gives the ids.
    """

    kind: ClassVar[CommitKind] = CommitKind.APPEND
    context: CommitContext
    entries: EntryTable
    index: tuple[IndexEntry, ...] = ()
    next_row_id: int | None = None
    watermark: int | None = None

    def against(self, base: Base) -> Planned:
        """The files, in an empty table; see :meth:`CommitPlan.against`."""
        if base.snapshot is not None:
            message = (
                f"Others have written to table '{self.context.table}' while files were brought into"
                " it; nothing of them became visible."
            )
            raise ConflictError(message, kind="not_empty", table=self.context.table)
        _check_supported(self.context, self.index)
        return Planned(
            Delta(self.entries),
            IndexDelta(self.index, {}, ()) if self.index else None,
            stream=StreamProgress(self.watermark),
            next_row_id=self.next_row_id,
        )


@dataclass(frozen=True, slots=True)
class StatisticsPlan:
    """Gives the table a file of statistics."""

    kind: ClassVar[CommitKind] = CommitKind.ANALYZE
    statistics: str

    def against(self, base: Base) -> Planned:  # noqa: ARG002 - the same against each base
        """The name of the file; see :meth:`CommitPlan.against`."""
        return Planned(NOTHING.delta, statistics=self.statistics)


def _hash_indexes(context: CommitContext, messages: Sequence[CommitMessage]) -> HashIndexChanges:
    return HashIndexChanges(
        messages, entries_of=context.index_entries_of, read=context.hashes, table=context.table
    )


def _deletions(messages: Sequence[CommitMessage]) -> tuple[DeletionDelta, ...]:
    """The changes of the messages that delete or update older rows."""
    return tuple(
        DeletionDelta(
            m.partition,
            m.bucket,
            m.deletions or NO_DELETIONS,
            frozenset(f.file_name for f in m.removed_files),
        )
        for m in messages
        if m.changes_rows
    )


def _index_before(context: CommitContext, base: Snapshot | None) -> Sequence[IndexEntry]:
    """Read the index files of a base; refuse kinds that this version cannot update."""
    before = context.index_entries(base)
    _check_supported(context, before)
    return before


def _check_supported(context: CommitContext, entries: Sequence[IndexEntry]) -> None:
    known = {HASH}
    if context.options.get(declared.DELETION_VECTORS_ENABLED):
        known.add(DELETION_VECTORS)
    types = sorted({entry.file.index_type for entry in entries} - known)
    if types:
        message = (
            f"Table '{context.table}' has index files of type {', '.join(types)}, which this"
            " version cannot keep up to date: write it with the engine that made them."
        )
        raise UnsupportedError(message, kind="index_manifest", table=context.table)
