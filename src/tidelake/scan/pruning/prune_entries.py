"""Pruning of manifest entries in columns: by partition, by bucket, by statistics.

Columns of entries are tested at once if they suffice (:mod:`tidelake.scan.pruning.prune_columns`),
other files one by one (:mod:`tidelake.scan.pruning.prune`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.metadata.data_file import EMPTY_ROW
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.pruning.prune import ScanFilter, StatsReader, buckets_named, matching_partitions
from tidelake.scan.pruning.prune_columns import UNKNOWN, YES, Stats, verdicts
from tidelake.scan.pruning.pruned_files import BY_BUCKET, BY_POSTPONE, Tally
from tidelake.types.predicate import ColumnRange, Predicate, columns_of, may_match


def manifest_may_hold(
    context: ReadContext, manifest: ManifestFile, predicate: Predicate | None
) -> bool:
    """Whether a manifest may hold entries of partitions that match."""
    stats = manifest.partition_stats
    if predicate is None or stats.min_values == EMPTY_ROW:
        return True
    fields = [context.schema.field(name) for name in context.schema.partition_keys]
    types = [f.type for f in fields]
    low, high = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    nulls = stats.null_counts or (None,) * len(fields)
    ranges = {
        f.name: ColumnRange(low[i], high[i], nulls[i], manifest.entries_count)
        for i, f in enumerate(fields)
    }
    return may_match(predicate, ranges)


def in_partitions(
    context: ReadContext, entries: EntryTable, predicate: Predicate
) -> NDArray[np.bool_]:
    """Find the entries in partitions that match."""
    fields = [context.schema.field(name) for name in context.schema.partition_keys]
    values = [context.paths.partition_values(p) for p in entries.partitions]
    return matching_partitions(values, fields, predicate)[entries["partition_id"]]


def in_buckets_named(
    context: ReadContext, entries: EntryTable, parts: ScanFilter, tally: Tally
) -> EntryTable:
    """The entries of buckets that may hold matching rows; never those of the postpone bucket."""
    chosen = tally.dropped(entries, entries["bucket"] < 0, BY_POSTPONE)
    if parts.rest is None or not context.schema.bucket_keys or bucket_keys_retyped(context):
        return chosen
    function = context.options.get(declared.BUCKET_FUNCTION_TYPE)
    named = buckets_named(context.schema, parts.rest, function=function)
    excluded = np.zeros(chosen.num_rows, dtype=bool)
    for total in np.unique(chosen["total_buckets"]).tolist():
        buckets = named(total)
        if buckets is not None:
            outside = ~np.isin(chosen["bucket"], list(buckets))
            excluded |= outside & (chosen["total_buckets"] == total)
    return tally.dropped(chosen, excluded, BY_BUCKET)


def bucket_keys_retyped(context: ReadContext) -> bool:
    """Whether files may be in the bucket of an older type's hash.

    A compaction rewrites rows under the schema of its time, but leaves them in their bucket. So the
    schema of a file does not tell.
    """
    for name in context.schema.bucket_keys:
        field = context.schema.field(name)
        older = (f for s in context.schemas.values() for f in s.fields if f.id == field.id)
        if any(f.type.as_nullable() != field.type.as_nullable() for f in older):
            return True
    return False


class StatsPruning:
    """Prunes by the statistics of files, by columns if these suffice, else file by file."""

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        clustered = context.options.get(declared.PK_CLUSTERING_OVERRIDE)
        self._reader = StatsReader(context.schema, context.schemas, clustered=clustered)

    def mask(
        self, entries: EntryTable, predicate: Predicate | None, stats: Stats
    ) -> NDArray[np.bool_]:
        """Find the files that may hold rows that match."""
        if predicate is None:
            return np.ones(entries.num_rows, dtype=bool)
        paths, has_partitions = self._context.paths, bool(self._context.schema.partition_keys)
        partitions = [
            paths.partition_values(p) if has_partitions else () for p in entries.partitions
        ]
        found = verdicts(self._reader, entries, predicate, stats=stats, partitions=partitions)
        mask = found == YES
        unknown = np.flatnonzero(found == UNKNOWN)
        columns = columns_of(predicate)
        partition_ids = entries["partition_id"][unknown].tolist()
        for row, partition_id, file in zip(
            unknown, partition_ids, entries.take(unknown).files(), strict=True
        ):
            # the partition's own values are exact and override statistics
            constants = self._reader.partition_ranges(partitions[partition_id])
            if stats == "key":
                ranges = constants | self._reader.key_ranges(file, columns)
            else:
                ranges = self._reader.value_ranges(file, columns) | constants
            mask[row] = may_match(predicate, ranges)
        return mask
