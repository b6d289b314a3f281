"""Divides a planned read between Spark's scan and the kernel's merge.

1. Raw splits: native, file by file. A file with a deletion vector is native under a mask of it.
2. A section with a single run has every key once and needs no merge: native. The scan leaves out
   its deletes by their kind.
3. A section of several runs under engine deduplicate: its files are native, each under a mask of
   the rows that a merge would not give (:mod:`tidelake.scan.masks`).
4. Everything else: merged by the kernel.

The masks are computed once from keys, with sequence fields if they decide, and kept by the catalog.
If Spark cannot read a run (Avro on level 0), rule 3 takes the older runs, and the others are a
section of their own. That requires that newer runs win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelake.merge import MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan import ReadContext, Section, Split
from tidelake.scan.masks import SectionMasks, newest_run_wins
from tidelake.scan.split import Run
from tidelake.spark.read.native_scan import NativeFiles, NativeGroup
from tidelake.spark.read.native_storage import NativeStorage
from tidelake.types import DataField

__all__ = ["MASKED_ROWS_MAX", "FindMasks", "NativeAndMerged", "Part", "native_and_merged"]

MASKED_ROWS_MAX = 1 << 28
"""The most rows under masks in one read: each is a bit in the driver and in every task."""

Part: TypeAlias = tuple[Split, Section]
"""A section with its split."""
FindMasks: TypeAlias = Callable[[Sequence[Part]], Sequence[SectionMasks | None]]
"""Finds the masks of sections; None for those that must be merged."""


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
    find_masks: FindMasks | None = None,
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
    find_masks : callable, optional
        Finds masks; by default nothing is read under a mask.

    Notes
    -----
    Runs on the driver.
    """
    native = NativeFiles(context, fields, case_sensitive=case_sensitive, storage=storage)
    parts = [part for split in splits for part in _not_plain(native, split)]
    wanted = [] if find_masks is None else _maskable(context, native, parts)
    masks = find_masks(wanted) if find_masks is not None and wanted else []
    left = dict(zip(map(id, parts), parts, strict=True))
    for part, hidden in zip(wanted, masks, strict=True):
        if hidden is not None:
            split, section = part
            count = _readable_runs(context, native, part)
            left[id(part)] = (split, section[count:])
            for file in (f for run in section[:count] for f in run):
                native.add_masked(split, file, hidden.get(file.file_name))
    return NativeAndMerged(native.groups(), _joined(p for p in left.values() if p[1]))


def _not_plain(native: NativeFiles, split: Split) -> Iterator[Part]:
    """Give Spark the files that it may read as they are; yield the other sections."""
    for section in split.sections:
        if split.raw:
            yield from _not_plain_files(native, split, section[0])
        elif len(section) == 1 and all(_is_plain(native, split, file) for file in section[0]):
            for file in section[0]:
                native.add(split, file, live_only=file.delete_row_count != 0)
        else:
            yield split, section


def _not_plain_files(native: NativeFiles, split: Split, run: Run) -> Iterator[Part]:
    """The same for the files of a raw split, each of which stands alone."""
    of_kernel: list[DataFileMeta] = []
    with_vectors: list[DataFileMeta] = []
    for file in run:
        if _is_plain(native, split, file):
            native.add(split, file)
        elif native.readable(split, file, with_metadata=True):
            with_vectors.append(file)
        else:
            of_kernel.append(file)
    for files in (of_kernel, with_vectors):
        if files:
            yield split, (tuple(files),)


def _is_plain(native: NativeFiles, split: Split, file: DataFileMeta) -> bool:
    return file.file_name not in split.deletions and native.readable(split, file)


def _maskable(context: ReadContext, native: NativeFiles, parts: Sequence[Part]) -> list[Part]:
    """The sections that Spark can read under masks, up to the most rows of them."""
    found: list[Part] = []
    rows = 0
    for part in parts:
        runs = part[1][: _readable_runs(context, native, part)]
        count = sum(file.row_count for run in runs for file in run)
        if runs and rows + count <= MASKED_ROWS_MAX:
            found.append(part)
            rows += count
    return found


def _readable_runs(context: ReadContext, native: NativeFiles, part: Part) -> int:
    """How many of the oldest runs Spark reads under masks: all, or those that newer ones beat."""
    split, section = part
    unreadable = (
        number
        for number, run in enumerate(section)
        if not all(native.readable(split, file, with_metadata=True) for file in run)
    )
    count = next(unreadable, len(section))
    if count in {0, len(section)}:
        return count
    spec = MergeSpec.of(context.schema, context.options)
    return count if newest_run_wins(section, spec) else 0


def _joined(parts: Iterable[Part]) -> list[Split]:
    """Sections as splits again, those of one split together."""
    of_split: dict[int, tuple[Split, list[Section]]] = {}
    for split, section in parts:
        of_split.setdefault(id(split), (split, []))[1].append(section)
    return [
        split.part(((tuple(f for s in sections for f in s[0]),),) if split.raw else tuple(sections))
        for split, sections in of_split.values()
    ]
