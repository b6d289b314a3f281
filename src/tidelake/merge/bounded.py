"""Sorted runs merged within a share of memory, however many they are.

1. A run holds, while it is open, the pages of its file and a batch of rows. The batch is as large
   as the runs that are open together leave it; the pages are what the file's writer made them.
2. Where the pages of all runs do not fit (:attr:`~tidelake.telemetry.Memory.merge_pages_bytes`),
   neighbours in age are merged beforehand into one run on local disk, which holds two small
   batches. Those with the fewest bytes are taken, and no more than it needs. Deletes stay in it:
   an older run may hold the key. The order of age is kept, so the result is that of one merge; only
   with ``ignore-delete`` a key that nothing but retracts may keep a retraction that hides nothing.
3. Under an engine that combines rows all runs are merged at once, whatever they hold: a row that
   removes its key's row and is followed by another one leaves no trace in the two of them merged.
4. Where a changelog is made only new runs are merged beforehand, so that old rows stay apart.
5. Two runs are merged at a time at least. Where the pages of two files are larger than the share,
   they are what the merge takes.

Complexity: a row is rewritten once for each time that all runs are too many for the share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from tidelake.merge.changes import ChangeRule, MergedRows, merge_with_changes
from tidelake.merge.sorted_runs import merge_runs
from tidelake.merge.spec import MergeSpec
from tidelake.merge.spill import SpilledRun, SpillFiles
from tidelake.telemetry import Memory

__all__ = ["RunSource", "merge_bounded", "merge_bounded_with_changes"]

RUNS_MIN = 2


@dataclass(frozen=True, slots=True)
class RunSource:
    """A sorted run that is not open yet.

    Parameters
    ----------
    open : callable
        Opens it; told how many bytes a batch may have.
    size_bytes : int
        Its size in storage.
    held_bytes : int
        What it holds while it is open, beside a batch.
    level : int
        Its level.
    """

    open: Callable[[int], Iterator[pa.RecordBatch]]
    size_bytes: int
    held_bytes: int
    level: int = 0


def merge_bounded(
    sources: Sequence[RunSource],
    spec: MergeSpec,
    *,
    memory: Memory,
    spill_files: Callable[[], SpillFiles],
    drop_deletes: bool,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs as :func:`merge_runs` does, some of them beforehand if they are too many.

    Parameters
    ----------
    sources : sequence of RunSource
        The runs, oldest first.
    spec, drop_deletes, columns
        See :func:`merge_runs`.
    memory : Memory
        Bounds what is held.
    spill_files : callable
        Gives the place of rows put aside; called only if there are any.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty; sorted by key, each key once.
    """
    with _few_enough(sources, 0, spec, memory, spill_files) as runs:
        yield from merge_runs(
            _opened(runs, memory),
            spec,
            drop_deletes=drop_deletes,
            columns=columns,
            memory=memory,
            levels=[run.level for run in runs],
        )


def merge_bounded_with_changes(
    sources: Sequence[RunSource],
    spec: MergeSpec,
    rule: ChangeRule,
    *,
    memory: Memory,
    spill_files: Callable[[], SpillFiles],
    drop_deletes: bool,
) -> Iterator[MergedRows]:
    """Merge sorted runs and tell what changes, as :func:`merge_with_changes` does.

    Parameters
    ----------
    sources : sequence of RunSource
        The runs, oldest first; the new ones last.
    spec, rule, drop_deletes
        See :func:`merge_with_changes`.
    memory, spill_files
        See :func:`merge_bounded`.

    Yields
    ------
    MergedRows
        In key order.
    """
    old_count = sum(run.level >= rule.old_level for run in sources)
    assert all(run.level >= rule.old_level for run in sources[:old_count]), "new runs come last"
    with _few_enough(sources, old_count, spec, memory, spill_files) as runs:
        yield from merge_with_changes(
            _opened(runs, memory),
            spec,
            rule,
            levels=[run.level for run in runs],
            drop_deletes=drop_deletes,
            memory=memory,
        )


@contextmanager
def _few_enough(
    sources: Sequence[RunSource],
    kept_count: int,
    spec: MergeSpec,
    memory: Memory,
    spill_files: Callable[[], SpillFiles],
) -> Iterator[list[RunSource]]:
    """The runs, some of them merged beforehand if they are too many; not the first `kept_count`."""
    runs = list(sources)
    spilled: list[SpilledRun] = []
    files: SpillFiles | None = None
    bytes_max = memory.merge_pages_bytes - sum(run.held_bytes for run in runs[:kept_count])
    try:
        while not spec.combines and (some := _beforehand(runs[kept_count:], bytes_max)) is not None:
            if files is None:
                files = spill_files()
            chosen = slice(some.start + kept_count, some.stop + kept_count)
            opened = _opened(runs[chosen], memory)
            joined = files.write(merge_runs(opened, spec, drop_deletes=False, memory=memory))
            spilled.append(joined)
            runs[chosen] = [_source_of(joined)]
        yield runs
    finally:
        for run in spilled:
            run.delete()
        if files is not None:
            files.close()


def _opened(runs: Sequence[RunSource], memory: Memory) -> list[Iterator[pa.RecordBatch]]:
    share = min(memory.batch_bytes, memory.merge_rows_bytes // max(1, len(runs)))
    return [run.open(share) for run in runs]


def _source_of(run: SpilledRun) -> RunSource:
    return RunSource(lambda _: run.batches(), run.size_bytes, run.held_bytes)


def _beforehand(runs: Sequence[RunSource], bytes_max: int) -> slice | None:
    """The neighbours to merge next; None where all runs fit."""
    total = sum(run.held_bytes for run in runs)
    if len(runs) <= RUNS_MIN or total <= bytes_max:
        return None
    windows = [_window(runs, start, total, bytes_max) for start in range(len(runs) - 1)]
    enough = [w for w in windows if total - w.held_bytes <= bytes_max]
    if enough:
        best = min(enough, key=lambda w: w.size_bytes)
    else:
        best = max(windows, key=lambda w: (w.stop - w.start, -w.size_bytes))
    return slice(best.start, best.stop)


@dataclass(frozen=True, slots=True)
class _Window:
    """Some neighbours."""

    start: int
    stop: int
    held_bytes: int
    size_bytes: int


def _window(runs: Sequence[RunSource], start: int, total: int, bytes_max: int) -> _Window:
    """As many neighbours from `start` on as fit, and no more than it takes to make the rest fit."""
    stop, held = start, 0
    while stop < len(runs) and total - held >= bytes_max:
        if stop - start >= RUNS_MIN and held + runs[stop].held_bytes > bytes_max:
            break
        held += runs[stop].held_bytes
        stop += 1
    stop = max(stop, min(start + RUNS_MIN, len(runs)))
    members = runs[start:stop]
    return _Window(
        start,
        stop,
        sum(run.held_bytes for run in members),
        sum(run.size_bytes for run in members),
    )
