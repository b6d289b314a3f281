"""Finds the buckets of a table that need a compaction, round by round.

For tables with buckets: those with a primary key, and append queues. It remembers buckets, not
files:

1. The first round remembers every bucket with two files, a file on level 0 or deletion vectors; so
   does a round after the snapshot that was seen last expired or was rolled back. Later rounds add
   the buckets that commits added files to or deleted rows from. So a restart finds all.
2. Of each, the pick policy says what a compaction would take. A bucket without work is forgotten
   until the next commit into it; one of an append queue after :data:`AGE_FORGOTTEN` rounds, and
   after :data:`AGE_OF_REST` of them its last few files are joined.
3. Where full compactions write the changelog, or ``full-compaction.delta-commits`` asks for them, a
   bucket is compacted fully once it has so many new files, 1 by default, or after so many rounds.
4. A bucket of which more than ``compaction.delete-ratio-threshold`` is deleted by deletion vectors,
   and which needs nothing else, is compacted fully.

A round looks at :data:`LOOKED_MAX` buckets and plans as many bytes as one of
:mod:`tidelake.table.jobs.append_coordinator` at most; the rest stays for the next. A round in which
nothing was committed and nothing is left over costs nothing. Memory: 200 bytes for each bucket that
is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from tidelake.errors import NotFoundError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.index_manifest import deletion_files_by_bucket, index_entries
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import delta_entries
from tidelake.options import declared
from tidelake.scan import live_files
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.append_coordinator import (
    AGE_FORGOTTEN,
    AGE_OF_REST,
    DeletionVectors,
    within_round,
)
from tidelake.table.jobs.compaction import CompactionPart, TableCompaction
from tidelake.table.write.new_writer import new_writer
from tidelake.table.write.table_writer import TableWriter

FULL_COMPACTION = "full-compaction"
LOOKED_MAX = 20_000
"""Buckets that a round asks the pick policy about: ten seconds."""
FOLLOWED_MAX = 200
"""Snapshots since the last round that are read one by one; after more the whole table is read."""


class BucketCoordinator:
    """Plans rounds of compactions of one table. Not thread-safe."""

    def __init__(self) -> None:
        self._seen: Snapshot | None = None
        self._ages: dict[BucketId, int] = {}
        self._vectors = DeletionVectors()

    @property
    def buckets(self) -> frozenset[BucketId]:
        """The remembered buckets."""
        return frozenset(self._ages)

    def plan(self, handle: TableHandle) -> tuple[TableCompaction, ...]:
        """Plan a round: compactions that are a commit each; none if there is nothing to do.

        Raises
        ------
        InvalidInputError
            The table was altered since it was opened.
        NotFoundError
            It was dropped.
        """
        newest = handle.snapshots.latest()
        if newest is None:
            return ()
        self._notice(handle, newest)
        if not self._ages:
            return ()
        heavy = _delete_heavy(handle, newest, self._ages)
        planner = new_writer(handle, base_snapshot_id=newest.id)
        try:
            some, full = self._parts(handle, planner, heavy)
        finally:
            planner.close()
        plans = []
        for parts, is_full in ((some, False), (full, True)):
            if not parts:
                continue
            taken = within_round(parts)
            plans.append(TableCompaction(tuple(taken), newest.id, is_full))
            for part in taken:  # they stand behind those that wait
                del self._ages[part.bucket_id]
                self._ages[part.bucket_id] = 0
        return tuple(plans)

    def _parts(
        self, handle: TableHandle, planner: TableWriter, heavy: frozenset[BucketId]
    ) -> tuple[list[CompactionPart], list[CompactionPart]]:
        """What the policy takes, and what is compacted fully."""
        is_queue, forgets = not handle.schema.primary_keys, not _needs_time(handle)
        some: list[CompactionPart] = []
        full: list[CompactionPart] = []
        commits = _full_after_commits(handle)
        for bucket_id, age in list(islice(self._ages.items(), LOOKED_MAX)):
            if commits is not None:
                picked = planner.compaction_parts(*bucket_id, full=True)
                new = sum(file.level == 0 for files in picked for file in files)
                if new >= commits or (new and age >= commits):
                    full.append(_part(bucket_id, picked))
                    self._ages[bucket_id] = 0
                    continue
                if new:
                    self._ages[bucket_id] = age + 1
                    continue
            picked = planner.compaction_parts(*bucket_id, full=False)
            if picked:
                some.append(_part(bucket_id, picked))
            elif (bucket_id in heavy or (is_queue and age >= AGE_OF_REST)) and (
                picked := planner.compaction_parts(*bucket_id, full=True)
            ):
                full.append(_part(bucket_id, picked))
            if picked:
                self._ages[bucket_id] = 0
                continue
            del self._ages[bucket_id]
            if not forgets or (is_queue and age < AGE_FORGOTTEN):
                self._ages[bucket_id] = age + 1  # behind those that were not looked at
        return some, full

    def _notice(self, handle: TableHandle, newest: Snapshot) -> None:
        """Remember the buckets that have something new."""
        seen = self._seen
        if seen is not None and newest == seen:
            return
        changed = self._vectors.changed(handle, newest)
        if seen is None or not self._follow(handle, seen, newest):
            self._remember(_with_work(handle, newest))
        self._remember(changed)
        self._seen = newest  # last: the next round repeats a failed read

    def _follow(self, handle: TableHandle, seen: Snapshot, newest: Snapshot) -> bool:
        """Remember what commits since the last round wrote to; False if these are not known."""
        if not seen.id < newest.id <= seen.id + FOLLOWED_MAX:
            return False
        try:
            if handle.snapshots.load(seen.id) != seen:
                return False  # rolled back, and written to again
            for number in range(seen.id + 1, newest.id + 1):
                snapshot = newest if number == newest.id else handle.snapshots.load(number)
                if snapshot.commit_kind is not CommitKind.COMPACT:
                    delta = delta_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
                    self._remember(_buckets(delta))
        except NotFoundError:  # expired meanwhile
            return False
        return True

    def _remember(self, buckets: Iterable[BucketId]) -> None:
        self._ages.update((bucket_id, 0) for bucket_id in buckets if bucket_id.bucket >= 0)


def _part(bucket_id: BucketId, picked: tuple[tuple[DataFileMeta, ...], ...]) -> CompactionPart:
    """A bucket as a task: it compacts what the bucket has when the task begins."""
    size_bytes = sum(file.file_size_bytes for files in picked for file in files)
    return CompactionPart(*bucket_id, size_bytes)


def _full_after_commits(handle: TableHandle) -> int | None:
    """After how many commits to a bucket it is compacted fully; None where the pick decides."""
    options = handle.options
    commits = options.get(declared.FULL_COMPACTION_DELTA_COMMITS)
    if not handle.schema.primary_keys:
        return None
    if commits is None and options.get(declared.CHANGELOG_PRODUCER) != FULL_COMPACTION:
        return None
    return commits or 1


def _needs_time(handle: TableHandle) -> bool:
    """Whether the time of the day, or since the last compaction, may make work."""
    options = handle.options
    return options.is_set(declared.COMPACTION_OPTIMIZATION_INTERVAL) or (
        options.get(declared.COMPACTION_OFFPEAK_START_HOUR) >= 0
    )


def _with_work(handle: TableHandle, snapshot: Snapshot) -> list[BucketId]:
    """The buckets of a snapshot that may need a compaction, by counts of their files."""
    live = live_files(handle.read_context(), snapshot, manifests=handle.manifests)
    numbers, first, inverse, counts = np.unique(
        _numbers(live), return_index=True, return_inverse=True, return_counts=True
    )
    is_new = np.zeros(len(numbers), bool)
    if handle.schema.primary_keys:
        is_new = np.bincount(inverse, live["level"] == 0, minlength=len(numbers)) > 0
    wanted = first[(counts > 1) | is_new | _needs_time(handle)]
    return _ids(live, wanted)


def _buckets(entries: EntryTable) -> list[BucketId]:
    _, first = np.unique(_numbers(entries), return_index=True)
    return _ids(entries, first)


def _numbers(entries: EntryTable) -> np.ndarray:
    """A number for each entry's bucket."""
    buckets = entries["bucket"].astype(np.int64)
    span = int(buckets.max(initial=0)) + 3  # the postpone bucket is -2
    return entries["partition_id"].astype(np.int64) * span + buckets + 2


def _ids(entries: EntryTable, rows: np.ndarray) -> list[BucketId]:
    """The buckets of some entries: a loop over buckets, not over files."""
    partitions, buckets = entries["partition_id"][rows], entries["bucket"][rows]
    return [
        BucketId(entries.partitions[partition], bucket)
        for partition, bucket in zip(partitions.tolist(), buckets.tolist(), strict=True)
    ]


def _delete_heavy(
    handle: TableHandle, snapshot: Snapshot, among: Iterable[BucketId]
) -> frozenset[BucketId]:
    """The buckets of which deletion vectors delete more than the threshold."""
    if snapshot.index_manifest is None:
        return frozenset()
    entries = index_entries(handle.fileio, handle.paths, snapshot, handle.manifests)
    vectors = deletion_files_by_bucket(entries)
    asked = [bucket_id for bucket_id in among if bucket_id in vectors]
    if not asked:
        return frozenset()
    live = live_files(handle.read_context(), snapshot, manifests=handle.manifests)
    numbers, first, inverse = np.unique(_numbers(live), return_index=True, return_inverse=True)
    rows = np.bincount(inverse, live["row_count"], minlength=len(numbers))
    rows_count = dict(zip(_ids(live, first), rows.tolist(), strict=True))
    share = handle.options.get(declared.COMPACTION_DELETE_RATIO_THRESHOLD)

    def deleted(bucket_id: BucketId) -> int:
        ranges = (one for file in vectors[bucket_id] for one in file.ranges or ())
        return sum(cardinality or 0 for *_, cardinality in ranges)

    return frozenset(b for b in asked if deleted(b) > share * rows_count.get(b, 0))
