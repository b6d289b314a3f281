"""Runs a picked compaction: merges files that overlap, lifts those that do not.

1. The picked files are cut into sections (:mod:`tidelake.merge.runs.sections`).
2. A section of several runs is merged. Neighbouring small files without overlap are joined too.
3. A larger file that overlaps nothing is **upgraded**: its metadata gets the new level and its
   bytes stay. The exception is a file with deletes that moves to the last level: it is rewritten,
   because nothing is left there for a delete to hide.
4. Merged rows stream into new files at the output level. No file is changed or deleted; the commit
   decides whether the new ones count.

Compactions of some tables track their changes (:class:`ChangeTracking`). Then a section with new
files is merged together with the rows of its keys beneath the picked runs
(:mod:`tidelake.store.lsm.lookup`), and the changes go into changelog files. A new file is only
lifted if its rows do not depend on those beneath; for the changelog it is read all the same.

With deletion vectors the rows found are deleted: the merged rows contain or replace them. So each
key has one row above level 0, and no delete is needed there.

If rows expire (:mod:`tidelake.store.lsm.expiry`), a file with expired rows is not lifted, and a
compaction with nothing beneath it leaves them out.

Source: Paimon's ``MergeTreeCompactTask`` and ``MergeTreeCompactRewriter`` (1.3.1). Memory: a batch
and the current pages of each run, within the share of a merge, and one row group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

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
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.data_file import DataFileMeta
from tidelake.store.lsm.compaction_picker import Pick
from tidelake.store.lsm.expiry import ExpiredRows
from tidelake.store.lsm.levels import SortedRun, key_range
from tidelake.store.lsm.lookup import FileRowMask, find_rows, found_run
from tidelake.store.lsm.read_file import BucketReader
from tidelake.store.rolling import RollingWriter, RowsOut
from tidelake.types import DataType

Section = tuple[tuple[DataFileMeta, ...], ...]
"""Runs, oldest first; the files of a run in key order."""

SMALL_FILE_SHARE = 0.7
"""A file below this share of the target size is small."""


@dataclass(frozen=True, slots=True)
class ChangeTracking:
    """The tracking of a compaction, besides merging.

    Parameters
    ----------
    new_below : int
        Files of lower levels are new: no compaction has read them yet.
    beneath : tuple of SortedRun
        The runs under the output level, in which new keys are looked up; newest first.
    lifts_new : bool
        Whether a new file may be lifted as it is: a merge with the rows beneath would give its
        rows.
    compared : tuple of str, optional
        An update that changes none of these columns is no change; None: every update is one.
    changelog : callable, optional
        Opens a writer of changelog files; None if no changelog is wanted.
    marks : bool
        Whether deletion vectors delete the rows found, so that no file above level 0 holds a
        delete.
    merges_found : bool
        Whether the merged rows or the changelog need the values of the rows found.
    """

    new_below: int
    beneath: tuple[SortedRun, ...]
    lifts_new: bool
    compared: tuple[str, ...] | None = None
    changelog: Callable[[], RollingWriter] | None = None
    marks: bool = False
    merges_found: bool = True

    def has_new(self, files: Iterable[DataFileMeta]) -> bool:
        """Whether some files are new."""
        return any(file.level < self.new_below for file in files)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A file that moves to the output level unchanged."""

    file: DataFileMeta


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Sections, in key order, to merge into new files."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files read."""
        return tuple(file for section in self.sections for run in section for file in run)


Step = Upgrade | Rewrite


@dataclass(frozen=True, slots=True)
class Compacted:
    """The replaced files, the new ones, and the rows to delete in other files."""

    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()
    marked: tuple[FileRowMask, ...] = ()


def plan(
    picked: Pick,
    key_types: Sequence[DataType],
    *,
    max_level: int,
    target_size_bytes: int,
    tracking: ChangeTracking | None = None,
    may_be_expired: Callable[[DataFileMeta], bool] | None = None,
) -> tuple[Step, ...]:
    """Decide file by file between merging and upgrading.

    Parameters
    ----------
    max_level : int
        The bucket's last level.
    may_be_expired : callable, optional
        Whether a file may have expired rows: it is then rewritten in any case.

    Returns
    -------
    tuple of Step
        In key order; without files that may stay as they are.
    """
    if picked.one_by_one:
        return tuple(Rewrite((((file,),),)) for file in picked.files)
    small_size_bytes = int(target_size_bytes * SMALL_FILE_SHARE)
    steps: list[Step] = []
    waiting: list[Section] = []

    def lift(file: DataFileMeta) -> None:
        expired = may_be_expired is not None and may_be_expired(file)
        if picked.rewrites_all or expired:
            steps.append(Rewrite((((file,),),)))
        else:
            steps.extend(_lift(file, picked.output_level, max_level, tracking))

    def settle() -> None:
        if len(waiting) == 1 and len(waiting[0]) == 1:
            for file in waiting[0][0]:
                lift(file)
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
                lift(file)
    settle()
    return tuple(steps)


def _lift(
    file: DataFileMeta, output_level: int, max_level: int, tracking: ChangeTracking | None
) -> tuple[Step, ...]:
    if file.level == output_level:
        return ()
    if output_level == max_level and file.delete_row_count != 0:  # unknown counts as some
        return (Rewrite((((file,),),)),)
    if tracking is not None and tracking.has_new([file]):
        keeps_deletes = not (tracking.marks and file.delete_row_count != 0)
        if not (tracking.lifts_new and keeps_deletes):
            return (Rewrite((((file,),),)),)
    return (Upgrade(file),)


def carry_out(
    reader: BucketReader,
    steps: Sequence[Step],
    picked: Pick,
    *,
    spec: MergeSpec,
    rolling: Callable[[], RowsOut],
    tracking: ChangeTracking | None = None,
    expired: ExpiredRows | None = None,
) -> Compacted:
    """Write the new files.

    Parameters
    ----------
    picked : Pick
        The output level, and whether deletes are dropped.
    rolling : callable
        Opens a writer of files at the output level.

    Returns
    -------
    Compacted
        Replaced and new files.

    Raises
    ------
    CorruptError
        A file to compact, or a deletion vector, is damaged or does not match its metadata; the
        message names it.
    """
    work = _Work(reader, picked, spec, tracking, expired)
    opens = None if tracking is None else tracking.changelog
    changelog = None if opens is None else opens()
    before: list[DataFileMeta] = []
    after: list[DataFileMeta] = []
    for step in steps:
        if isinstance(step, Upgrade):
            before.append(step.file)
            after.append(replace(step.file, level=picked.output_level))
            lifted: Section = ((step.file,),)
            if changelog is not None and work.is_tracked(lifted):
                for part in work.merge_tracked(lifted):
                    changelog.write(part.changes)
            elif tracking is not None and tracking.marks and work.is_tracked(lifted):
                work.mark(lifted)
            continue
        out = rolling()
        for section in step.sections:
            if not work.is_tracked(section):
                for rows in work.merge(section):
                    out.write(rows)
                continue
            for part in work.merge_tracked(section):
                out.write(part.rows)
                if changelog is not None:
                    changelog.write(part.changes)
        before.extend(step.files)
        after.extend(out.close())
    logged = changelog.close() if changelog is not None else ()
    return Compacted(tuple(before), tuple(after), tuple(logged), tuple(work.marked))


@dataclass(frozen=True, slots=True)
class _Work:
    """The merges of one compaction; `marked` are the rows found, to be deleted."""

    reader: BucketReader
    picked: Pick
    spec: MergeSpec
    tracking: ChangeTracking | None
    expired: ExpiredRows | None = None
    marked: list[FileRowMask] = field(default_factory=list)

    def is_tracked(self, section: Section) -> bool:
        """Whether a section has new files that must be tracked."""
        files = (file for run in section for file in run)
        return self.tracking is not None and self.tracking.has_new(files)

    def merge(self, section: Section) -> Iterator[pa.RecordBatch]:
        """The merged rows of a section."""
        runs = [(0, run) for run in section]
        if self.spec.looks_at_levels:
            runs = list(by_level(section, lambda file: file.level))
        context = self.reader.context
        return merge_bounded(
            [self._source(level, run, len(runs)) for level, run in runs],
            self.spec,
            memory=context.env.memory,
            spill_files=context.spill_files,
            drop_deletes=self.picked.drop_deletes,
            together=context.read_together,
        )

    def mark(self, section: Section) -> None:
        """Look up the rows that a section without a merge replaces."""
        for run in self._beneath:
            self._find(run, section)

    def merge_tracked(self, section: Section) -> Iterator[MergedRows]:
        """The merged rows of a section and its changes."""
        tracking = self.tracking
        assert tracking is not None, "changes are tracked"
        found = [(run.level, rows) for run in self._beneath if (rows := self._find(run, section))]
        # an expired first row stays the first until it is removed
        gone = None if self.spec.engine == FIRST_ROW else self.expired
        beneath = [
            _without(found_run(self.reader, rows, level=level, spec=self.spec), gone)
            for level, rows in found
        ]
        runs = list(by_level(section, lambda file: file.level))
        picked = [self._source(level, run, len(runs) + len(beneath)) for level, run in runs]
        context = self.reader.context
        return merge_bounded_with_changes(
            [*(beneath if tracking.merges_found else ()), *picked],
            self.spec,
            ChangeRule(
                tracking.new_below,
                self.picked.output_level + 1,
                tracking.compared,
                logged=tracking.changelog is not None,
            ),
            memory=context.env.memory,
            spill_files=context.spill_files,
            drop_deletes=self.picked.drop_deletes,
            together=context.read_together,
        )

    @property
    def _beneath(self) -> Iterator[SortedRun]:
        """The runs to search, oldest first."""
        return reversed(self.tracking.beneath if self.tracking is not None else ())

    def _find(self, run: SortedRun, section: Section) -> tuple[FileRowMask, ...]:
        """The rows of a run whose keys are in new files of a section; they are marked."""
        tracking = self.tracking
        assert tracking is not None, "nothing is looked up"
        new_runs = [[f for f in files if f.level < tracking.new_below] for files in section]
        found = find_rows(self.reader, run, [r for r in new_runs if r], spec=self.spec)
        if tracking.marks:
            self.marked.extend(found)
        return found

    def _source(self, level: int, files: Sequence[DataFileMeta], runs_count: int) -> RunSource:
        expired = self.expired if is_at_bottom(self.picked, self.tracking) else None
        return _without(self.reader.source(files, level=level, runs_count=runs_count), expired)


def is_at_bottom(picked: Pick, tracking: ChangeTracking | None) -> bool:
    """Whether no older rows lie beneath a compaction, so that leaving rows out shows none."""
    return picked.drop_deletes and not (tracking is not None and tracking.beneath)


def _without(source: RunSource, expired: ExpiredRows | None) -> RunSource:
    """A run without expired rows."""
    if expired is None:
        return source
    return replace(source, open=lambda size: _left(source.open(size), expired))


def _left(batches: Iterator[pa.RecordBatch], expired: ExpiredRows) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if (left := expired.left(batch)).num_rows:
            yield left
