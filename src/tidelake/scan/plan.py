"""From a snapshot and a predicate to splits: the files to read, and why others are left out.

1. Manifests whose partition statistics exclude the predicate are not opened; the others are
   decoded once, kept in a cache, and folded to the live files.
2. Whole columns of entries are tested for partition and bucket
   (:mod:`tidelake.scan.pruning.prune_entries`).
3. The rest is pruned by key and value statistics, all files at once if columns suffice
   (:mod:`tidelake.scan.pruning.prune_columns`), else file by file
   (:mod:`tidelake.scan.pruning.prune`); then by the indexes of single files
   (:mod:`tidelake.scan.pruning.file_index`).
4. Each bucket's files become splits (:mod:`tidelake.scan.split_generator`). Files to merge become
   objects; those of raw splits do so on demand. Level 0 is left out with
   ``deletion-vectors.merge-on-read`` = ``false``.
5. A limit without a predicate on rows keeps the first raw splits that hold that many rows. The
   number of rows of a raw split, less those in its deletion vectors, is exact.

Source: ``docs/format/reading.md``; Paimon's ``AbstractFileStoreScan`` and ``SnapshotReaderImpl``
(1.3.1). Runs on the driver. Cost: O(entries) in NumPy; in Python O(splits) and O(files to merge).
The live files of the newest plan's snapshot stay folded in the cache
(:mod:`tidelake.scan.live_files`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.errors import InvalidInputError
from tidelake.merge import FileKeys, MergeSpec
from tidelake.merge.spec import DEDUPLICATE
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.data_file import DataFileMeta, FileKind
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.lazy_file_list import names_of
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.metadata.manifest.manifest_list import ManifestFile
from tidelake.metadata.manifest.snapshot_entries import (
    delta_entries,
    manifest_files,
    read_manifests,
)
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.data_file import file_columns
from tidelake.scan.deletions import live_deletions
from tidelake.scan.evolved_rows import as_section, check_not_evolved, is_evolved, row_groups
from tidelake.scan.expired import names_expiry
from tidelake.scan.live_files import (
    bucket_files,
    bucket_starts,
    grouped,
    is_created_since,
    live_files,
    order_of,
)
from tidelake.scan.pruning.file_index import UnusedIndex, ask_indexes
from tidelake.scan.pruning.prune import ScanFilter, scan_filter
from tidelake.scan.pruning.prune_entries import (
    StatsPruning,
    in_buckets_named,
    in_partitions,
    manifest_may_hold,
)
from tidelake.scan.pruning.pruned_files import (
    BY_CREATION_TIME,
    BY_FILE_INDEX,
    BY_KEY_STATS,
    BY_LEVEL_0,
    BY_LIMIT,
    BY_PARTITION,
    BY_VALUE_STATS,
    PrunedFiles,
    Tally,
)
from tidelake.scan.split import Section, Split
from tidelake.scan.split_generator import (
    BucketFiles,
    PackRule,
    file_sections,
    merge_splits,
    pack_ordered,
    raw_splits,
    stand_alone,
)
from tidelake.types.predicate import Predicate

ENTRY_BYTES = 1_900
"""The memory of a manifest entry during a plan: measured, for files of 8 columns."""
PLAN_SHARE = 0.75
"""The part of the memory that entries may take."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The plan of a read.

    Parameters
    ----------
    snapshot_id : int or None
        The snapshot; None for a table without one.
    splits : tuple of Split
        Raw ones first.
    manifests_total, manifests_pruned : int
        Manifests of the snapshot, and those not opened.
    raw_rows_exact : bool
        Whether every row of a raw split is a row of the answer (no predicate on rows).
    unused_indexes : tuple of UnusedIndex
        File indexes that could not be used; their files are read.
    """

    snapshot_id: int | None
    splits: tuple[Split, ...] = ()
    files_total: int = 0
    bytes_total: int = 0
    pruned_files: PrunedFiles = field(default_factory=PrunedFiles)
    manifests_total: int = 0
    manifests_pruned: int = 0
    raw_rows_exact: bool = True
    unused_indexes: tuple[UnusedIndex, ...] = ()

    @property
    def files_read(self) -> int:
        """Number of files in the splits."""
        return sum(s.files_count for s in self.splits)

    @property
    def bytes_read(self) -> int:
        """Size of the files in the splits."""
        return sum(s.size_bytes for s in self.splits)

    @property
    def rows_read(self) -> int:
        """Physical rows in the splits, before merging and filtering, including deleted ones."""
        return sum(s.row_count for s in self.splits)

    @property
    def vectors_read(self) -> int:
        """Number of files in the splits that have a deletion vector."""
        return sum(len(s.deletions) for s in self.splits)

    @property
    def rows_deleted(self) -> int:
        """How many rows these vectors delete, as far as their writers recorded it."""
        return sum(w.cardinality or 0 for s in self.splits for w in s.deletions.values())

    @property
    def pruned(self) -> Mapping[str, int]:
        """Number of skipped files, by reason."""
        return self.pruned_files.counts


def plan_scan(  # noqa: PLR0913 - each leaves out another part of the files
    context: ReadContext,
    snapshot: Snapshot | None,
    *,
    manifests: ManifestCache,
    predicate: Predicate | None = None,
    limit: int | None = None,
    mode: Literal["all", "delta"] = "all",
    level: int | None = None,
    buckets: Collection[BucketId] | None = None,
    without: Collection[bytes] = (),
) -> ScanPlan:
    """Plan a read.

    Parameters
    ----------
    context : ReadContext
        The table, with the schema that the predicate is bound to.
    snapshot : Snapshot or None
        The snapshot to read; None gives the empty plan.
    predicate : Predicate, optional
        Bound. The splits may hold rows that do not satisfy it; `read_split` drops them.
    limit : int, optional
        The most rows wanted.
    mode : {'all', 'delta'}
        The snapshot's state, or only the files that its commit added (splits are then merge splits,
        one per bucket, to be read with ``keep_kinds=True``).
    without : collection of bytes
        Partitions that are left out, as serialized BinaryRows.

    Returns
    -------
    ScanPlan

    Raises
    ------
    NotFoundError
        A manifest is missing: the snapshot expired while it was planned, or the file was lost.
    """
    if snapshot is None:
        return ScanPlan(None)
    with names_expiry(context, snapshot.id):
        parts = scan_filter(context.schema, predicate)
        tally = Tally()
        manifests_total = manifests_pruned = 0
        if mode == "delta":
            check_not_evolved(context.options)
            entries = delta_entries(context.fileio, context.paths, snapshot, manifests)
            entries = entries.take(entries["kind"] == FileKind.ADD)
            if parts.partition is not None:
                entries = entries.take(in_partitions(context, entries, parts.partition))
        else:
            listed = manifest_files(context.fileio, context.paths, snapshot, manifests)
            opened = [m for m in listed if manifest_may_hold(context, m, parts.partition)]
            check_plan_fits(context, opened)
            manifests_total, manifests_pruned = len(listed), len(listed) - len(opened)
            entries = _live(context, snapshot, opened, parts.partition, manifests, tally)
        if level is not None:
            entries = entries.take(entries["level"] == level)
        if buckets is not None:
            entries = entries.take(_in_buckets(entries, buckets))
        if without:
            is_kept = np.array([p not in without for p in entries.partitions], dtype=bool)
            entries = entries.take(is_kept[entries["partition_id"]])
        chosen = in_buckets_named(context, entries, parts, tally)
        if context.created_since is not None:
            is_older = ~is_created_since(context, chosen, context.created_since)
            chosen = tally.dropped(chosen, is_older, BY_CREATION_TIME)
        if mode == "delta":
            splits = [_delta_split(context, bucket) for bucket in grouped(chosen, snapshot.id)]
        else:
            deletions = live_deletions(context, snapshot, manifests=manifests)
            splits = _splits(context, chosen, snapshot.id, parts, tally, deletions)
        exact = parts.rest is None
        splits.sort(key=lambda s: not s.raw)
        if limit is not None and exact and mode == "all":
            splits = _limited(splits, limit, tally)
        return ScanPlan(
            snapshot_id=snapshot.id,
            splits=tuple(splits),
            files_total=entries.num_rows + tally.other_partitions_files,
            bytes_total=int(entries["file_size_bytes"].sum()) + tally.other_partitions_bytes,
            pruned_files=PrunedFiles(tally.pruned),
            manifests_total=manifests_total,
            manifests_pruned=manifests_pruned,
            raw_rows_exact=exact,
            unused_indexes=tally.unused_indexes,
        )


def partitions_read(
    context: ReadContext,
    snapshot: Snapshot | None,
    *,
    manifests: ManifestCache,
    predicate: Predicate | None = None,
) -> frozenset[bytes]:
    """The partitions of which a read opens files, whatever their rows, as serialized BinaryRows.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; only its part on the partition columns counts.
    """
    if snapshot is None:
        return frozenset()
    with names_expiry(context, snapshot.id):
        partition = scan_filter(context.schema, predicate).partition
        listed = manifest_files(context.fileio, context.paths, snapshot, manifests)
        opened = [m for m in listed if manifest_may_hold(context, m, partition)]
        entries = _live(context, snapshot, opened, partition, manifests, Tally())
    entries = entries.take(entries["bucket"] >= 0)
    if context.skips_level_0:
        entries = entries.take(entries["level"] > 0)
    return frozenset(entries.partitions[i] for i in np.unique(entries["partition_id"]).tolist())


def _live(
    context: ReadContext,
    snapshot: Snapshot,
    opened: Sequence[ManifestFile],
    predicate: Predicate | None,
    manifests: ManifestCache,
    tally: Tally,
) -> EntryTable:
    """The live files of the partitions that match.

    Entries of other partitions are dropped before the fold: the ADD of such a file may be in a
    manifest that was not opened, and its DELETE in one that was.
    """
    if predicate is None:
        return live_files(context, snapshot, manifests=manifests)
    where = f"snapshot {snapshot.id} of {context.paths.location}"
    tables = read_manifests(context.fileio, context.paths, opened, manifests)
    entries = EntryTable.concat(tables)
    matching = in_partitions(context, entries, predicate)
    others = EntryTable.cancel([entries.take(~matching)], where=where)
    others = others.take(others["kind"] == FileKind.ADD)
    tally.other_partitions_files = others.num_rows
    tally.other_partitions_bytes = int(others["file_size_bytes"].sum())
    tally.add(others["file_name"], BY_PARTITION)
    found = EntryTable.fold([entries.take(matching)], where=where)
    return found.in_order(order_of(found, by_writing=not context.schema.primary_keys))


def _in_buckets(entries: EntryTable, buckets: Collection[BucketId]) -> NDArray[np.bool_]:
    """Find the entries in some buckets."""
    buckets_of: dict[int, list[int]] = {}
    for partition, bucket in buckets:
        buckets_of.setdefault(entries.partition_id(partition), []).append(bucket)
    found = np.zeros(entries.num_rows, dtype=bool)
    for number, numbers in buckets_of.items():
        found |= (entries["partition_id"] == number) & np.isin(entries["bucket"], numbers)
    return found


def _splits(
    context: ReadContext,
    entries: EntryTable,
    snapshot_id: int,
    parts: ScanFilter,
    tally: Tally,
    deletions: Mapping[str, DeletionRange],
) -> list[Split]:
    """Splits of all buckets. Requires: entries are sorted by partition and bucket."""
    schema, options = context.schema, context.options
    rule = PackRule(
        target_bytes=options.get(declared.SOURCE_SPLIT_TARGET_SIZE),
        open_file_cost_bytes=options.get(declared.SOURCE_SPLIT_OPEN_FILE_COST),
    )
    pruning = StatsPruning(context)
    if is_evolved(context):
        return [
            split
            for bucket in bucket_files(entries, snapshot_id, deletions)
            for split in _evolved_splits(context, bucket, rule)
        ]
    if not schema.primary_keys:
        matches = pruning.mask(entries, parts.rest, "value")
        kept = tally.dropped(entries, ~matches, BY_VALUE_STATS)
        answers = ask_indexes(context, kept, np.ones(kept.num_rows, dtype=bool), parts)
        tally.unused_indexes = answers.unused
        kept = tally.dropped(kept, ~answers.may_match, BY_FILE_INDEX)
        return [
            split
            for bucket in bucket_files(kept, snapshot_id, deletions)
            for split in raw_splits(bucket, bucket.files, rule)
        ]
    if context.skips_level_0:
        entries = tally.dropped(entries, entries["level"] == 0, BY_LEVEL_0)
    entries = tally.dropped(entries, ~pruning.mask(entries, parts.key, "key"), BY_KEY_STATS)
    matches = pruning.mask(entries, parts.rest, "value")
    worth_asking = matches if parts.key is None else np.ones(entries.num_rows, dtype=bool)
    answers = ask_indexes(context, entries, worth_asking, parts)
    tally.unused_indexes = answers.unused
    entries = tally.dropped(entries, ~answers.may_hold_key, BY_FILE_INDEX)
    by_stats = matches[answers.may_hold_key]
    matches = by_stats & answers.may_match[answers.may_hold_key]
    starts = bucket_starts(entries)
    alone = stand_alone(entries, starts, on_any_level=context.keys_stand_alone)
    sizes = np.diff(np.r_[starts, entries.num_rows])
    spec = MergeSpec.of(schema, options)
    some = np.ones(len(starts), dtype=bool)
    if not spec.combines and len(starts):
        # a bucket without any match has no matching section
        some = np.logical_or.reduceat(matches, starts)
    to_merge = np.repeat(some & ~alone, sizes)
    needed = matches | to_merge
    if not needed.all():
        names = entries["file_name"]
        tally.add(names.filter(pa.array(~needed & by_stats)), BY_FILE_INDEX)
        tally.add(names.filter(pa.array(~needed & ~by_stats)), BY_VALUE_STATS)
        entries = entries.take(needed)
        matches, by_stats, to_merge = matches[needed], by_stats[needed], to_merge[needed]
    splits: list[Split] = []
    start = 0
    for bucket in bucket_files(entries, snapshot_id, deletions):
        end = start + len(bucket.files)
        if not to_merge[start]:
            splits.extend(raw_splits(bucket, bucket.files, rule))
        else:
            may = _Verdicts(matches[start:end], by_stats[start:end])
            splits += _merge_splits(
                bucket, rule, may, spec, tally, alone_above=context.keys_stand_alone
            )
        start = end
    return splits


def _evolved_splits(context: ReadContext, bucket: BucketFiles, rule: PackRule) -> list[Split]:
    """Raw splits of files that are alone with their rows, and of those that share rows."""
    alone: list[DataFileMeta] = []
    shared: list[Section] = []
    for group in row_groups(tuple(bucket.files)):
        schema = context.file_schema(group[0].schema_id, file_name=group[0].file_name)
        if len(group) == 1 and len(file_columns(context, group[0])) == len(schema.fields):
            alone.append(group[0])
        else:
            shared.append(as_section(group))
    splits = raw_splits(bucket, tuple(alone), rule)
    for sections in pack_ordered(shared, rule.section_weight, target=rule.target_bytes):
        splits.append(bucket.split(tuple(sections), raw=False))
    return splits


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """Find the files of a bucket that may match, and those that may by statistics alone."""

    matches: NDArray[np.bool_]
    by_stats: NDArray[np.bool_]


def _merge_splits(
    bucket: BucketFiles,
    rule: PackRule,
    may: _Verdicts,
    spec: MergeSpec,
    tally: Tally,
    *,
    alone_above: bool,
) -> list[Split]:
    names = names_of(bucket.files).to_pylist()
    matches = dict(zip(names, may.matches.tolist(), strict=True))
    splits = merge_splits(
        bucket,
        rule,
        lambda file: matches[file.file_name],
        keys=FileKeys.of(spec),
        by_sequence=not spec.sequence_columns and spec.engine == DEDUPLICATE,
        combines=spec.combines,
        alone_above=alone_above,
    )
    kept = {f.file_name for split in splits for f in split.files}
    pruned = [(f, by_stats) for f, by_stats in zip(bucket.files, may.by_stats.tolist(), strict=True)
            if f.file_name not in kept]  # fmt: skip
    tally.add_files((f for f, by_stats in pruned if by_stats), BY_FILE_INDEX)
    tally.add_files((f for f, by_stats in pruned if not by_stats), BY_VALUE_STATS)
    return splits


def _delta_split(context: ReadContext, bucket: BucketFiles) -> Split:
    if not context.schema.primary_keys:
        ordered = sorted(bucket.files, key=lambda f: (f.min_sequence_number, f.file_name))
        return bucket.split(((tuple(ordered),),), raw=True)
    spec = MergeSpec.of(context.schema, context.options)
    return bucket.split(file_sections(bucket.files, FileKeys.of(spec)), raw=False)


def _limited(splits: list[Split], limit: int, tally: Tally) -> list[Split]:
    """The first raw splits that hold enough rows; all splits if they do not suffice."""
    rows = 0
    for position, split in enumerate(splits):
        if rows >= limit:
            for left_out in splits[position:]:
                for section in left_out.sections:
                    for run in section:
                        tally.add(names_of(run), BY_LIMIT)
            return splits[:position]
        if not split.raw:
            break
        rows += split.live_row_count or 0
    return splits


def check_plan_fits(context: ReadContext, manifests: Sequence[ManifestFile]) -> None:
    """Refuse to read more manifests than the memory has room for.

    Raises
    ------
    InvalidInputError
        There are too many.
    """
    total_bytes = context.env.memory.total_bytes
    entries = sum(m.entries_count for m in manifests)
    if total_bytes is None or entries * ENTRY_BYTES <= total_bytes * PLAN_SHARE:
        return
    needed = int(entries * ENTRY_BYTES / PLAN_SHARE)
    message = (
        f"A plan of table {context.paths.location} reads {entries:,} manifest entries, which needs"
        f" {needed >> 20:,} mb of memory, but there are {total_bytes >> 20:,} mb: give more, or"
        " filter by partition columns, so that fewer manifests are read."
    )
    raise InvalidInputError(message, kind="memory", table=context.paths.location)
