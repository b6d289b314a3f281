"""Divides a planned read between Spark's scan and the kernel's merge.

1. Raw splits: native, file by file. A file with a deletion vector is native under a mask of it.
2. A section with a single run has every key once and needs no merge: native. The scan leaves out
   its deletes by their kind.
3. A section of several runs: its files are native, each under a mask of the rows that a merge
   would not give (:mod:`tidelake.scan.masks`).
4. Of engines that combine rows a mask hides all rows of keys that several files have. These rows
   alone are merged by the kernel; if they are the most, all are.
5. Everything else: merged by the kernel. Of a table without keys these are rows whose columns lie
   in several files (:mod:`tidelake.scan.evolved_rows`).

The masks are computed once from keys, with sequence fields if they decide, and kept by the catalog.
If Spark cannot read a run (Avro on level 0), rule 3 takes the older runs where newer ones win, and
the others are a section of their own. Rule 4 takes any files, and merges the others whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelake.engine.scan import (
    MergedPart,
    ReadContext,
    Run,
    Section,
    SectionMasks,
    Split,
    mask_rule,
    masked_files,
)
from tidelake.engine.write import DataFileMeta, MergeSpec
from tidelake.spark.read.native_scan import NativeFiles, NativeGroup
from tidelake.spark.read.native_storage import NativeStorage
from tidelake.types import DataField

MASKED_ROWS_MAX = 1 << 28
"""The most rows under masks in one read: each is a bit in the driver and in every task."""
MERGED_SHARE_MAX = 0.5
"""The most rows of a section, of those that Spark could scan, that are merged apart from it."""

Part: TypeAlias = tuple[Split, Section]
"""A section with its split."""
FindMasks: TypeAlias = Callable[[Sequence[Part]], Sequence[SectionMasks | None]]
"""Finds the masks of sections; None for those that must be merged."""


@dataclass(frozen=True, slots=True)
class NativeAndMerged:
    """The two parts of a planned read.

    Parameters
    ----------
    parts : list of MergedPart
        For the kernel: rows of sections whose other rows Spark scans.
    """

    native: list[NativeGroup]
    merged: list[Split]
    parts: list[MergedPart] = field(default_factory=list)


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
    has_keys = bool(context.schema.primary_keys)
    evolved = [split for split in splits if not (split.raw or has_keys)]
    plain = [split for split in splits if split.raw or has_keys]
    parts = [part for split in plain for part in _not_plain(native, split)]
    wanted = [] if find_masks is None else _maskable(context, native, parts)
    masks = find_masks([part for part, _ in wanted]) if find_masks is not None and wanted else []
    left = dict(zip(map(id, parts), parts, strict=True))
    of_rows: list[MergedPart] = []
    for (part, files), own in zip(wanted, masks, strict=True):
        if own is None or _merged_count(own, files) > MERGED_SHARE_MAX * _rows(files):
            continue
        split, section = part
        for file in files:
            native.add_masked(split, file, own.hidden.get(file.file_name))
        names = {file.file_name for file in files}
        if own.merged:
            whole = {f.file_name for run in section for f in run} - names
            found = MergedPart.of(split, section, own, whole)
            of_rows += [found] if found is not None else []
            section = ()
        left[id(part)] = (split, _without(section, names))
    merged = [*_joined(part for part in left.values() if part[1]), *evolved]
    return NativeAndMerged(native.groups(), merged, of_rows)


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


def _maskable(
    context: ReadContext, native: NativeFiles, parts: Sequence[Part]
) -> list[tuple[Part, tuple[DataFileMeta, ...]]]:
    """The sections that Spark can read under masks, up to the most rows; with the files."""
    found: list[tuple[Part, tuple[DataFileMeta, ...]]] = []
    rows = 0
    for part in parts:
        files = _readable_files(context, native, part)
        count = _rows(files)
        if files and rows + count <= MASKED_ROWS_MAX:
            found.append((part, files))
            rows += count
    return found


def _readable_files(
    context: ReadContext, native: NativeFiles, part: Part
) -> tuple[DataFileMeta, ...]:
    """The files that Spark reads under masks: all, or those that the others leave to it."""
    split, section = part
    readable = {
        f.file_name: native.readable(split, f, with_metadata=True) for run in section for f in run
    }
    if all(readable.values()):
        return tuple(f for run in section for f in run)
    if split.raw or not any(readable.values()):
        return ()
    rule = mask_rule(section, MergeSpec.of(context.schema, context.options))
    return masked_files(section, rule, lambda file: readable[file.file_name])


def _merged_count(masks: SectionMasks, files: Iterable[DataFileMeta]) -> int:
    """How many rows of the files are merged."""
    rows = (masks.merged.get(file.file_name) for file in files)
    return sum(own.hidden_count for own in rows if own is not None)


def _rows(files: Iterable[DataFileMeta]) -> int:
    return sum(file.row_count for file in files)


def _without(section: Section, names: Collection[str]) -> Section:
    """The other files of a section."""
    runs = (tuple(f for f in run if f.file_name not in names) for run in section)
    return tuple(run for run in runs if run)


def _joined(parts: Iterable[Part]) -> list[Split]:
    """Sections as splits again, those of one split together."""
    of_split: dict[int, tuple[Split, list[Section]]] = {}
    for split, section in parts:
        of_split.setdefault(id(split), (split, []))[1].append(section)
    return [
        split.part(((tuple(f for s in sections for f in s[0]),),) if split.raw else tuple(sections))
        for split, sections in of_split.values()
    ]
