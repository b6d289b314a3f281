"""The live files of some partitions and buckets.

A commit to a few buckets of a large table does not pay for the others: manifests whose range of
buckets excludes them are not opened, and entries of other buckets are not folded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from tidelake.commit.context import CommitContext
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import live_entries


def live_in(
    context: CommitContext,
    snapshot: Snapshot,
    *,
    partitions: frozenset[bytes] | None = None,
    buckets: frozenset[int] | None = None,
) -> EntryTable:
    """The live files of a snapshot in some partitions and buckets.

    Parameters
    ----------
    partitions : frozenset of bytes, optional
        Serialized BinaryRows; all by default.
    buckets : frozenset of int, optional
        Of each of the partitions; all by default.

    Returns
    -------
    EntryTable
        One ADD entry per file.
    """
    every = partitions is None and buckets is None
    return live_entries(
        context.fileio,
        context.paths,
        snapshot,
        context.manifests,
        keep=_may_hold(buckets),
        rows=None if every else _rows_in(partitions, buckets),
    )


def live_in_buckets(
    context: CommitContext, snapshot: Snapshot | None, bucket_ids: Collection[BucketId]
) -> EntryTable:
    """The live files of some buckets, and of as many others as partitions times numbers give.

    Empty for the empty table.
    """
    if snapshot is None or not bucket_ids:
        return EntryTable.of(())
    return live_in(
        context,
        snapshot,
        partitions=frozenset(b.partition for b in bucket_ids),
        buckets=frozenset(b.bucket for b in bucket_ids),
    )


def _may_hold(buckets: frozenset[int] | None) -> Callable[[ManifestFile], bool] | None:
    """Whether a manifest may hold entries of some buckets, by its range of buckets."""
    if buckets is None:
        return None
    low, high = min(buckets), max(buckets)

    def keep(manifest: ManifestFile) -> bool:
        if manifest.min_bucket is None or manifest.max_bucket is None:
            return True
        return manifest.min_bucket <= high and low <= manifest.max_bucket

    return keep


def _rows_in(
    partitions: frozenset[bytes] | None, buckets: frozenset[int] | None
) -> Callable[[EntryTable], np.ndarray]:
    """Positions of the entries of some partitions (None: all) and some buckets (None: all)."""

    def rows(table: EntryTable) -> np.ndarray:
        mask = np.ones(table.num_rows, dtype=bool)
        if partitions is not None:
            known = np.array([p in partitions for p in table.partitions], dtype=bool)
            mask &= known[table["partition_id"]]
        if buckets is not None:
            numbers = table["bucket"]
            # a commit is mostly into one bucket, and isin costs ten comparisons
            one = len(buckets) == 1
            mask &= numbers == min(buckets) if one else np.isin(numbers, list(buckets))
        return np.flatnonzero(mask)

    return rows
