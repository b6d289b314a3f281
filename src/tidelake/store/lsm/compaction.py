"""Carries out a picked compaction: merges what overlaps, lifts what does not.

1. The picked files are cut into sections (:mod:`tidelake.merge.sections`).
2. A section of several runs is merged. So are neighbouring small files without overlap: they
   become one.
3. A larger file that overlaps nothing is **upgraded**: its metadata says the new level and its
   bytes stay. The exception is a file with deletes on its way to the last level: it is rewritten,
   for nothing is left there that a delete could hide.
4. Merged rows stream into new files at the output level. No file is changed or deleted; the commit
   decides whether the new ones count.

Source: Paimon's ``MergeTreeCompactTask`` and ``MergeTreeCompactRewriter`` (1.3.1). Memory: of
each run a batch and the pages it is read from, within the share of a merge, and one row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidelake.format import held_bytes, orc_zone_moves, read_batches
from tidelake.merge import MergeSpec, RunSource, merge_bounded, sections_of
from tidelake.metadata.data_file import DataFileMeta
from tidelake.store.context import StoreContext
from tidelake.store.lsm.keyed_file import row_fields
from tidelake.store.lsm.levels import key_range
from tidelake.store.lsm.pick import Pick
from tidelake.store.rolling import RollingWriter
from tidelake.types import DataType

__all__ = ["Compacted", "Rewrite", "Step", "Upgrade", "carry_out", "plan"]

Section = tuple[tuple[DataFileMeta, ...], ...]
"""Runs, oldest first; the files of a run in key order."""

SMALL_FILE_SHARE = 0.7
"""A file below this share of the target size is small."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A file that goes to the output level as it is."""

    file: DataFileMeta


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Sections, in key order, that are merged into new files."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files read."""
        return tuple(file for section in self.sections for run in section for file in run)


Step = Upgrade | Rewrite


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction replaced, and by what."""

    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]


def plan(
    picked: Pick,
    key_types: Sequence[DataType],
    *,
    max_level: int,
    target_size_bytes: int,
) -> tuple[Step, ...]:
    """Decide file by file between merging and upgrading.

    Parameters
    ----------
    picked : Pick
        What to compact.
    key_types : sequence of DataType
        Types of the trimmed primary key.
    max_level : int
        The bucket's last level.
    target_size_bytes : int
        Size that files are made of.

    Returns
    -------
    tuple of Step
        In key order; files that may stay as they are do not occur.
    """
    small_size_bytes = int(target_size_bytes * SMALL_FILE_SHARE)
    steps: list[Step] = []
    waiting: list[Section] = []

    def settle() -> None:
        if len(waiting) == 1 and len(waiting[0]) == 1:
            for file in waiting[0][0]:
                steps.extend(_lift(file, picked.output_level, max_level))
        elif waiting:
            steps.append(Rewrite(tuple(waiting)))
        waiting.clear()

    ranges = [key_range(file, key_types) for file in picked.files]
    for positions in sections_of(ranges):
        section = tuple(tuple(picked.files[p] for p in run) for run in positions)
        if len(section) > 1:
            waiting.append(section)
            continue
        for file in section[0]:
            if file.file_size_bytes < small_size_bytes:
                waiting.append(((file,),))
            else:
                settle()
                steps.extend(_lift(file, picked.output_level, max_level))
    settle()
    return tuple(steps)


def _lift(file: DataFileMeta, output_level: int, max_level: int) -> tuple[Step, ...]:
    if file.level == output_level:
        return ()
    if output_level == max_level and file.delete_row_count != 0:  # unknown counts as some
        return (Rewrite((((file,),),)),)
    return (Upgrade(file),)


def carry_out(
    context: StoreContext,
    steps: Sequence[Step],
    picked: Pick,
    *,
    spec: MergeSpec,
    path_of: Callable[[DataFileMeta], str],
    rolling: Callable[[], RollingWriter],
) -> Compacted:
    """Write the new files.

    Parameters
    ----------
    context : StoreContext
        The table.
    steps : sequence of Step
        From :func:`plan`.
    picked : Pick
        The output level, and whether deletes are dropped.
    spec : MergeSpec
        How rows of one key become one.
    path_of : callable
        A file's path.
    rolling : callable
        Opens a writer of files at the output level.

    Returns
    -------
    Compacted
        Files to replace and their replacement.

    Raises
    ------
    CorruptError
        A file to compact is damaged or not what its metadata says; it is named.
    """
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    for step in steps:
        if isinstance(step, Upgrade):
            before.append(step.file)
            after.append(replace(step.file, level=picked.output_level))
            continue
        out = rolling()
        for section in step.sections:
            merged = merge_bounded(
                [_source(context, run, path_of) for run in section],
                spec,
                memory=context.env.memory,
                spill_files=context.spill_files,
                drop_deletes=picked.drop_deletes,
            )
            for rows in merged:
                out.write(rows)
        before.extend(step.files)
        after.extend(out.close())
    return Compacted(tuple(before), tuple(after))


def _source(
    context: StoreContext, files: Sequence[DataFileMeta], path_of: Callable[[DataFileMeta], str]
) -> RunSource:
    fields = row_fields(context.schema)
    held = (
        held_bytes(f.file_name, fields, file_size_bytes=f.file_size_bytes, row_count=f.row_count)
        for f in files
    )
    return RunSource(
        lambda batch_bytes: _run_batches(context, files, path_of, batch_bytes),
        size_bytes=sum(f.file_size_bytes for f in files),
        held_bytes=max(held),
    )


def _run_batches(
    context: StoreContext,
    files: Sequence[DataFileMeta],
    path_of: Callable[[DataFileMeta], str],
    batch_bytes: int,
) -> Iterator[pa.RecordBatch]:
    fields = row_fields(context.schema)
    for file in files:
        yield from read_batches(
            context.fileio,
            path_of(file),
            fields,
            file_fields=context.file_fields(file),
            file_size_bytes=file.file_size_bytes,
            row_count=file.row_count,
            batch_bytes=batch_bytes,
            zone=context.env.zone,
            orc_zone_moves=orc_zone_moves(context.options),
        )
