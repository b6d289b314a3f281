"""From a snapshot and a predicate to splits: what is read, and what is left out and why.

1. Manifests whose partition statistics exclude the predicate are not opened; the others are
   decoded once, kept in a cache, and folded to the live files.
2. Whole columns of entries are tested for partition and bucket.
3. What is left is pruned by key and value statistics, all files at once where columns can tell
   (:mod:`tidelake.scan.prune_columns`), else file by file (:mod:`tidelake.scan.prune`); then by
   the indexes of single files (:mod:`tidelake.scan.file_index`).
4. Each bucket's files become splits (:mod:`tidelake.scan.generate`). Files are objects only where
   they must be merged; those of raw splits become objects when somebody looks at them.
5. A limit without a predicate on rows keeps only as many raw splits as hold that many rows: the
   rows of a raw split are exact.

Source: ``docs/format/reading.md``; Paimon's ``AbstractFileStoreScan`` and ``SnapshotReaderImpl``
(1.3.1). Runs on the driver. Cost: O(entries) in NumPy; in Python O(splits) and O(files to merge).
The live files of the newest plan's snapshot stay folded in the cache.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.codec.binary_row import decode_row
from tidelake.merge import MergeSpec
from tidelake.metadata.data_file import EMPTY_ROW, DataFileMeta, FileKind
from tidelake.metadata.entry_table import EntryTable
from tidelake.metadata.file_list import FileList, names_of
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
from tidelake.scan.file_index import UnusedIndex, ask_indexes
from tidelake.scan.generate import (
    BucketFiles,
    PackRule,
    file_sections,
    merge_splits,
    raw_splits,
    stand_alone,
)
from tidelake.scan.prune import (
    ScanFilter,
    StatsReader,
    buckets_named,
    matching_partitions,
    scan_filter,
)
from tidelake.scan.prune_columns import UNKNOWN, YES, Stats, verdicts
from tidelake.scan.split import Split
from tidelake.types.predicate import ColumnRange, Predicate, columns_of, may_match

__all__ = ["PrunedFile", "PrunedFiles", "ScanPlan", "live_buckets", "live_files", "plan_scan"]

BY_PARTITION = "partition"
BY_BUCKET = "bucket"
BY_POSTPONE = "postpone bucket, not readable before compaction"
BY_KEY_STATS = "key statistics"
BY_VALUE_STATS = "value statistics"
BY_FILE_INDEX = "file index"
BY_LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class PrunedFile:
    """A live file that need not be read."""

    name: str
    reason: str


class PrunedFiles(Sequence[PrunedFile]):
    """The files that a plan leaves out, as objects when somebody looks at them.

    Parameters
    ----------
    parts : sequence of (StringArray, str)
        Names, and why these are left out.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[tuple[pa.Array, str]] = ()) -> None:
        self._parts = tuple(parts)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of files by reason."""
        counts: Counter[str] = Counter()
        for names, reason in self._parts:
            counts[reason] += len(names)
        return counts

    def __len__(self) -> int:
        return sum(len(names) for names, _ in self._parts)

    def __iter__(self) -> Iterator[PrunedFile]:
        for names, reason in self._parts:
            for name in names.to_pylist():
                yield PrunedFile(name, reason)

    @overload
    def __getitem__(self, index: int) -> PrunedFile: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PrunedFile]: ...
    def __getitem__(self, index: int | slice) -> PrunedFile | Sequence[PrunedFile]:
        if isinstance(index, slice) and index.step is None and not (index.start or 0):
            stop = len(self) if index.stop is None else index.stop
            if stop >= 0:  # the first few are all that is shown
                return tuple(itertools.islice(self, stop))
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (PrunedFiles, tuple)):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


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
    pruned_files : sequence of PrunedFile
        The files left out, each with the reason.
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
        """Physical rows in the splits, before merging and filtering."""
        return sum(s.row_count for s in self.splits)

    @property
    def pruned(self) -> Mapping[str, int]:
        """Number of files left out, by reason."""
        return self.pruned_files.counts


@dataclass(slots=True)
class _Tally:
    """Collects the pruned files while a plan is made."""

    pruned: list[tuple[pa.Array, str]] = field(default_factory=list)
    other_partitions_files: int = 0
    other_partitions_bytes: int = 0
    unused_indexes: tuple[UnusedIndex, ...] = ()

    def add(self, names: pa.Array, reason: str) -> None:
        if len(names):
            self.pruned.append((names, reason))

    def add_files(self, files: Iterable[DataFileMeta], reason: str) -> None:
        self.add(pa.array([f.file_name for f in files], type=pa.string()), reason)


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
    if mode == "delta":
        splits = [_delta_split(context, bucket) for bucket in _grouped(chosen, snapshot.id)]
    else:
        splits = _splits(context, chosen, snapshot.id, parts, tally)
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


def live_buckets(
    context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache
) -> list[BucketFiles]:
    """All live files of a snapshot, bucket by bucket."""
    return list(_grouped(live_files(context, snapshot, manifests=manifests), snapshot.id))


def read_buckets(
    context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache
) -> list[BucketFiles]:
    """Those of :func:`live_buckets` that a read looks at: not the postpone buckets."""
    return [b for b in live_buckets(context, snapshot, manifests=manifests) if b.bucket >= 0]


def live_files(context: ReadContext, snapshot: Snapshot, *, manifests: ManifestCache) -> EntryTable:
    """All live files of a snapshot as columns, bucket by bucket; kept folded for the next plan.

    Returns
    -------
    EntryTable
        Sorted by partition (in order of coming) and bucket; the files of an append table's bucket
        in the order they were written.
    """

    def fold() -> EntryTable:
        found = live_entries(context.fileio, context.paths, snapshot, manifests)
        return found.take(_order(found, by_writing=not context.schema.primary_keys))

    return manifests.folded(context.paths.location, snapshot, fold)


def _order(entries: EntryTable, *, by_writing: bool) -> NDArray[np.intp]:
    """Order by partition and bucket, and of an append table's files by when they were written."""
    keys = [("partition_id", "ascending"), ("bucket", "ascending")]
    if by_writing:
        keys += [("min_sequence_number", "ascending"), ("file_name", "ascending")]
        order: NDArray[np.intp] = np.asarray(pc.sort_indices(entries.batch, sort_keys=keys))
        return order
    return np.lexsort((entries["bucket"], entries["partition_id"]))


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
    if predicate is None:
        return live_files(context, snapshot, manifests=manifests)
    where = f"snapshot {snapshot.id} of {context.paths.location}"
    tables = read_manifests(context.fileio, context.paths, opened, manifests)
    entries = EntryTable.concat(tables)
    matching = _in_partitions(context, entries, predicate)
    others = EntryTable.cancel([entries.take(~matching)], where=where)
    others = others.take(others["kind"] == FileKind.ADD)
    tally.other_partitions_files = others.num_rows
    tally.other_partitions_bytes = int(others["file_size_bytes"].sum())
    tally.add(others["file_name"], BY_PARTITION)
    found = EntryTable.fold([entries.take(matching)], where=where)
    return found.take(_order(found, by_writing=not context.schema.primary_keys))


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
    tally.add(entries["file_name"].filter(pa.array(excluded)), reason)
    return entries.take(~excluded)


def _grouped(entries: EntryTable, snapshot_id: int) -> Iterator[BucketFiles]:
    """The entries' files, bucket by bucket."""
    return _buckets(entries.take(_order(entries, by_writing=False)), snapshot_id)


def _starts(entries: EntryTable) -> NDArray[np.intp]:
    """Where each bucket begins. Requires: entries are sorted by partition and bucket."""
    partition_id, bucket = entries["partition_id"], entries["bucket"]
    differs = (partition_id[1:] != partition_id[:-1]) | (bucket[1:] != bucket[:-1])
    return np.flatnonzero(np.r_[entries.num_rows > 0, differs])


def _buckets(entries: EntryTable, snapshot_id: int) -> Iterator[BucketFiles]:
    """Sorted entries, bucket by bucket."""
    starts = _starts(entries)
    ids, buckets = entries["partition_id"][starts].tolist(), entries["bucket"][starts].tolist()
    totals = entries["total_buckets"][starts].tolist()
    rows = np.arange(entries.num_rows)
    bounds = [*starts.tolist(), entries.num_rows]
    for place, (start, end) in enumerate(itertools.pairwise(bounds)):
        files = FileList(entries, rows[start:end])
        yield BucketFiles(
            snapshot_id, entries.partitions[ids[place]], buckets[place], totals[place], files
        )


def _splits(
    context: ReadContext,
    entries: EntryTable,
    snapshot_id: int,
    parts: ScanFilter,
    tally: _Tally,
) -> list[Split]:
    """Splits of all buckets. Requires: entries are sorted by partition and bucket."""
    schema, options = context.schema, context.options
    rule = PackRule(
        target_bytes=options.get(declared.SOURCE_SPLIT_TARGET_SIZE),
        open_file_cost_bytes=options.get(declared.SOURCE_SPLIT_OPEN_FILE_COST),
    )
    pruning = _Pruning(context)
    if not schema.primary_keys:
        matches = pruning.mask(entries, parts.rest, "value")
        kept = _dropped(entries, ~matches, BY_VALUE_STATS, tally)
        answers = ask_indexes(context, kept, np.ones(kept.num_rows, dtype=bool), parts)
        tally.unused_indexes = answers.unused
        kept = _dropped(kept, ~answers.may_match, BY_FILE_INDEX, tally)
        return [
            split
            for bucket in _buckets(kept, snapshot_id)
            for split in raw_splits(bucket, bucket.files, rule)
        ]
    entries = _dropped(entries, ~pruning.mask(entries, parts.key, "key"), BY_KEY_STATS, tally)
    matches = pruning.mask(entries, parts.rest, "value")
    worth_asking = matches if parts.key is None else np.ones(entries.num_rows, dtype=bool)
    answers = ask_indexes(context, entries, worth_asking, parts)
    tally.unused_indexes = answers.unused
    entries = _dropped(entries, ~answers.may_hold_key, BY_FILE_INDEX, tally)
    by_stats = matches[answers.may_hold_key]
    matches = by_stats & answers.may_match[answers.may_hold_key]
    starts = _starts(entries)
    alone = stand_alone(entries, starts)
    sizes = np.diff(np.r_[starts, entries.num_rows])
    # a bucket without any match holds no section with one
    some = np.logical_or.reduceat(matches, starts) if len(starts) else alone
    to_merge = np.repeat(some & ~alone, sizes)
    needed = matches | to_merge
    if not needed.all():
        names = entries["file_name"]
        tally.add(names.filter(pa.array(~needed & by_stats)), BY_FILE_INDEX)
        tally.add(names.filter(pa.array(~needed & ~by_stats)), BY_VALUE_STATS)
        entries = entries.take(needed)
        matches, by_stats, to_merge = matches[needed], by_stats[needed], to_merge[needed]
    spec = MergeSpec.of(schema, options)
    splits: list[Split] = []
    start = 0
    for bucket in _buckets(entries, snapshot_id):
        end = start + len(bucket.files)
        if not to_merge[start]:
            splits.extend(raw_splits(bucket, bucket.files, rule))
        else:
            may = _Verdicts(matches[start:end], by_stats[start:end])
            splits.extend(_merge_splits(bucket, rule, may, spec, tally))
        start = end
    return splits


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """Which files of a bucket may match, and which may by their statistics alone."""

    matches: NDArray[np.bool_]
    by_stats: NDArray[np.bool_]


def _merge_splits(
    bucket: BucketFiles,
    rule: PackRule,
    may: _Verdicts,
    spec: MergeSpec,
    tally: _Tally,
) -> list[Split]:
    names = names_of(bucket.files).to_pylist()
    matches = dict(zip(names, may.matches.tolist(), strict=True))
    splits = merge_splits(
        bucket,
        rule,
        lambda file: matches[file.file_name],
        key_types=spec.key_types,
        by_sequence=not spec.sequence_columns and spec.engine == "deduplicate",
    )
    kept = {f.file_name for split in splits for f in split.files}
    gone = [(f, by_stats) for f, by_stats in zip(bucket.files, may.by_stats.tolist(), strict=True)
            if f.file_name not in kept]  # fmt: skip
    tally.add_files((f for f, by_stats in gone if by_stats), BY_FILE_INDEX)
    tally.add_files((f for f, by_stats in gone if not by_stats), BY_VALUE_STATS)
    return splits


class _Pruning:
    """Asks the statistics of files, by columns where they tell, else file by file."""

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        self._reader = StatsReader(context.schema, context.schemas)

    def mask(
        self, entries: EntryTable, predicate: Predicate | None, stats: Stats
    ) -> NDArray[np.bool_]:
        """Which files may hold rows that match."""
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
        for row, place, file in zip(
            unknown, partition_ids, entries.take(unknown).files(), strict=True
        ):
            # the partition's own values are exact and win over statistics
            constants = self._reader.partition_ranges(partitions[place])
            if stats == "key":
                ranges = constants | self._reader.key_ranges(file, columns)
            else:
                ranges = self._reader.value_ranges(file, columns) | constants
            mask[row] = may_match(predicate, ranges)
        return mask


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
                for section in left_out.sections:
                    for run in section:
                        tally.add(names_of(run), BY_LIMIT)
            return splits[:position]
        if not split.raw:
            break
        rows += split.row_count
    return splits
