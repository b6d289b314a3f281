"""Picks files that are sorted by clustering columns, to be sorted again together. Without any IO.

Above level 0 of a table with ``pk-clustering-override`` every key is live in one file, so any files
may become one. It pays where they overlap in the clustering columns: a filter opens all of them.

1. By these columns the files are cut into sections and stacked into runs
   (:mod:`tidelake.merge.runs.sections`), as those of other tables are by keys.
2. The runs of a section are taken from the newest on by the rules of the universal strategy: size
   amplification, size ratio, number of runs (:mod:`tidelake.store.lsm.compaction_picker`). Parts
   of a run that overlap nothing taken are left.
3. Small files beside each other are joined once there are as many as the trigger says.

A full compaction takes all files, unless none overlaps another, none has rows to leave out, and one
at most is small. So does any compaction by ``compaction.total-size-threshold`` and
``compaction.optimization-interval``.

Files that share no more than a bound of theirs do not overlap: a value that fills several files, or
ends one and begins the next, stays where it is.

Paimon 2 takes each section of two files or more with every compaction, and so rewrites most of a
bucket with each write where the columns do not follow the time of writing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tidelake.merge import FileKeys, sections_of
from tidelake.merge.runs.sections import KeyRange, meets_any
from tidelake.metadata.data_file import DataFileMeta
from tidelake.store.lsm.compaction_picker import CompactionPolicy, runs_due, runs_worth_it
from tidelake.store.lsm.levels import Levels, SortedRun

SMALL_SHARE = 0.5
"""A section below this share of the target size is small, as in Paimon."""

Group = tuple[DataFileMeta, ...]


def pick_groups(
    files: Sequence[DataFileMeta],
    order: FileKeys,
    policy: CompactionPolicy,
    *,
    target_size_bytes: int,
    full: bool = False,
    now_ms: int = 0,
    needs_rewrite: Callable[[DataFileMeta], bool] = lambda _: False,
) -> tuple[Group, ...]:
    """Choose groups of files that become one sorted run each.

    Parameters
    ----------
    files : sequence of DataFileMeta
        The files above level 0 of one bucket.
    order : FileKeys
        The clustering columns.
    full, now_ms, needs_rewrite
        As of :func:`~tidelake.store.lsm.compaction_picker.pick`.
    """
    if not files:
        return ()
    ranges = _without_bounds(order.ranges_of(files))
    range_of = {file.file_name: one for file, one in zip(files, ranges, strict=True)}
    sections = [
        [tuple(files[p] for p in run) for run in section] for section in sections_of(ranges)
    ]
    small_bytes = int(target_size_bytes * SMALL_SHARE)
    levels = Levels.of(files, count=2)
    alone = [SortedRun(1, (file,)) for file in files]
    if full or runs_due(levels, alone, policy, now_ms):
        small = sum(f.file_size_bytes < small_bytes for f in files)
        overlaps = any(len(section) > 1 for section in sections)
        if overlaps or small > 1 or (full and policy.rewrites_all):
            return (tuple(files),)
        return tuple((f,) for f in files if needs_rewrite(f)) if full else ()
    groups: list[Group] = []
    pending: list[DataFileMeta] = []

    def settle() -> None:
        if len(pending) >= policy.runs_trigger:
            groups.append(tuple(pending))
        pending.clear()

    for section in sections:
        newest_first = [SortedRun(1, run) for run in reversed(section)]
        taken = runs_worth_it(newest_first, policy, now_ms)
        if taken:
            groups.append(_touching([run.files for run in newest_first[:taken]], range_of))
        elif len(section) == 1 and newest_first[0].size_bytes < small_bytes:
            pending += section[0]
            continue
        settle()
    settle()
    return tuple(groups)


def _without_bounds(ranges: Sequence[KeyRange]) -> tuple[KeyRange, ...]:
    """The ranges so that two which only touch do not overlap.

    A range of one value becomes a point of its own at that value; any other begins behind all
    points of its first value and ends before those of its last.
    """
    inside = []
    for number, one in enumerate(ranges):
        if one.min_key == one.max_key:
            low = high = (*one.min_key, (1, 1), (1, number))
        else:
            low, high = (*one.min_key, (1, 2)), (*one.max_key, (1, 0))
        inside.append(replace(one, min_key=low, max_key=high))
    return tuple(inside)


def _touching(runs: Sequence[Group], range_of: Mapping[str, KeyRange]) -> Group:
    """The files of some runs that overlap one of another run, or are in all but the oldest."""
    *newer, oldest = runs
    new = [file for run in newer for file in run]
    of_new, of_old = ([range_of[file.file_name] for file in run] for run in (new, oldest))
    meets = meets_any(of_old, of_new)
    return (*new, *(file for file, is_met in zip(oldest, meets, strict=True) if is_met))
