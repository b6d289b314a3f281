"""From a snapshot and a predicate to splits: what is read, and what is left out and why.

1. Manifests whose partition statistics exclude the predicate are not opened; the others are
   decoded once, kept in a cache, and folded to the live files.
2. Whole columns of entries are tested for partition and bucket.
3. Of what is left, each bucket's files are pruned by key and value statistics and made into splits
   (:mod:`tidelake.scan.prune`, :mod:`tidelake.scan.generate`).
4. A limit without a predicate on rows keeps only as many raw splits as hold that many rows: the
   rows of a raw split are exact.

Source: ``docs/format/reading.md``; Paimon's ``AbstractFileStoreScan`` and ``SnapshotReaderImpl``
(1.3.1). Runs on the driver. Cost: O(entries) in numpy, O(files left) in Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.merge import MergeSpec
from tidelake.metadata.data_file import EMPTY_ROW, DataFileMeta, FileKind
from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.live_set import (
    delta_entries,
    live_entries,
    manifest_files,
    read_manifests,
)
from tidelake.metadata.manifest import ManifestCache, ManifestFile
from tidelake.metadata.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.generate import (
    BucketFiles,
    PackRule,
    append_splits,
    file_sections,
    merge_splits,
)
from tidelake.scan.prune import (
    ScanFilter,
    StatsReader,
    buckets_named,
    matching_partitions,
    scan_filter,
)
from tidelake.scan.split import Split
from tidelake.types.predicate import ColumnRange, Predicate, columns_of, may_match

__all__ = ["PrunedFile", "ScanPlan", "live_buckets", "plan_scan"]

BY_PARTITION = "partition"
BY_BUCKET = "bucket"
BY_POSTPONE = "postpone bucket, not readable before compaction"
BY_KEY_STATS = "key statistics"
BY_VALUE_STATS = "value statistics"
BY_LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class PrunedFile:
    """A live file that need not be read."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a read will do.

    Parameters
    ----------
    snapshot_id : int or None
        The snapshot; None for a table without one.
    splits : tuple of Split
        Raw ones first.
    files_total, bytes_total : int
        The live files of the manifests that were opened.
    pruned_files : tuple of PrunedFile
        The files left out, each with the reason.
    manifests_total, manifests_pruned : int
        Manifests of the snapshot, and those not opened.
    raw_rows_exact : bool
        Whether every row of a raw split is a row of the answer (no predicate on rows).
    """

    snapshot_id: int | None
    splits: tuple[Split, ...] = ()
    files_total: int = 0
    bytes_total: int = 0
    pruned_files: tuple[PrunedFile, ...] = ()
    manifests_total: int = 0
    manifests_pruned: int = 0
    raw_rows_exact: bool = True

    @property
    def files_read(self) -> int:
        """Number of files in the splits."""
        return sum(len(s.files) for s in self.splits)

    @property
    def bytes_read(self) -> int:
        """Size of the files in the splits."""
        return sum(s.size_bytes for s in self.splits)

    @property
    def rows_read(self) -> int:
        """Physical rows in the splits, before merging and filtering."""
        return sum(s.row_count for s in self.splits)

    @property
    def pruned(self) -> Mapping[str, int]:
        """Number of files left out, by reason."""
        return Counter(f.reason for f in self.pruned_files)


@dataclass(slots=True)
class _Tally:
    """Collects the pruned files while a plan is made."""

    pruned: list[PrunedFile] = field(default_factory=list)
    other_partitions_files: int = 0
    other_partitions_bytes: int = 0

    def add(self, files: Sequence[DataFileMeta], reason: str) -> None:
        self.pruned.extend(PrunedFile(f.file_name, reason) for f in files)

    def add_names(self, entries: EntryTable, reason: str) -> None:
        self.pruned.extend(PrunedFile(n, reason) for n in entries["file_name"].to_pylist())


def plan_scan(
    context: ReadContext,
    snapshot: Snapshot | None,
    *,
    manifests: ManifestCache,
    predicate: Predicate | None = None,
    limit: int | None = None,
    mode: Literal["all", "delta"] = "all",
) -> ScanPlan:
    """Plan a read.

    Parameters
    ----------
    context : ReadContext
        The table, with the schema that the predicate is bound to.
    snapshot : Snapshot or None
        What to read; None gives the empty plan.
    manifests : ManifestCache
        Decoded manifests.
    predicate : Predicate, optional
        Bound. The splits may hold rows that do not satisfy it; `read_split` drops them.
    limit : int, optional
        The most rows wanted.
    mode : {'all', 'delta'}
        The snapshot's state, or only the files that its commit added (splits are then merge splits,
        one per bucket, to be read with ``keep_kinds=True``).

    Returns
    -------
    ScanPlan
    """
    if snapshot is None:
        return ScanPlan(None)
    parts = scan_filter(context.schema, predicate)
    tally = _Tally()
    manifests_total = manifests_pruned = 0
    if mode == "delta":
        entries = delta_entries(context.fileio, context.paths, snapshot, manifests)
        entries = entries.take(entries["kind"] == FileKind.ADD)
        if parts.partition is not None:
            entries = entries.take(_in_partitions(context, entries, parts.partition))
    else:
        listed = manifest_files(context.fileio, context.paths, snapshot, manifests)
        opened = [m for m in listed if _may_hold(context, m, parts.partition)]
        manifests_total, manifests_pruned = len(listed), len(listed) - len(opened)
        entries = _live(context, snapshot, opened, parts.partition, manifests, tally)
    chosen = _prune_entries(context, entries, parts, tally)
    splits: list[Split] = []
    for bucket in _grouped(chosen, snapshot.id):
        if mode == "delta":
            splits.append(_delta_split(context, bucket))
        else:
            splits.extend(_bucket_splits(context, bucket, parts, tally))
    exact = parts.rest is None
    splits.sort(key=lambda s: not s.raw)
    if limit is not None and exact and mode == "all":
        splits = _limited(splits, limit, tally)
    return ScanPlan(
        snapshot_id=snapshot.id,
        splits=tuple(splits),
        files_total=entries.num_rows + tally.other_partitions_files,
        bytes_total=int(entries["file_size_bytes"].sum()) + tally.other_partitions_bytes,
        pruned_files=tuple(tally.pruned),
        manifests_total=manifests_total,
        manifests_pruned=manifests_pruned,
        raw_rows_exact=exact,
    )


def live_buckets(
    context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache
) -> list[BucketFiles]:
    """All live files of a snapshot, bucket by bucket."""
    entries = live_entries(context.fileio, context.paths, snapshot, manifests)
    return list(_grouped(entries, snapshot.id))


def _may_hold(context: ReadContext, manifest: ManifestFile, predicate: Predicate | None) -> bool:
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


def _live(
    context: ReadContext,
    snapshot: Snapshot,
    opened: Sequence[ManifestFile],
    predicate: Predicate | None,
    manifests: ManifestCache,
    tally: _Tally,
) -> EntryTable:
    """The live files of the partitions that match.

    Entries of other partitions go before the fold: the ADD of a file of theirs may lie in a
    manifest that was not opened, and its DELETE in one that was.
    """
    where = f"snapshot {snapshot.id} of {context.paths.location}"
    tables = read_manifests(context.fileio, context.paths, opened, manifests)
    if predicate is None:
        return EntryTable.fold(tables, where=where)
    entries = EntryTable.concat(tables)
    matching = _in_partitions(context, entries, predicate)
    others = EntryTable.cancel([entries.take(~matching)], where=where)
    others = others.take(others["kind"] == FileKind.ADD)
    tally.other_partitions_files = others.num_rows
    tally.other_partitions_bytes = int(others["file_size_bytes"].sum())
    tally.add_names(others, BY_PARTITION)
    return EntryTable.fold([entries.take(matching)], where=where)


def _in_partitions(
    context: ReadContext, entries: EntryTable, predicate: Predicate
) -> NDArray[np.bool_]:
    fields = [context.schema.field(name) for name in context.schema.partition_keys]
    values = [context.paths.partition_values(p) for p in entries.partitions]
    return matching_partitions(values, fields, predicate)[entries["partition_id"]]


def _prune_entries(
    context: ReadContext, entries: EntryTable, parts: ScanFilter, tally: _Tally
) -> EntryTable:
    """Drop entries by bucket, column-wise."""
    chosen = _dropped(entries, entries["bucket"] < 0, BY_POSTPONE, tally)
    if parts.rest is None or not context.schema.bucket_keys or _bucket_keys_retyped(context):
        return chosen
    function = context.options.get(declared.BUCKET_FUNCTION_TYPE)
    named = buckets_named(context.schema, parts.rest, function=function)
    excluded = np.zeros(chosen.num_rows, dtype=bool)
    for total in np.unique(chosen["total_buckets"]).tolist():
        buckets = named(total)
        if buckets is not None:
            outside = ~np.isin(chosen["bucket"], list(buckets))
            excluded |= outside & (chosen["total_buckets"] == total)
    return _dropped(chosen, excluded, BY_BUCKET, tally)


def _bucket_keys_retyped(context: ReadContext) -> bool:
    """Whether files may lie where the hash of a value of an older type had them put."""
    for name in context.schema.bucket_keys:
        field = context.schema.field(name)
        older = (f for s in context.schemas.values() for f in s.fields if f.id == field.id)
        if any(f.type.as_nullable() != field.type.as_nullable() for f in older):
            return True
    return False


def _dropped(
    entries: EntryTable, excluded: NDArray[np.bool_], reason: str, tally: _Tally
) -> EntryTable:
    if not excluded.any():
        return entries
    tally.add_names(entries.take(excluded), reason)
    return entries.take(~excluded)


def _grouped(entries: EntryTable, snapshot_id: int) -> Iterator[BucketFiles]:
    """The entries' files, bucket by bucket."""
    count = entries.num_rows
    if not count:
        return
    partition_id, bucket = entries["partition_id"], entries["bucket"]
    order = np.lexsort((bucket, partition_id))
    ordered = entries.take(order)
    partition_id, bucket = partition_id[order], bucket[order]
    total_buckets = ordered["total_buckets"]
    files = ordered.files()
    differs = (partition_id[1:] != partition_id[:-1]) | (bucket[1:] != bucket[:-1])
    starts = np.r_[0, np.flatnonzero(differs) + 1].tolist()
    for start, end in zip(starts, [*starts[1:], count], strict=True):
        yield BucketFiles(
            snapshot_id,
            ordered.partitions[int(partition_id[start])],
            int(bucket[start]),
            int(total_buckets[start]),
            tuple(files[start:end]),
        )


def _bucket_splits(
    context: ReadContext, bucket: BucketFiles, parts: ScanFilter, tally: _Tally
) -> list[Split]:
    schema, options = context.schema, context.options
    rule = PackRule(
        target_bytes=options.get(declared.SOURCE_SPLIT_TARGET_SIZE),
        open_file_cost_bytes=options.get(declared.SOURCE_SPLIT_OPEN_FILE_COST),
    )
    stats = StatsReader(schema, context.schemas)
    values = context.paths.partition_values(bucket.partition) if schema.partition_keys else ()
    constants = stats.partition_ranges(values)
    matches = _value_test(stats, constants, parts)
    if not schema.primary_keys:
        splits = append_splits(bucket, rule, matches)
        tally.add(_left_out(bucket.files, _files(splits)), BY_VALUE_STATS)
        return splits
    by_key = _key_test(stats, constants, parts)
    kept = tuple(f for f in bucket.files if by_key(f))
    tally.add(_left_out(bucket.files, kept), BY_KEY_STATS)
    spec = MergeSpec.of(schema, options)
    splits = merge_splits(
        BucketFiles(
            bucket.snapshot_id, bucket.partition, bucket.bucket, bucket.total_buckets, kept
        ),
        rule,
        matches,
        key_types=spec.key_types,
        by_sequence=not spec.sequence_columns and spec.engine == "deduplicate",
    )
    tally.add(_left_out(kept, _files(splits)), BY_VALUE_STATS)
    return splits


def _key_test(
    stats: StatsReader, constants: Mapping[str, ColumnRange], parts: ScanFilter
) -> Callable[[DataFileMeta], bool]:
    predicate = parts.key
    if predicate is None:
        return lambda _: True
    columns = columns_of(predicate)
    return lambda file: may_match(predicate, {**constants, **stats.key_ranges(file, columns)})


def _value_test(
    stats: StatsReader, constants: Mapping[str, ColumnRange], parts: ScanFilter
) -> Callable[[DataFileMeta], bool]:
    predicate = parts.rest
    if predicate is None:
        return lambda _: True
    columns = columns_of(predicate)
    # the partition's own values are exact and win over statistics
    return lambda file: may_match(predicate, {**stats.value_ranges(file, columns), **constants})


def _left_out(files: Sequence[DataFileMeta], kept: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    names = {f.file_name for f in kept}
    return [f for f in files if f.file_name not in names]


def _files(splits: Sequence[Split]) -> Iterator[DataFileMeta]:
    for split in splits:
        yield from split.files


def _delta_split(context: ReadContext, bucket: BucketFiles) -> Split:
    if not context.schema.primary_keys:
        ordered = sorted(bucket.files, key=lambda f: (f.min_sequence_number, f.file_name))
        return bucket.split(((tuple(ordered),),), raw=True)
    spec = MergeSpec.of(context.schema, context.options)
    return bucket.split(file_sections(bucket.files, spec.key_types), raw=False)


def _limited(splits: list[Split], limit: int, tally: _Tally) -> list[Split]:
    """The first raw splits that hold enough rows; all splits where they do not."""
    rows = 0
    for position, split in enumerate(splits):
        if rows >= limit:
            for left_out in splits[position:]:
                tally.add(left_out.files, BY_LIMIT)
            return splits[:position]
        if not split.raw:
            break
        rows += split.row_count
    return splits
