"""Full compactions that are due: ``full-compaction.delta-commits`` = N.

No row waits longer for the last level than N commits. At the N-th commit:

1. The state N - 1 commits of rows ago is looked up, without this commit. Files that were not on the
   last level then have waited long enough. For N = 1 these are the files that wait now, and the
   written ones.
2. A bucket that waited then and has a newer file on the last level has been compacted fully since.
   The others are due; their compaction goes with the commit.

Append tables have no levels. There a file waits that was appended, is smaller than a data file
should be, and was not joined since. A bucket with one such file is due only where rows come to it:
there is nothing to join elsewhere. The tasks of Spark share the one bucket of a table without
buckets, so there the compaction is a commit behind that of the rows.

No state is kept besides the snapshots, so it does not matter who commits: writers of one table
count together. In Java the counter is in Flink's sink. Cost: reading the snapshots of N commits,
and comparing the live files of two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tidelake.errors import NotFoundError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import FileSource
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.options import declared, levels_count, target_file_size_bytes
from tidelake.options.bucket_mode import BucketMode
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.table_writer import FullCompactions

UNBUCKETED_FILES_MIN, FULL_FILES_MIN = 2, 3
"""The fewest files that a full compaction of a bucket joins, as in Java; see
:mod:`tidelake.store.append`."""


def full_compactions(handle: TableHandle, *, committed: bool = False) -> FullCompactions | None:
    """The buckets to compact fully; None if the option is not set.

    Parameters
    ----------
    committed : bool
        Whether the commit that asks is in the newest snapshot already.
    """
    options = handle.options
    commits = options.get(declared.FULL_COMPACTION_DELTA_COMMITS)
    if commits is None or options.get(declared.WRITE_ONLY):
        return None
    if options.get(declared.CLUSTERING_INCREMENTAL):
        return None  # only compactions by hand touch the files of clustered rows
    now = handle.snapshots.latest()
    counted = commits - 1 if committed else max(0, commits - 2)
    then = None if now is None else _state_before(handle, now, counted)
    find = _due if handle.schema.primary_keys else _due_of_append
    none: frozenset[BucketId] = frozenset()
    due, due_if_written = none, none
    if now is not None and then is not None:
        try:
            due, due_if_written = find(handle, then, now)
        except NotFoundError:  # it expired meanwhile; the newest is the oldest one known
            due, due_if_written = find(handle, now, now)
    return FullCompactions(
        due,
        what_is_written=commits == 1 and not committed,
        due_if_written=none if committed else due_if_written,
    )


def _state_before(handle: TableHandle, now: Snapshot, commits: int) -> Snapshot | None:
    """The newest state that lacks the last so many commits of rows; None if that was empty.

    If it has expired, the oldest that exists.
    """
    if not commits:
        return now
    oldest = handle.snapshots.earliest_id() or now.id
    snapshot = now
    for number in range(now.id, oldest - 1, -1):
        try:
            snapshot = handle.snapshots.load(number)
        except NotFoundError:
            return snapshot  # the one before expired meanwhile
        if not commits:
            return snapshot
        commits -= snapshot.commit_kind is CommitKind.APPEND
    return None if oldest == 1 else snapshot


_Due = tuple[frozenset[BucketId], frozenset[BucketId]]
"""Buckets that are due, and those that are due if the commit adds rows to them."""


def _due_of_append(handle: TableHandle, then: Snapshot, now: Snapshot) -> _Due:
    live = _live(handle, now)
    small = live["file_size_bytes"] < target_file_size_bytes(handle.options, has_primary_key=False)
    before = live if then.id == now.id else _live(handle, then)
    known = set(before["file_name"].to_pylist())
    was_there = np.array([name in known for name in live["file_name"].to_pylist()], np.bool_)
    sources = live["file_source"].fill_null(FileSource.APPEND).to_numpy(zero_copy_only=False)
    waiting = set(_bucket_ids(live, small & was_there & (sources == FileSource.APPEND)))
    is_unbucketed = handle.bucket_mode is BucketMode.UNBUCKETED
    least = UNBUCKETED_FILES_MIN if is_unbucketed else FULL_FILES_MIN
    counts = Counter(_buckets_of_files(live, live["kind"] >= 0))
    several = {bucket_id for bucket_id in waiting if counts[bucket_id] >= least}
    return frozenset(waiting & several), frozenset(waiting - several)


def _due(handle: TableHandle, then: Snapshot, now: Snapshot) -> _Due:
    return _due_of_levels(handle, then, now), frozenset()


def _due_of_levels(handle: TableHandle, then: Snapshot, now: Snapshot) -> frozenset[BucketId]:
    last = levels_count(handle.options) - 1
    live = _live(handle, now)
    waiting = set(_bucket_ids(live, live["level"] < last))
    if then.id == now.id or not waiting:
        return frozenset(waiting)
    before = _live(handle, then)
    known = set(before["file_name"].filter(before["level"] == last).to_pylist())
    is_new = np.array([name not in known for name in live["file_name"].to_pylist()], np.bool_)
    since = set(_bucket_ids(live, (live["level"] == last) & is_new))
    return frozenset(waiting & set(_bucket_ids(before, before["level"] < last)) - since)


def _live(handle: TableHandle, snapshot: Snapshot) -> EntryTable:
    return live_entries(handle.fileio, handle.paths, snapshot, handle.manifests)


def _buckets_of_files(entries: EntryTable, mask: np.ndarray) -> Iterator[BucketId]:
    """The bucket of each of some files."""
    numbers = np.stack([entries["partition_id"][mask], entries["bucket"][mask]], axis=1)
    for partition_id, bucket in numbers.tolist():
        yield BucketId(entries.partitions[partition_id], bucket)


def _bucket_ids(entries: EntryTable, mask: np.ndarray) -> Iterator[BucketId]:
    """The real buckets of some entries."""
    real = mask & (entries["bucket"] >= 0)
    numbers = np.unique(
        np.stack([entries["partition_id"][real], entries["bucket"][real]]), axis=1
    ).T.tolist()
    for partition_id, bucket in numbers:
        yield BucketId(entries.partitions[partition_id], bucket)
