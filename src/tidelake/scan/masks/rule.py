"""Which rows of a key a section shows, by the runs that have the key alone.

=========  ==========================================  ============================================
rule       holds                                       a row is hidden
=========  ==========================================  ============================================
``NEWEST`` engine deduplicate, the numbers of each     if a newer run has its key, or it retracts
           run are above those of all older runs
``OLDEST`` engine first-row, nothing retracts, runs    if an older run has its key
           ordered by level, then by their numbers
``LONE``   engines that combine the rows of a key      if another run has its key, or it retracts;
                                                       hidden rows are merged
``MERGE``  all else where a key has one of its rows    as the merge of the deciding columns says
=========  ==========================================  ============================================

A key with a single row has this row under every engine, so a section of one run only hides rows
that retract. What two jobs wrote to a bucket at the same time, ``sequence.field`` and ignored
deletes break the order of runs: then the merge decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from tidelake.merge import MergeSpec, by_level
from tidelake.merge.spec import FIRST_ROW
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.split import Run, Section
from tidelake.scan.system_columns import newer_run_by_run


class MaskRule(Enum):
    """How the rows that a section shows are found."""

    NEWEST = "newest"
    OLDEST = "oldest"
    LONE = "lone"
    MERGE = "merge"

    @property
    def hides_older(self) -> bool:
        """Whether a run hides rows of older runs."""
        return self in (MaskRule.NEWEST, MaskRule.LONE)

    @property
    def hides_newer(self) -> bool:
        """Whether a run hides rows of newer runs."""
        return self in (MaskRule.OLDEST, MaskRule.LONE)


def mask_rule(section: Section, spec: MergeSpec) -> MaskRule:
    """The rule of a section.

    Parameters
    ----------
    section : Section
        Its runs, oldest first.
    """
    if len(section) == 1:
        return MaskRule.NEWEST
    if spec.combines:
        return MaskRule.LONE
    has_deletes = any(f.delete_row_count != 0 for run in section for f in run)
    if spec.sequence_columns:
        return MaskRule.MERGE
    if spec.engine == FIRST_ROW:
        return MaskRule.MERGE if has_deletes or not _old_to_new(section) else MaskRule.OLDEST
    # a delete that is ignored would not replace the older row
    if spec.ignore_delete and has_deletes:
        return MaskRule.MERGE
    return MaskRule.NEWEST if newer_run_by_run(section) else MaskRule.MERGE


def ordered_runs(section: Section, spec: MergeSpec) -> Sequence[tuple[int, Run]]:
    """The runs in the order in which they count, oldest first, each with its level.

    Levels count under first-row, and where compactions look keys up; elsewhere they are 0.
    """
    if spec.looks_at_levels:
        return by_level(section, _level_of)
    return [(0, run) for run in section]


def masked_files(
    section: Section, rule: MaskRule, is_readable: Callable[[DataFileMeta], bool]
) -> tuple[DataFileMeta, ...]:
    """The files that a reader which reads not all of them may read under masks.

    The others are merged: those of newer runs by themselves, or what keys they share is merged.

    Parameters
    ----------
    section : Section
        Its runs, oldest first.
    is_readable : callable
        Whether the reader reads a file.
    """
    if rule is MaskRule.LONE:
        return tuple(f for run in section for f in run if is_readable(f))
    numbers = (n for n, run in enumerate(section) if not all(map(is_readable, run)))
    count = next(numbers, len(section))
    if count < len(section) and rule is not MaskRule.NEWEST:
        return ()
    return tuple(f for run in section[:count] for f in run)


def _level_of(file: DataFileMeta) -> int:
    return file.level


def _old_to_new(section: Section) -> bool:
    """Whether above level 0, and on level 0, the runs are newer one by one."""
    runs = by_level(section, _level_of)
    above = tuple(run for level, run in runs if level > 0)
    return newer_run_by_run(above) and newer_run_by_run(tuple(r for level, r in runs if not level))
