"""Which sorted runs to compact, and into which level: the universal strategy, without any IO.

With R runs from the newest to the oldest, the first rule that applies decides:

1. *Full*, if asked: all runs, unless there is one and it is on the last level.
2. *Size amplification*: R >= trigger and all runs but the oldest together hold more than
   ``compaction.max-size-amplification-percent`` of the oldest: all runs.
3. *Size ratio*: R >= trigger: take the newest run and go on as long as what is taken, grown by
   ``compaction.size-ratio`` percent, is not smaller than the next run. One run is no pick.
4. *Run count*: R > trigger: the same, beginning with the R - trigger + 1 newest runs.

5. *Level 0*, if it must be empty after each write (lookups, deletion vectors): all its runs, and
   older ones by the rule of size ratio.

The picked runs go to the level above the next run's. Level 0 is no target: where it would be, more
runs are taken up to and with the first that is not of level 0, and its level is the target. If all
runs are taken the target is the last level.

Deletes may be dropped if the target is at least the oldest level in use: nothing older lies
beneath. So they may where deletion vectors take what lies beneath away.

A full pick of what is one run on the last level already takes the files of it with a deletion
vector, each to be written anew by itself.

Source: Paimon's ``UniversalCompaction`` and ``MergeTreeCompactManager`` (1.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelake.metadata.data_file import DataFileMeta
from tidelake.options import Options
from tidelake.options.declared import (
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_SIZE_RATIO,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
)
from tidelake.store.lsm.levels import Levels, SortedRun

__all__ = ["CompactionPolicy", "Pick", "pick"]


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When runs are worth compacting.

    Parameters
    ----------
    runs_trigger : int
        Sorted runs from which on a compaction is looked for; larger = fewer writes, slower reads.
    size_amplification_percent_max : int
        How much newer data may lie over the oldest run before all is rewritten.
    size_ratio_percent : int
        How much larger than what is picked the next run may be to be picked too.
    deletes_need_all : bool
        Whether a compaction with rows that retract takes all older runs along
        (:attr:`tidelake.merge.MergeSpec.deletes_need_all`).
    empties_level_0 : bool
        Whether runs of level 0 are always worth a compaction.
    drops_deletes : bool
        Whether a delete never has to stay: what it deletes is marked in a deletion vector.
    """

    runs_trigger: int = 5
    size_amplification_percent_max: int = 200
    size_ratio_percent: int = 1
    deletes_need_all: bool = False
    empties_level_0: bool = False
    drops_deletes: bool = False

    @classmethod
    def of(
        cls,
        options: Options,
        *,
        deletes_need_all: bool = False,
        empties_level_0: bool = False,
        drops_deletes: bool = False,
    ) -> CompactionPolicy:
        """Take the policy of a table's options."""
        return cls(
            runs_trigger=options.get(NUM_SORTED_RUN_COMPACTION_TRIGGER),
            size_amplification_percent_max=options.get(COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT),
            size_ratio_percent=options.get(COMPACTION_SIZE_RATIO),
            deletes_need_all=deletes_need_all,
            empties_level_0=empties_level_0 or options.get(COMPACTION_FORCE_UP_LEVEL_0),
            drops_deletes=drops_deletes,
        )


@dataclass(frozen=True, slots=True)
class Pick:
    """What to compact.

    Parameters
    ----------
    files : tuple of DataFileMeta
        The files of the picked runs.
    output_level : int
        Where the result goes, never 0.
    drop_deletes : bool
        Whether no older row of any key can lie beneath the result.
    one_by_one : bool
        Whether each file is written anew by itself.
    """

    files: tuple[DataFileMeta, ...]
    output_level: int
    drop_deletes: bool
    one_by_one: bool = False


def pick(
    levels: Levels,
    policy: CompactionPolicy,
    *,
    full: bool = False,
    is_worn: Callable[[DataFileMeta], bool] = lambda _: False,
) -> Pick | None:
    """Choose a compaction.

    Parameters
    ----------
    levels : Levels
        The bucket's files.
    policy : CompactionPolicy
        When to compact.
    full : bool
        Whether everything is to become one run.
    is_worn : callable
        Whether rows of a file are gone: deleted by a deletion vector, or expired.

    Returns
    -------
    Pick or None
        None where nothing is worth doing.
    """
    runs = levels.runs
    if full:
        if not runs:
            return None
        if len(runs) == 1 and runs[0].level == levels.max_level:
            worn = tuple(filter(is_worn, runs[0].files))
            last = levels.max_level
            return Pick(worn, last, drop_deletes=True, one_by_one=True) if worn else None
        return _to_level(levels, runs, len(runs), policy)
    taken = _count(runs, policy)
    if taken == 0 and policy.empties_level_0:
        newest = sum(run.level == 0 for run in runs)
        taken = _grown(runs, newest, policy) if newest else 0
    if taken == 0:
        return None
    chosen = _to_level(levels, runs, taken, policy)
    retracts = any(file.delete_row_count != 0 for file in chosen.files)
    if policy.deletes_need_all and retracts and not chosen.drop_deletes:
        chosen = _to_level(levels, runs, len(runs), policy)
    if len(chosen.files) == 1 and chosen.files[0].level == chosen.output_level:
        return None
    return chosen


def _count(runs: Sequence[SortedRun], policy: CompactionPolicy) -> int:
    """How many of the newest runs to take; 0 for none."""
    if len(runs) < policy.runs_trigger:
        return 0
    newer = sum(run.size_bytes for run in runs[:-1])
    if newer * 100 > policy.size_amplification_percent_max * runs[-1].size_bytes:
        return len(runs)
    taken = _grown(runs, 1, policy)
    if taken > 1:
        return taken
    if len(runs) > policy.runs_trigger:
        taken = _grown(runs, len(runs) - policy.runs_trigger + 1, policy)
        return taken if taken > 1 else 0
    return 0


def _grown(runs: Sequence[SortedRun], taken: int, policy: CompactionPolicy) -> int:
    """Take further runs while they are not much larger than all that is taken."""
    size_bytes = sum(run.size_bytes for run in runs[:taken])
    for run in runs[taken:]:
        if size_bytes * (100 + policy.size_ratio_percent) < run.size_bytes * 100:
            break
        size_bytes += run.size_bytes
        taken += 1
    return taken


def _to_level(
    levels: Levels, runs: Sequence[SortedRun], taken: int, policy: CompactionPolicy
) -> Pick:
    """Find the output level, and take more runs where that would be level 0."""
    output = levels.max_level if taken == len(runs) else max(0, runs[taken].level - 1)
    while output == 0 and taken < len(runs):
        output = runs[taken].level
        taken += 1
    if taken == len(runs):
        output = levels.max_level
    files = tuple(file for run in runs[:taken] for file in run.files)
    nothing_beneath = policy.drops_deletes or output >= levels.highest_level
    return Pick(files, output, drop_deletes=output > 0 and nothing_beneath)
