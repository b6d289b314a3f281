"""Full compactions that are due: ``full-compaction.delta-commits`` = N.

No row waits longer for the last level than N commits. At the N-th commit:

1. The state N - 1 commits of rows ago is looked up, without this commit. Files that were not on the
   last level then have waited long enough. For N = 1 these are the files that wait now, and the
   written ones.
2. A bucket that waited then and has a newer file on the last level has been compacted fully since.
   The others are due; their compaction goes with the commit.

No state is kept besides the snapshots, so it does not matter who commits: writers of one table
count together. In Java the counter is in Flink's sink. Cost: reading the snapshots of N commits,
and comparing the live files of two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelake.errors import NotFoundError
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.log.snapshot import CommitKind, Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.options import declared, levels_count
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.table_writer import FullCompactions

__all__ = ["full_compactions"]


def full_compactions(handle: TableHandle, *, committed: bool = False) -> FullCompactions | None:
    """The buckets to compact fully; None if the option is not set.

    Parameters
    ----------
    committed : bool
        Whether the commit that asks is in the newest snapshot already.
    """
    options = handle.options
    commits = options.get(declared.FULL_COMPACTION_DELTA_COMMITS)
    if commits is None or options.get(declared.WRITE_ONLY) or not handle.schema.primary_keys:
        return None
    now = handle.snapshots.latest()
    counted = commits - 1 if committed else max(0, commits - 2)
    then = None if now is None else _state_before(handle, now, counted)
    due: frozenset[BucketId] = frozenset()
    if now is not None and then is not None:
        try:
            due = _due(handle, then, now)
        except NotFoundError:  # it expired meanwhile; the newest is the oldest one known
            due = _due(handle, now, now)
    return FullCompactions(due, what_is_written=commits == 1 and not committed)


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


def _due(handle: TableHandle, then: Snapshot, now: Snapshot) -> frozenset[BucketId]:
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


def _bucket_ids(entries: EntryTable, mask: np.ndarray) -> Iterator[BucketId]:
    """The real buckets of some entries."""
    real = mask & (entries["bucket"] >= 0)
    numbers = np.unique(
        np.stack([entries["partition_id"][real], entries["bucket"][real]]), axis=1
    ).T.tolist()
    for partition_id, bucket in numbers:
        yield BucketId(entries.partitions[partition_id], bucket)
