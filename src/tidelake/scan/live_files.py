"""The live files of a snapshot as columns in the order of a plan, and cut into buckets.

The order is by partition, then bucket; the files of an append table's bucket are in the order of
writing. The live files of the newest plan's snapshot stay folded in the cache, in this order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.lazy_file_list import FileList
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.snapshot_entries import live_entries
from tidelake.scan.context import ReadContext
from tidelake.scan.deletions import live_deletions
from tidelake.scan.evolved_rows import check_not_evolved
from tidelake.scan.split_generator import BucketFiles


def live_buckets(
    context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache
) -> list[BucketFiles]:
    """All live files of a snapshot, bucket by bucket."""
    files = live_files(context, snapshot, manifests=manifests)
    deletions = live_deletions(context, snapshot, manifests=manifests)
    return list(grouped(files, snapshot.id, deletions))


def read_buckets(
    context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache
) -> list[BucketFiles]:
    """The buckets of :func:`live_buckets` that a read opens, with the files that it opens.

    Without the postpone bucket, and without level 0 if the table's reads leave it out.
    """
    check_not_evolved(context.options)
    files = live_files(context, snapshot, manifests=manifests)
    files = files.take(files["bucket"] >= 0)
    if context.skips_level_0:
        files = files.take(files["level"] > 0)
    deletions = live_deletions(context, snapshot, manifests=manifests)
    return list(grouped(files, snapshot.id, deletions))


def live_files(context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache) -> EntryTable:
    """All live files of a snapshot as columns, bucket by bucket; kept folded for the next plan.

    Returns
    -------
    EntryTable
        Sorted by partition (in order of first entry) and bucket; the files of an append table's
        bucket in the order they were written.
    """

    def fold() -> EntryTable:
        found = live_entries(context.fileio, context.paths, snapshot, manifests)
        return found.in_order(order_of(found, by_writing=not context.schema.primary_keys))

    return manifests.folded(context.paths.log_dir, snapshot, fold)


def is_created_since(context: ReadContext, entries: EntryTable, time_ms: int) -> NDArray[np.bool_]:
    """Which files were created at a time, in ms since the epoch, or later.

    A manifest holds the wall clock of a file's writer: it is taken for a clock of this machine's
    zone, as it stands now. A file without a time counts as the oldest.
    """
    made = entries["creation_time_ms"].fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(made >= time_ms + context.env.clock.local_offset_ms())


def order_of(entries: EntryTable, *, by_writing: bool) -> NDArray[np.intp]:
    """Order by partition and bucket, and of an append table's files by when they were written."""
    keys = [("partition_id", "ascending"), ("bucket", "ascending")]
    if by_writing:
        keys += [("min_sequence_number", "ascending"), ("file_name", "ascending")]
        order: NDArray[np.intp] = np.asarray(pc.sort_indices(entries.batch, sort_keys=keys))
        return order
    return np.lexsort((entries["bucket"], entries["partition_id"]))


def grouped(
    entries: EntryTable, snapshot_id: int, deletions: Mapping[str, DeletionRange] | None = None
) -> Iterator[BucketFiles]:
    """The entries' files, bucket by bucket, with their deletion vectors."""
    in_order = entries.in_order(order_of(entries, by_writing=False))
    return bucket_files(in_order, snapshot_id, deletions)


def bucket_starts(entries: EntryTable) -> NDArray[np.intp]:
    """Find the start of each bucket. Requires: entries are sorted by partition and bucket."""
    partition_id, bucket = entries["partition_id"], entries["bucket"]
    differs = (partition_id[1:] != partition_id[:-1]) | (bucket[1:] != bucket[:-1])
    return np.flatnonzero(np.r_[entries.num_rows > 0, differs])


def bucket_files(
    entries: EntryTable, snapshot_id: int, deletions: Mapping[str, DeletionRange] | None = None
) -> Iterator[BucketFiles]:
    """Sorted entries, bucket by bucket, with their deletion vectors."""
    starts = bucket_starts(entries)
    ids, buckets = entries["partition_id"][starts].tolist(), entries["bucket"][starts].tolist()
    totals = entries["total_buckets"][starts].tolist()
    rows = np.arange(entries.num_rows)
    bounds = [*starts.tolist(), entries.num_rows]
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        files = FileList(entries, rows[start:end])
        partition = entries.partitions[ids[number]]
        yield BucketFiles(
            snapshot_id, partition, buckets[number], totals[number], files, deletions or {}
        )
