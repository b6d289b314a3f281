"""Carries out a picked compaction: merges what overlaps, lifts what does not.

1. The picked files are cut into sections (:mod:`tidelake.merge.sections`).
2. A section of several runs is merged. So are neighbouring small files without overlap: they
   become one.
3. A larger file that overlaps nothing is **upgraded**: its metadata says the new level and its
   bytes stay. The exception is a file with deletes on its way to the last level: it is rewritten,
   for nothing is left there that a delete could hide.
4. Merged rows stream into new files at the output level. No file is changed or deleted; the commit
   decides whether the new ones count.

Some tables follow what a compaction changes (:class:`Follow`). Then a section with new files is
merged together with the rows that lie beneath the picked runs and have a key of them
(:mod:`tidelake.store.lsm.lookup`), and what changes goes into changelog files. A new file is only
lifted where its rows do not depend on those beneath; it is read all the same for the changelog.

Source: Paimon's ``MergeTreeCompactTask`` and ``MergeTreeCompactRewriter`` (1.3.1). Memory: of
each run a batch and the pages it is read from, within the share of a merge, and one row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidelake.format import held_bytes
from tidelake.merge import (
    ChangeRule,
    MergedRows,
    MergeSpec,
    RunSource,
    by_level,
    merge_bounded,
    merge_bounded_with_changes,
    sections_of,
)
from tidelake.metadata.data_file import DataFileMeta
from tidelake.store.context import StoreContext
from tidelake.store.lsm.keyed_file import row_fields
from tidelake.store.lsm.levels import SortedRun, key_range
from tidelake.store.lsm.lookup import FoundRows, find_rows, found_run
from tidelake.store.lsm.pick import Pick
from tidelake.store.lsm.read_file import file_batches
from tidelake.store.rolling import RollingWriter
from tidelake.types import DataType

__all__ = ["Compacted", "Follow", "Rewrite", "Step", "Upgrade", "carry_out", "plan"]

Section = tuple[tuple[DataFileMeta, ...], ...]
"""Runs, oldest first; the files of a run in key order."""

SMALL_FILE_SHARE = 0.7
"""A file below this share of the target size is small."""


@dataclass(frozen=True, slots=True)
class Follow:
    """What a compaction does beside merging.

    Parameters
    ----------
    new_below : int
        Files of lower levels are new: no compaction has looked at them yet.
    beneath : tuple of SortedRun
        The runs under the output level, where rows of new keys are looked up; newest first.
    lifts_new : bool
        Whether a new file may be lifted as it is: its rows are what a merge with those beneath
        would make of them.
    compared : tuple of str, optional
        An update that changes none of these columns is no change; None: every update is one.
    changelog : callable, optional
        Opens a writer of changelog files; None where no changelog is wanted.
    """

    new_below: int
    beneath: tuple[SortedRun, ...]
    lifts_new: bool
    compared: tuple[str, ...] | None = None
    changelog: Callable[[], RollingWriter] | None = None

    def has_new(self, files: Iterable[DataFileMeta]) -> bool:
        """Whether some files are new."""
        return any(file.level < self.new_below for file in files)


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
    changelog: tuple[DataFileMeta, ...] = ()


def plan(
    picked: Pick,
    key_types: Sequence[DataType],
    *,
    max_level: int,
    target_size_bytes: int,
    follow: Follow | None = None,
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
    follow : Follow, optional
        What is done beside merging.

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
                steps.extend(_lift(file, picked.output_level, max_level, follow))
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
                steps.extend(_lift(file, picked.output_level, max_level, follow))
    settle()
    return tuple(steps)


def _lift(
    file: DataFileMeta, output_level: int, max_level: int, follow: Follow | None
) -> tuple[Step, ...]:
    if file.level == output_level:
        return ()
    if output_level == max_level and file.delete_row_count != 0:  # unknown counts as some
        return (Rewrite((((file,),),)),)
    if follow is not None and follow.has_new([file]) and not follow.lifts_new:
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
    follow: Follow | None = None,
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
    follow : Follow, optional
        What is done beside merging, as :func:`plan` was told.

    Returns
    -------
    Compacted
        Files to replace and their replacement.

    Raises
    ------
    CorruptError
        A file to compact is damaged or not what its metadata says; it is named.
    """
    work = _Work(context, picked, spec, path_of, follow)
    changelog = follow.changelog() if follow is not None and follow.changelog is not None else None
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    for step in steps:
        if isinstance(step, Upgrade):
            before.append(step.file)
            after.append(replace(step.file, level=picked.output_level))
            if changelog is not None and work.is_followed(((step.file,),)):
                for part in work.merge_followed(((step.file,),)):
                    changelog.write(part.changes)
            continue
        out = rolling()
        for section in step.sections:
            if not work.is_followed(section):
                for rows in work.merge(section):
                    out.write(rows)
                continue
            for part in work.merge_followed(section):
                out.write(part.rows)
                if changelog is not None:
                    changelog.write(part.changes)
        before.extend(step.files)
        after.extend(out.close())
    logged = changelog.close() if changelog is not None else ()
    return Compacted(tuple(before), tuple(after), tuple(logged))


@dataclass(frozen=True, slots=True)
class _Work:
    """The merges of one compaction."""

    context: StoreContext
    picked: Pick
    spec: MergeSpec
    path_of: Callable[[DataFileMeta], str]
    follow: Follow | None

    def is_followed(self, section: Section) -> bool:
        """Whether a section has new files, and it matters."""
        return self.follow is not None and self.follow.has_new(f for run in section for f in run)

    def merge(self, section: Section) -> Iterator[pa.RecordBatch]:
        """The merged rows of a section."""
        runs = [(0, run) for run in section]
        if self.spec.by_lookup:
            runs = list(by_level(section, lambda file: file.level))
        return merge_bounded(
            [self._source(level, run) for level, run in runs],
            self.spec,
            memory=self.context.env.memory,
            spill_files=self.context.spill_files,
            drop_deletes=self.picked.drop_deletes,
        )

    def merge_followed(self, section: Section) -> Iterator[MergedRows]:
        """The merged rows of a section and what changes by them."""
        follow = self.follow
        assert follow is not None, "somebody asked for changes"
        new_files = [f for run in section for f in run if f.level < follow.new_below]
        beneath = [
            found_run(self.context, found, level=run.level, path_of=self.path_of)
            for run in reversed(follow.beneath)
            if (found := self._find(run, new_files))
        ]
        picked = [
            self._source(level, run) for level, run in by_level(section, lambda file: file.level)
        ]
        return merge_bounded_with_changes(
            [*beneath, *picked],
            self.spec,
            ChangeRule(
                follow.new_below,
                self.picked.output_level + 1,
                follow.compared,
                told=follow.changelog is not None,
            ),
            memory=self.context.env.memory,
            spill_files=self.context.spill_files,
            drop_deletes=self.picked.drop_deletes,
        )

    def _find(self, run: SortedRun, new_files: Sequence[DataFileMeta]) -> tuple[FoundRows, ...]:
        return find_rows(self.context, run, new_files, spec=self.spec, path_of=self.path_of)

    def _source(self, level: int, files: Sequence[DataFileMeta]) -> RunSource:
        context, path_of, fields = self.context, self.path_of, row_fields(self.context.schema)
        held = (
            held_bytes(
                f.file_name, fields, file_size_bytes=f.file_size_bytes, row_count=f.row_count
            )
            for f in files
        )
        return RunSource(
            lambda batch_bytes: file_batches(context, files, path_of, fields, batch_bytes),
            size_bytes=sum(f.file_size_bytes for f in files),
            held_bytes=max(held),
            level=level,
        )
