"""From the files of one bucket to splits: raw ones, merge ones, and their packing.

1. Append table: each file stands alone; all splits are raw (:func:`raw_splits`).
2. Primary-key table, all files on one level above 0 and without deletes: they do not overlap; each
   stands alone and is raw. So do files on several levels if deletion vectors mark replaced rows, or
   first rows stay.
3. Otherwise the files are cut into sections. A section of one file without deletes is raw, any
   other is merged. If above level 0 a key is live in one file only, only the files that share keys
   with level 0 are cut into sections; all others stand alone.
4. Raw files and merge sections are packed separately, in order, into splits of
   ``source.split.target-size``; each file weighs at least ``source.split.open-file-cost``.

A file with an unknown number of deletes (old writers) is merged, which drops them.

Source: Paimon's ``MergeTreeSplitGenerator`` and ``AppendOnlySplitGenerator`` (1.3.1); the order of
raw before merge splits, the pruning inside sections and the second half of rule 3 are ours. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tidelake.merge import FileKeys
from tidelake.merge.runs.sections import meets_any, sections_of
from tidelake.metadata.bucket_id import InBucket
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index.deletion_file import DeletionRange
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.manifest.lazy_file_list import names_of, sizes_of
from tidelake.scan.pruning.prune import prune_section
from tidelake.scan.split import Run, Section, Split

T = TypeVar("T")
Matches = Callable[[DataFileMeta], bool]


@dataclass(frozen=True, slots=True)
class BucketFiles(InBucket):
    """The files of one bucket at one snapshot.

    Parameters
    ----------
    files : sequence of DataFileMeta
        Live files that the scan may need.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    files: Run
    deletions: Mapping[str, DeletionRange] = field(default_factory=dict)

    def split(self, sections: tuple[Section, ...], *, raw: bool) -> Split:
        """A split of some of the files, with their deletion vectors."""
        own: dict[str, DeletionRange] = {}
        if self.deletions:
            names = (
                n for section in sections for run in section for n in names_of(run).to_pylist()
            )
            own = {name: self.deletions[name] for name in names if name in self.deletions}
        return Split(
            self.snapshot_id, self.partition, self.bucket, self.total_buckets, sections, raw, own
        )


@dataclass(frozen=True, slots=True)
class PackRule:
    """How much goes into one split: the options ``source.split.*``."""

    target_bytes: int
    open_file_cost_bytes: int

    def file_weights(self, files: Run) -> NDArray[np.int64]:
        """The weight of each file."""
        return np.maximum(sizes_of(files), self.open_file_cost_bytes)

    def section_weight(self, section: Section) -> int:
        """The weight of one section."""
        return sum(int(self.file_weights(run).sum()) for run in section)


def raw_splits(bucket: BucketFiles, files: Run, rule: PackRule) -> list[Split]:
    """Raw splits of some of a bucket's files, in the given order."""
    ends = np.cumsum(rule.file_weights(files))
    splits: list[Split] = []
    start = before = 0
    while start < len(files):
        # as many as fit; a file larger than the target gets its own split
        end = max(start + 1, int(np.searchsorted(ends, before + rule.target_bytes, side="right")))
        splits.append(bucket.split(((files[start:end],),), raw=True))
        start, before = end, int(ends[end - 1])
    return splits


def stand_alone(
    entries: EntryTable, starts: NDArray[np.intp], *, on_any_level: bool = False
) -> NDArray[np.bool_]:
    """Whether the files of each bucket of a primary-key table stand alone (rule 2).

    Parameters
    ----------
    on_any_level : bool
        Whether above level 0 a key is live in one file only, on any level.
    """
    if not len(starts):
        return np.zeros(0, dtype=bool)
    level = entries["level"]
    deletes = entries["delete_row_count"].fill_null(-1).to_numpy(zero_copy_only=False)
    low, high = np.minimum.reduceat(level, starts), np.maximum.reduceat(level, starts)
    no_deletes = np.logical_and.reduceat(deletes == 0, starts)
    alone: NDArray[np.bool_] = ((low == high) | on_any_level) & (low != 0) & no_deletes
    return alone


def merge_splits(
    bucket: BucketFiles,
    rule: PackRule,
    matches: Matches,
    *,
    keys: FileKeys,
    by_sequence: bool,
    combines: bool = False,
    alone_above: bool = False,
) -> list[Split]:
    """Splits of one bucket of a primary-key table: raw ones first, then those to merge.

    With `alone_above` a key is live in only one file above level 0.
    """
    raw: list[DataFileMeta] = []
    to_merge: list[Section] = []
    files: Sequence[DataFileMeta] = bucket.files
    if alone_above:
        alone, files = _apart_from_level_0(files, keys)
        raw += [file for file in alone if matches(file)]
    for section in file_sections(files, keys):
        files = [f for run in section for f in run]
        kept = prune_section(files, matches, by_sequence=by_sequence, combines=combines)
        parts = (section,) if len(kept) == len(files) else file_sections(kept, keys)
        for part in parts:
            if len(part) == 1 and len(part[0]) == 1 and part[0][0].delete_row_count == 0:
                raw.append(part[0][0])
            else:
                to_merge.append(part)
    splits = raw_splits(bucket, tuple(raw), rule)
    for sections in pack_ordered(to_merge, rule.section_weight, target=rule.target_bytes):
        splits.append(bucket.split(tuple(sections), raw=False))
    return splits


def file_sections(files: Sequence[DataFileMeta], keys: FileKeys) -> tuple[Section, ...]:
    """All files of a bucket as sections in key order."""
    return tuple(
        tuple(tuple(files[position] for position in run) for run in section)
        for section in sections_of(keys.ranges_of(files))
    )


def files_meeting(
    files: Sequence[DataFileMeta], others: Sequence[DataFileMeta], keys: FileKeys
) -> list[DataFileMeta]:
    """The files whose key ranges meet that of one of the others."""
    meets = meets_any(keys.ranges_of(files), keys.ranges_of(others))
    return [file for file, is_met in zip(files, meets, strict=True) if is_met]


def _apart_from_level_0(
    files: Sequence[DataFileMeta], keys: FileKeys
) -> tuple[list[DataFileMeta], list[DataFileMeta]]:
    """The files above level 0, without deletes, that share no key with level 0; and the others."""
    files = list(files)
    new = [file for file in files if file.level == 0]
    meets = meets_any(keys.ranges_of(files), keys.ranges_of(new))
    alone: list[DataFileMeta] = []
    others: list[DataFileMeta] = []
    for file, shares in zip(files, meets, strict=True):
        is_alone = file.level > 0 and file.delete_row_count == 0 and not shares
        (alone if is_alone else others).append(file)
    return alone, others


def pack_ordered(items: Iterable[T], weight: Callable[[T], int], *, target: int) -> list[list[T]]:
    """Pack items into bins of at most `target`, keeping their order; a larger item gets its own.

    Examples
    --------
    >>> pack_ordered([3, 4, 9, 1, 1], lambda x: x, target=8)
    [[3, 4], [9], [1, 1]]
    """
    bins: list[list[T]] = []
    bin_weight = 0
    for item in items:
        item_weight = weight(item)
        if not bins or bin_weight + item_weight > target:
            bins.append([])
            bin_weight = 0
        bins[-1].append(item)
        bin_weight += item_weight
    return bins
