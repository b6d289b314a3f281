"""Picks sorted runs to compact, and their output level: the universal strategy, without any IO.

With R runs from the newest to the oldest, the first rule that applies decides:

1. *Full*, if asked: all runs, unless there is one and it is on the last level. With
   ``compaction.force-rewrite-all-files`` that one too.
2. *All of it*, R >= 2: all runs if together they are smaller than
   ``compaction.total-size-threshold``, or if the last level was not written for longer than
   ``compaction.optimization-interval``.
3. *Size amplification*: R >= trigger and all runs but the oldest together hold more than
   ``compaction.max-size-amplification-percent`` of the oldest: all runs.
4. *Size ratio*: R >= trigger: take the newest run, and further runs while the taken size, grown by
   ``compaction.size-ratio`` percent, is not smaller than the next run. One run is no pick. In the
   hours from ``compaction.offpeak.start.hour`` to ``...end.hour`` the percentage grows by
   ``compaction.offpeak-ratio``.
5. *Run count*: R > trigger: the same, beginning with the R - trigger + 1 newest runs.

6. *Level 0*, if it must not grow (lookups, deletion vectors, ``compaction.force-up-level-0``): all
   its runs, and older ones by the rule of size ratio. With ``lookup-compact = gentle`` only from
   ``lookup-compact.max-interval`` runs of level 0 on.

The picked runs go to the level above the next run's. If that would be level 0, further runs are
taken up to and with the first that is not of level 0, and its level is the target. If all runs are
taken the target is the last level.

Deletes may be dropped if the target is at least the oldest level in use, because nothing older is
beneath, or if deletion vectors delete the rows beneath.

If everything already is one run on the last level, a full pick takes its files with a deletion
vector and rewrites each separately.

Source: Paimon's ``UniversalCompaction``, ``FullCompactTrigger``, ``OffPeakHours``,
``ForceUpLevel0Compaction`` and ``MergeTreeCompactManager`` (1.3.1). Java's trigger and its gentle
interval remember their last use in the writer's process. Here the files record it (when the last
level was written, how many runs level 0 has), so the writer does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidelake.metadata.data_file import DataFileMeta
from tidelake.options import Options
from tidelake.options.declared import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_OFFPEAK_END_HOUR,
    COMPACTION_OFFPEAK_RATIO,
    COMPACTION_OFFPEAK_START_HOUR,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_SIZE_RATIO,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_MAX_INTERVAL,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
)
from tidelake.store.lsm.levels import Levels, SortedRun

HOUR_MS = 3_600_000
HOURS_OF_A_DAY = 24
GENTLE = "GENTLE"


@dataclass(frozen=True, slots=True)
class OffPeak:
    """Hours of the day in which more is compacted.

    Parameters
    ----------
    start_hour, end_hour : int
        From 0 to 23, without the end; the end may be after midnight.

    Examples
    --------
    >>> night = OffPeak(22, 6, 20)
    >>> [night.ratio_at(hour * HOUR_MS) for hour in (21, 22, 24 + 5, 24 + 6)]
    [0, 20, 20, 0]
    """

    start_hour: int
    end_hour: int
    ratio_percent: int

    def ratio_at(self, now_ms: int) -> int:
        """The addition at a time of the local wall clock."""
        hour = now_ms // HOUR_MS % HOURS_OF_A_DAY
        if self.start_hour <= self.end_hour:
            inside = self.start_hour <= hour < self.end_hour
        else:
            inside = hour < self.end_hour or hour >= self.start_hour
        return self.ratio_percent if inside else 0


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When runs are worth compacting.

    Parameters
    ----------
    runs_trigger : int
        Sorted runs from which on a compaction is considered; larger = fewer writes, slower reads.
    size_amplification_percent_max : int
        How much newer data may lie over the oldest run before all is rewritten.
    size_ratio_percent : int
        How much larger than the picked runs the next run may be to be picked too.
    deletes_need_all : bool
        Whether a compaction with rows that retract includes all older runs
        (:attr:`tidelake.merge.MergeSpec.deletes_need_all`).
    empties_level_0 : bool
        Whether runs of level 0 are always worth a compaction.
    drops_deletes : bool
        Whether a delete never has to stay: a deletion vector marks the row that it deletes.
    level_0_runs_min : int
        The fewest runs of level 0 for this.
    full_below_bytes : int, optional
        Size of all runs below which every compaction takes all.
    full_interval_ms : int, optional
        Age of the last level after which a compaction takes all.
    rewrites_all : bool
        Whether a full compaction also rewrites files that could stay as they are.
    """

    runs_trigger: int = 5
    size_amplification_percent_max: int = 200
    size_ratio_percent: int = 1
    deletes_need_all: bool = False
    empties_level_0: bool = False
    drops_deletes: bool = False
    level_0_runs_min: int = 1
    full_below_bytes: int | None = None
    full_interval_ms: int | None = None
    off_peak: OffPeak | None = None
    rewrites_all: bool = False

    @classmethod
    def of(
        cls,
        options: Options,
        *,
        deletes_need_all: bool = False,
        empties_level_0: bool = False,
        drops_deletes: bool = False,
    ) -> CompactionPolicy:
        """Take the policy of a table's options.

        Parameters
        ----------
        deletes_need_all : bool
            See above.
        empties_level_0 : bool
            Whether compactions look keys up.
        """
        trigger = options.get(NUM_SORTED_RUN_COMPACTION_TRIGGER)
        level_0_runs_min = 1
        if empties_level_0 and options.get(LOOKUP_COMPACT) == GENTLE:
            interval = options.get(LOOKUP_COMPACT_MAX_INTERVAL)
            level_0_runs_min = max(trigger, 2 * trigger if interval is None else interval)
        start, end = (
            options.get(COMPACTION_OFFPEAK_START_HOUR),
            options.get(COMPACTION_OFFPEAK_END_HOUR),
        )
        off_peak = None
        if start >= 0 and end >= 0 and start != end:
            off_peak = OffPeak(start, end, options.get(COMPACTION_OFFPEAK_RATIO))
        return cls(
            runs_trigger=trigger,
            size_amplification_percent_max=options.get(COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT),
            size_ratio_percent=options.get(COMPACTION_SIZE_RATIO),
            deletes_need_all=deletes_need_all,
            empties_level_0=empties_level_0 or options.get(COMPACTION_FORCE_UP_LEVEL_0),
            drops_deletes=drops_deletes,
            level_0_runs_min=level_0_runs_min,
            full_below_bytes=options.get(COMPACTION_TOTAL_SIZE_THRESHOLD),
            full_interval_ms=options.get(COMPACTION_OPTIMIZATION_INTERVAL),
            off_peak=off_peak,
            rewrites_all=options.get(COMPACTION_FORCE_REWRITE_ALL_FILES),
        )

    @property
    def needs_time(self) -> bool:
        """Whether the time of the day, or since the last full compaction, matters."""
        return self.full_interval_ms is not None or self.off_peak is not None


@dataclass(frozen=True, slots=True)
class Pick:
    """The choice of a compaction.

    Parameters
    ----------
    output_level : int
        The level of the result, never 0.
    drop_deletes : bool
        Whether no older row of any key can lie beneath the result.
    one_by_one : bool
        Whether each file is rewritten separately.
    rewrites_all : bool
        Whether files that could stay as they are are rewritten too.
    """

    files: tuple[DataFileMeta, ...]
    output_level: int
    drop_deletes: bool
    one_by_one: bool = False
    rewrites_all: bool = False


def pick(
    levels: Levels,
    policy: CompactionPolicy,
    *,
    full: bool = False,
    now_ms: int = 0,
    needs_rewrite: Callable[[DataFileMeta], bool] = lambda _: False,
) -> Pick | None:
    """Choose a compaction.

    Parameters
    ----------
    full : bool
        Whether to merge everything into one run.
    now_ms : int
        The local wall clock, as in the files' creation times; used if the policy
        :attr:`~CompactionPolicy.needs_time`.
    needs_rewrite : callable
        Whether rows of a file are deleted by a deletion vector or expired.

    Returns
    -------
    Pick or None
        None if nothing is worthwhile.
    """
    runs = levels.runs
    if full:
        if not runs:
            return None
        if len(runs) == 1 and runs[0].level == levels.max_level:
            files = runs[0].files if policy.rewrites_all else filter(needs_rewrite, runs[0].files)
            rewritten, last = tuple(files), levels.max_level
            return Pick(rewritten, last, drop_deletes=True, one_by_one=True) if rewritten else None
        chosen = _to_level(levels, runs, len(runs), policy)
        return replace(chosen, rewrites_all=policy.rewrites_all)
    if runs_due(levels, runs, policy, now_ms):
        return _to_level(levels, runs, len(runs), policy)
    ratio_percent = _ratio_percent(policy, now_ms)
    taken = _count(runs, policy, ratio_percent)
    if taken == 0 and policy.empties_level_0:
        newest = sum(run.level == 0 for run in runs)
        taken = _grown(runs, newest, ratio_percent) if newest >= policy.level_0_runs_min else 0
    if taken == 0:
        return None
    chosen = _to_level(levels, runs, taken, policy)
    retracts = any(file.delete_row_count != 0 for file in chosen.files)
    if policy.deletes_need_all and retracts and not chosen.drop_deletes:
        chosen = _to_level(levels, runs, len(runs), policy)
    if len(chosen.files) == 1 and chosen.files[0].level == chosen.output_level:
        return None
    return chosen


def runs_due(
    levels: Levels, runs: Sequence[SortedRun], policy: CompactionPolicy, now_ms: int
) -> bool:
    """Whether all runs are small, or the last level is old (rule 2)."""
    if len(runs) <= 1:
        return False
    size_bytes = sum(run.size_bytes for run in runs)
    if policy.full_below_bytes is not None and size_bytes < policy.full_below_bytes:
        return True
    if policy.full_interval_ms is None:
        return False
    last = [f.creation_time_ms or 0 for f in levels.files if f.level == levels.max_level]
    return not last or now_ms - max(last) > policy.full_interval_ms


def runs_worth_it(runs: Sequence[SortedRun], policy: CompactionPolicy, now_ms: int) -> int:
    """How many of the newest runs to take by rules 3 to 5; 0 for none.

    Parameters
    ----------
    runs : sequence of SortedRun
        Newest first.
    """
    return _count(runs, policy, _ratio_percent(policy, now_ms))


def _ratio_percent(policy: CompactionPolicy, now_ms: int) -> int:
    """How much larger the next run may be at this hour."""
    own = policy.size_ratio_percent
    return own if policy.off_peak is None else own + policy.off_peak.ratio_at(now_ms)


def _count(runs: Sequence[SortedRun], policy: CompactionPolicy, ratio_percent: int) -> int:
    """How many of the newest runs to take; 0 for none."""
    if len(runs) < policy.runs_trigger:
        return 0
    newer = sum(run.size_bytes for run in runs[:-1])
    if newer * 100 > policy.size_amplification_percent_max * runs[-1].size_bytes:
        return len(runs)
    taken = _grown(runs, 1, ratio_percent)
    if taken > 1:
        return taken
    if len(runs) > policy.runs_trigger:
        taken = _grown(runs, len(runs) - policy.runs_trigger + 1, ratio_percent)
        return taken if taken > 1 else 0
    return 0


def _grown(runs: Sequence[SortedRun], taken: int, ratio_percent: int) -> int:
    """Take further runs while they are not much larger than the taken ones together."""
    size_bytes = sum(run.size_bytes for run in runs[:taken])
    for run in runs[taken:]:
        if size_bytes * (100 + ratio_percent) < run.size_bytes * 100:
            break
        size_bytes += run.size_bytes
        taken += 1
    return taken


def _to_level(
    levels: Levels, runs: Sequence[SortedRun], taken: int, policy: CompactionPolicy
) -> Pick:
    """Find the output level, and take more runs if that would be level 0."""
    output = levels.max_level if taken == len(runs) else max(0, runs[taken].level - 1)
    while output == 0 and taken < len(runs):
        output = runs[taken].level
        taken += 1
    if taken == len(runs):
        output = levels.max_level
    files = tuple(file for run in runs[:taken] for file in run.files)
    nothing_beneath = policy.drops_deletes or output >= levels.highest_level
    return Pick(files, output, drop_deletes=output > 0 and nothing_beneath)
