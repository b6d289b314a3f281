"""Finds what a snapshot gives to a stream: first a state, then each snapshot's changes.

**State**: the files that later changes build on. With ``changelog-producer`` ``lookup`` these are
the files above level 0, with ``full-compaction`` those of the last level: the changelog of a later
compaction gives the rows of lower levels. Else these are all files; rows of the postpone bucket
follow those of their partition, in the order of writing.

**Changes** of a snapshot:

1. OVERWRITE: the option ``streaming-read-overwrite`` decides; see :class:`OverwritePolicy`.
2. With a changelog producer: the changelog files, for every kind of commit.
3. Without one: the files that an APPEND snapshot added. Compactions add no rows.

Order: partitions by their values (``scan.plan-sort-partition``), else by the time of their oldest
file; then buckets; within a bucket files in the order of writing.

Source: Paimon's ``DataTableStreamScan``, ``ChangelogFollowUpScanner``, ``DeltaFollowUpScanner`` and
``SnapshotReaderImpl`` (1.3.1). The differences are in ADR 54.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.commit.partition_expiry import is_partition_expiry
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.merge import FileKeys, MergeSpec
from tidelake.merge.runs.sections import key_rank
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.options import declared, levels_count
from tidelake.options.bucket_mode import BucketMode
from tidelake.scan import (
    BucketFiles,
    ReadContext,
    Split,
    bucket_starts,
    file_sections,
    live_deletions,
    live_files,
)
from tidelake.scan.live_files import bucket_files, is_created_since
from tidelake.scan.split_generator import stand_alone
from tidelake.table.changelog.changelog_files import (
    NO_CHANGELOG,
    NONE,
    logged_entries,
    parts_of_rows,
)
from tidelake.table.changelog.changelog_protocols import ChangePart
from tidelake.table.changelog.moved_keys import leaves_partition
from tidelake.table.changelog.net_changes import bucket_parts, changed_buckets
from tidelake.table.handle.handle import TableHandle
from tidelake.table.stream.units import (
    BucketUnits,
    ChangedParts,
    LoggedCommit,
    LoggedFiles,
    SnapshotUnits,
    StateFiles,
    StateSections,
)

LOOKUP = "lookup"
FULL_COMPACTION = "full-compaction"
INTERLEAVED_MAX = 16
"""The most commits of others between an overwrite and its compaction."""


class OverwritePolicy(enum.StrEnum):
    """What a stream does with a commit that replaced or deleted rows other than by key."""

    FAIL = "fail"
    """Stop before it."""
    SKIP = "skip"
    """Leave it out and go on."""
    ROWS = "rows"
    """Append tables: give the rows of new files. Keys: all old rows ``-D``, all new ones ``+I``."""
    DIFF = "diff"
    """Give the net change."""

    @classmethod
    def of(cls, handle: TableHandle) -> OverwritePolicy:
        """Read the policy from the table's options.

        Raises
        ------
        InvalidInputError
            The policy gives the rows of overwrites, and a compaction will give them again.
        """
        options = handle.options
        append = declared.STREAMING_READ_APPEND_OVERWRITE
        given = options.get(declared.STREAMING_READ_OVERWRITE)
        if not handle.schema.primary_keys and options.is_set(append):
            given = str(options.get(append)).lower()
        policy = cls({"true": "rows", "false": "skip"}.get(given, given))
        producer = options.get(declared.CHANGELOG_PRODUCER)
        if policy is cls.ROWS and producer in {LOOKUP, FULL_COMPACTION}:
            message = (
                f"Stream of table '{handle.identifier}': 'streaming-read-overwrite' is"
                f" '{given}', and 'changelog-producer' is '{producer}', whose compaction gives the"
                " new rows again: set it to 'diff'."
            )
            raise InvalidInputError(message, kind="stream_overwrite", table=handle.identifier)
        return policy


def _check_moves_come_at_once(handle: TableHandle) -> None:
    """Refuse a table whose changelog may tell the two halves of a move in the wrong order.

    A full compaction is one of a bucket. That of a key's new partition may come commits before that
    of its old one, whose ``-D`` then looks like the delete of the new row.
    """
    options = handle.options
    is_late = options.get(declared.CHANGELOG_PRODUCER) == FULL_COMPACTION
    if not (is_late and handle.schema.keys_may_move):
        return
    if options.get(declared.FULL_COMPACTION_DELTA_COMMITS) == 1:
        return
    message = (
        f"Table '{handle.identifier}' cannot be read as a stream: a key may move to another"
        " partition, and with 'changelog-producer' = 'full-compaction' its old row may be removed"
        " commits after its new one is added. Set 'changelog-producer' to 'lookup', or"
        " 'full-compaction.delta-commits' to 1."
    )
    raise UnsupportedError(message, kind="stream_moved_keys", table=handle.identifier)


class ChangeSource(enum.Enum):
    """The files that hold the changes of a snapshot."""

    NOTHING = enum.auto()
    LOG = enum.auto()
    REPLACED = enum.auto()
    DIFF = enum.auto()


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """Finds the units of snapshots of one table."""

    handle: TableHandle
    policy: OverwritePolicy

    @classmethod
    def of(cls, handle: TableHandle) -> SnapshotChanges:
        """Prepare a table for streams.

        Raises
        ------
        UnsupportedError
            The rows written to it do not give the new row of a key, and it has no changelog.
        InvalidInputError
            Options contradict each other.
        """
        engine = handle.options.get(declared.MERGE_ENGINE)
        reason = None
        if handle.options.get(declared.CHANGELOG_PRODUCER) == NONE and handle.schema.primary_keys:
            reason = parts_of_rows(handle)
            if reason is None and engine == FIRST_ROW:
                reason = (
                    f"Table '{handle.identifier}' has no changelog, and of the rows written to a"
                    " table of merge-engine 'first-row' only the first of each key count"
                )
        if reason is not None:
            remedy = "'lookup'" if engine == FIRST_ROW else "'lookup' or 'full-compaction'"
            message = f"{reason}. To read it as a stream set 'changelog-producer' to {remedy}."
            raise UnsupportedError(message, kind=NO_CHANGELOG, table=handle.identifier)
        _check_moves_come_at_once(handle)
        return cls(handle, OverwritePolicy.of(handle))

    @property
    def of_changelog(self) -> bool:
        """Whether changelog files hold the changes."""
        return self.handle.options.get(declared.CHANGELOG_PRODUCER) != NONE

    def source(self, snapshot: Snapshot) -> ChangeSource:
        """Find the files that hold the changes of a snapshot.

        Raises
        ------
        UnsupportedError
            It is an overwrite, and the policy is to stop.
        """
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            return self._of_overwrite(snapshot)
        if not self.of_changelog:
            is_append = snapshot.commit_kind is CommitKind.APPEND
            return ChangeSource.LOG if is_append else ChangeSource.NOTHING
        if snapshot.changelog_manifest_list is not None:
            return ChangeSource.LOG
        if self.policy is OverwritePolicy.DIFF and self._completes_overwrite(snapshot):
            return ChangeSource.DIFF
        return ChangeSource.NOTHING

    def _completes_overwrite(self, snapshot: Snapshot) -> bool:
        """Whether a compaction without a changelog compacted the rows of an overwrite.

        The writer of an overwrite compacts its rows and commits the overwrite and the compaction in
        turn. It drops the changelog, as Java does. The stream then gives a net change of the
        visible rows.
        """
        if snapshot.commit_kind is not CommitKind.COMPACT:
            return False
        for number in range(snapshot.id - 1, max(0, snapshot.id - 1 - INTERLEAVED_MAX), -1):
            before = self.handle.snapshots.find(number)
            if before is None:
                return False
            if (before.commit_user, before.commit_identifier) == (
                snapshot.commit_user,
                snapshot.commit_identifier,
            ):
                return before.commit_kind is CommitKind.OVERWRITE
        return False

    def _of_overwrite(self, snapshot: Snapshot) -> ChangeSource:
        if self.policy is OverwritePolicy.SKIP:
            return ChangeSource.NOTHING
        if self.policy is OverwritePolicy.DIFF:
            return ChangeSource.DIFF
        if self.policy is OverwritePolicy.ROWS:
            return ChangeSource.REPLACED if self.handle.schema.primary_keys else ChangeSource.LOG
        if is_partition_expiry(snapshot):  # what grew too old is no news
            return ChangeSource.NOTHING
        message = (
            f"Stream of table '{self.handle.identifier}': snapshot {snapshot.id} is an overwrite"
            " (rows were replaced, deleted or moved) and has no changelog. Set"
            " 'streaming-read-overwrite' to 'diff' (give its net change), 'rows' (give what it"
            " wrote) or 'skip' (leave it out)."
        )
        raise UnsupportedError(
            message, kind="stream_overwrite", table=self.handle.identifier, snapshot=snapshot.id
        )

    def state(
        self, context: ReadContext, snapshot: Snapshot, created_ms: int | None
    ) -> SnapshotUnits:
        """Give the units of a snapshot's state; only of files made since `created_ms`, if given."""
        entries = self._visible(context, snapshot)
        if created_ms is not None:
            entries = entries.take(is_created_since(context, entries, created_ms))
        entries = self._in_order(context, entries)
        deletions = live_deletions(context, snapshot, manifests=self.handle.manifests)
        starts = bucket_starts(entries)
        keyed = bool(context.schema.primary_keys)
        alone = np.ones(len(starts), dtype=bool)
        if keyed:
            alone = stand_alone(entries, starts, on_any_level=context.keys_stand_alone)
        found: list[BucketUnits] = []
        for bucket, is_alone in zip(
            bucket_files(entries, snapshot.id, deletions), alone.tolist(), strict=True
        ):
            if bucket.bucket < 0:
                found.append(LoggedCommit(bucket))
            elif is_alone:
                found.append(StateFiles(bucket))
            else:
                keys = FileKeys.of(MergeSpec.of(context.schema, context.options))
                found.append(StateSections(bucket, file_sections(bucket.files, keys)))
        return SnapshotUnits(found)

    def changes(
        self, context: ReadContext, snapshot: Snapshot, source: ChangeSource
    ) -> SnapshotUnits:
        """Give the units of a snapshot's changes.

        Raises
        ------
        NotFoundError
            The changes are a difference, and the state before has expired.
        """
        if source is ChangeSource.NOTHING:
            return SnapshotUnits(())
        if source is ChangeSource.LOG:
            return self._logged(context, snapshot)
        before, after = (self._buckets(context, s) for s in (self._before(snapshot), snapshot))
        pairs = list(changed_buckets(before, after))
        if not context.schema.primary_keys or (
            source is ChangeSource.DIFF and self._keys_stay(pairs)
        ):
            return SnapshotUnits(
                [
                    ChangedParts(
                        old.partition, tuple((p,) for p in bucket_parts(context, old, new))
                    )
                    for old, new in pairs
                ]
            )
        return SnapshotUnits(list(self._replaced(context, pairs)))

    def _logged(self, context: ReadContext, snapshot: Snapshot) -> SnapshotUnits:
        entries = logged_entries(self.handle, snapshot, of_changelog=self.of_changelog)
        if self.of_changelog:
            entries = entries.take(entries["bucket"] >= 0)
        entries = self._in_order(context, entries)
        buckets = list(bucket_files(entries, snapshot.id))
        if context.schema.keys_may_move and buckets:
            parts = tuple((b.split(((b.files,),), raw=True),) for b in buckets)
            moves = leaves_partition(context, (split for [split] in parts))
            return SnapshotUnits([ChangedParts(None, (parts,), moves)])
        kind = LoggedCommit if context.schema.primary_keys else LoggedFiles
        return SnapshotUnits([kind(bucket) for bucket in buckets])

    def _before(self, snapshot: Snapshot) -> Snapshot | None:
        if snapshot.id == 1:
            return None
        try:
            return self.handle.snapshots.load(snapshot.id - 1)
        except NotFoundError as error:
            message = (
                f"Stream of table '{self.handle.identifier}': snapshot {snapshot.id} is an"
                f" overwrite, and snapshot {snapshot.id - 1} before it has expired, so its net"
                " change is unknown. Begin with a new checkpoint and scan.mode 'latest-full'."
            )
            raise NotFoundError(
                message, kind="stream_expired", table=self.handle.identifier, snapshot=snapshot.id
            ) from error

    def _visible(self, context: ReadContext, snapshot: Snapshot) -> EntryTable:
        """Find the live files that later changes build on."""
        entries = live_files(context, snapshot, manifests=self.handle.manifests)
        if not context.schema.primary_keys:
            return entries
        producer = self.handle.options.get(declared.CHANGELOG_PRODUCER)
        if producer != NONE:
            entries = entries.take(entries["bucket"] >= 0)
        if producer == LOOKUP:
            return entries.take(entries["level"] > 0)
        if producer == FULL_COMPACTION:
            return entries.take(entries["level"] == levels_count(context.options) - 1)
        return entries

    def _buckets(self, context: ReadContext, snapshot: Snapshot | None) -> list[BucketFiles]:
        """Group the files of a state by bucket, for a comparison."""
        if snapshot is None:
            return []
        entries = self._visible(context, snapshot)
        if (entries["bucket"] < 0).any():
            message = (
                f"Stream of table '{self.handle.identifier}': an overwrite near snapshot"
                f" {snapshot.id} meets rows in the postpone bucket, whose net change is unknown."
                " Set 'streaming-read-overwrite' to 'skip', and compact before an overwrite."
            )
            raise UnsupportedError(
                message,
                kind="stream_overwrite",
                table=self.handle.identifier,
                snapshot=snapshot.id,
            )
        deletions = live_deletions(context, snapshot, manifests=self.handle.manifests)
        return list(bucket_files(self._in_order(context, entries), snapshot.id, deletions))

    def _keys_stay(self, pairs: Sequence[tuple[BucketFiles, BucketFiles]]) -> bool:
        """Whether each key is in the same bucket before and after."""
        if self.handle.bucket_mode is not BucketMode.FIXED:
            return False
        # a bucket without files on one side has the other's number of buckets
        return all(old.total_buckets == new.total_buckets for old, new in pairs) and not any(
            len({b.total_buckets for pair in own for b in pair}) > 1
            for _, own in itertools.groupby(pairs, key=lambda pair: pair[0].partition)
        )

    def _replaced(
        self, context: ReadContext, pairs: Sequence[tuple[BucketFiles, BucketFiles]]
    ) -> Iterator[BucketUnits]:
        """Give all rows of removed files as ``-D``, then all rows of added files as ``+I``.

        A key may have moved to another bucket, or with cross-partition updates to another
        partition. A unit therefore holds all buckets or partitions that a key can move between.
        """
        keys = FileKeys.of(MergeSpec.of(context.schema, context.options))

        def merged(side: BucketFiles, other: BucketFiles) -> Split:
            kept = {f.file_name for f in other.files}
            files = [f for f in side.files if f.file_name not in kept]
            return side.split(file_sections(files, keys), raw=False)

        moves_far = context.schema.keys_may_move
        for _, own in itertools.groupby(
            pairs, key=lambda pair: b"" if moves_far else pair[0].partition
        ):
            some = list(own)
            parts: list[ChangePart] = []
            for old, new in some:
                gone = merged(old, new)
                parts.append((gone, replace(gone, sections=(), deletions={})))
            for old, new in some:
                come = merged(new, old)
                parts.append((replace(come, sections=(), deletions={}), come))
            units = tuple(p for p in parts if any(split.files_count for split in p))
            yield ChangedParts(None if moves_far else some[0][0].partition, (units,))

    def _in_order(self, context: ReadContext, entries: EntryTable) -> EntryTable:
        """Sort entries in the order of the stream; entries of one bucket keep their order."""
        made = entries["creation_time_ms"].fill_null(0).to_numpy(zero_copy_only=False)
        rank = self._partition_ranks(context, entries, made)[entries["partition_id"]]
        waiting = entries["bucket"] < 0  # written after the rows of the real buckets
        within = np.where(waiting, made, 0)
        order = np.lexsort((within, entries["bucket"], waiting, rank))
        return entries.in_order(order)

    def _partition_ranks(
        self, context: ReadContext, entries: EntryTable, made: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Give the rank of each partition, by its number."""
        count = len(entries.partitions)
        if self.handle.options.get(declared.SCAN_PLAN_SORT_PARTITION):
            types = [context.schema.field(n).type for n in context.schema.partition_keys]
            rank_of: Callable[[int], object] = [
                key_rank(decode_row(p, types), types) for p in entries.partitions
            ].__getitem__
            order = np.array(sorted(range(count), key=rank_of), dtype=np.intp)  # type: ignore[arg-type]
        else:
            oldest = np.full(count, np.iinfo(np.int64).max)
            np.minimum.at(oldest, entries["partition_id"], made)
            order = np.argsort(oldest, kind="stable")
        ranks = np.empty(count, dtype=np.intp)
        ranks[order] = np.arange(count)
        return ranks
