"""Divides a planned read between Spark's scan and the kernel's merge.

1. Raw splits: native, file by file. The kernel reads a file with a deletion vector.
2. A section with a single run has every key once and needs no merge: native. The scan leaves out
   its deletes by their kind.
3. A section whose oldest run is much larger than all newer ones (a compacted bucket with a few
   fresh commits): the large run is native, without the rows that the newer runs replace
   (:mod:`tidelake.spark.read.replaced_rows`). The newer runs are a section of their own.
4. Everything else: merged by the kernel.

Rule 3 requires that every row of the newer runs wins: engine deduplicate without sequence fields,
no ignored deletes, and every sequence number of the newer runs above all of the large run
(concurrent writers may break that). It suits reads of many rows and several columns, because a
Spark job of its own finds the replaced rows. CPU of 5 M rows under 2 % newer ones, six columns:
1.44 times that of a plain scan; the merge in Python took 1.71. For one column the merge costs less.

Tried and rejected: a broadcast anti-join that hides the keys of the newer runs. It took 1.4 to 1.6
times a plain scan for six columns and 2.6 for one; the merge in Python took 1.4 to 1.7 and 2.1. A
probe of the hash table costs 0.2 us a row, the broadcast half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelake.merge import MergeSpec
from tidelake.merge.spec import DEDUPLICATE
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan import ReadContext, Section, Split
from tidelake.spark.read.native_scan import NativeFiles, NativeGroup
from tidelake.spark.read.native_storage import NativeStorage
from tidelake.types import DataField

__all__ = ["NativeAndMerged", "native_and_merged"]


@dataclass(frozen=True, slots=True)
class MaskRule:
    """When Spark scans a large run under a mask of the rows that newer ones replace.

    Parameters
    ----------
    rows_min : int
        The fewest rows of a read's large runs together: below, a merge costs less than one more
        Spark job.
    rows_max : int
        The most such rows: each is a bit in the driver and in every task.
    times_newer_min : int
        How many times as many rows a large run must have as the newer runs together.
    files_max : int
        The most files of the large runs: each 16 need a scan.
    columns_min : int
        The fewest columns of a read: each saves its way from Python to the JVM, and the
        positions cost as much as two or three columns.
    """

    rows_min: int = 500_000
    rows_max: int = 1 << 28
    times_newer_min: int = 4
    files_max: int = 256
    columns_min: int = 4


@dataclass(frozen=True, slots=True)
class NativeAndMerged:
    """The two parts of a planned read.

    Parameters
    ----------
    native : list of NativeGroup
        Files that Spark scans.
    merged : list of Split
        For the kernel.
    """

    native: list[NativeGroup]
    merged: list[Split]


def native_and_merged(
    context: ReadContext,
    splits: Sequence[Split],
    fields: Sequence[DataField],
    *,
    case_sensitive: bool,
    storage: NativeStorage | None = None,
    rule: MaskRule | None = None,
) -> NativeAndMerged:
    """Give Spark the files of one plan that it can scan, and the kernel all others.

    Parameters
    ----------
    context : ReadContext
        The table.
    splits : sequence of Split
        Of one plan.
    fields : sequence of DataField
        The columns needed, including those of the predicate.
    case_sensitive : bool
        Whether the session distinguishes ``a`` from ``A``.
    storage : NativeStorage, optional
        What Spark does with the storage; else it reads local files alone.
    rule : MaskRule, optional
        When rule 3 applies.

    Notes
    -----
    Runs on the driver. Pure.
    """
    native = NativeFiles(context, fields, case_sensitive=case_sensitive, storage=storage)
    rule = rule or MaskRule()
    masked = frozenset[str]()
    if len(fields) >= rule.columns_min:
        masked = _files_to_mask(context, native, splits, rule)
    merged = [left for split in splits for left in _take(native, split, masked)]
    return NativeAndMerged(native.groups(), merged)


def _files_to_mask(
    context: ReadContext, native: NativeFiles, splits: Sequence[Split], rule: MaskRule
) -> frozenset[str]:
    """Names of the files of the large runs to which rule 3 applies."""
    if not context.schema.primary_keys:
        return frozenset()
    spec = MergeSpec.of(context.schema, context.options)
    if spec.engine != DEDUPLICATE or spec.sequence_columns or spec.ignore_delete:
        return frozenset()
    found = [
        section
        for split in splits
        if not split.raw
        for section in split.sections
        if _newer_wins(section, rule)
        and not split.deletions
        and all(native.readable(split, f, with_metadata=True) for f in section[0])
    ]
    files_count = sum(len(section[0]) for section in found)
    rows_count = sum(_rows_count(section[:1]) for section in found)
    if files_count > rule.files_max or not rule.rows_min <= rows_count <= rule.rows_max:
        return frozenset()
    return frozenset(f.file_name for section in found for f in section[0])


def _newer_wins(section: Section, rule: MaskRule) -> bool:
    """Whether the oldest run is large, and every newer run wins against it."""
    oldest, *newer = section
    return (
        bool(newer)
        and _rows_count([oldest]) >= rule.times_newer_min * _rows_count(newer)
        and max(f.max_sequence_number for f in oldest)
        < min(f.min_sequence_number for run in newer for f in run)
    )


def _rows_count(runs: Sequence[Sequence[DataFileMeta]]) -> int:
    return sum(f.row_count for run in runs for f in run)


def _take(native: NativeFiles, split: Split, masked: frozenset[str]) -> Iterator[Split]:
    """Give Spark the files of a split that it may scan; yield the rest for the kernel."""
    if split.raw:
        left = tuple(
            f
            for f in split.files
            if f.file_name in split.deletions or not native.readable(split, f)
        )
        for file in split.files:
            if file not in left:
                native.add(split, file)
        if left:
            yield split.part(((left,),))
        return
    rest: list[Section] = []
    for section in split.sections:
        above = section
        if section[0][0].file_name in masked:
            oldest, above = section[0], section[1:]
            for file in oldest:
                native.add_masked(split, file, above)
        if not _take_section(native, split, above):
            rest.append(above)
    if rest:
        yield split.part(tuple(rest))


def _take_section(native: NativeFiles, split: Split, section: Section) -> bool:
    if len(section) != 1:
        return False
    if any(f.file_name in split.deletions or not native.readable(split, f) for f in section[0]):
        return False
    for file in section[0]:
        native.add(split, file, live_only=file.delete_row_count != 0)
    return True
