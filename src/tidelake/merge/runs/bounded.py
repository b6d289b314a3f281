"""Merges any number of sorted runs within a share of memory.

1. An open run holds the pages of its file and a batch of rows. The open runs together bound the
   batch; the file's writer determined the pages.
2. If the pages of all runs do not fit (:attr:`~tidelake.telemetry.Memory.merge_pages_bytes`),
   neighbours in age are first merged into one run on local disk, which holds two small batches. The
   neighbours with the fewest bytes are taken, and only as many as needed. Deletes stay in it: an
   older run may hold the key. The order of age is kept, so the result is that of one merge. Only
   with ``ignore-delete`` may a key of retractions alone keep a retraction that hides nothing. Under
   first-row, runs above level 0 stay apart, because their rows win over level 0.
3. Under an engine that combines rows no run is merged first: if a row removes its key's row and
   another one follows, merging these two would lose the removal. For a changelog only new runs are
   merged first, so that old rows stay apart.
4. Runs that must stay apart and still do not fit are **unpacked**, one after the other, the largest
   first: they are written to local disk as they are, in batches so small that all runs together
   fit. Their number is bounded by the smallest batch worth a read
   (:data:`UNPACKED_BATCH_BYTES_MIN`), and by the files that the process may open.
5. At least two runs are merged at a time. If the pages of two files exceed the share, the merge
   still holds them; unpacking a run holds the pages of its file.

Complexity: as many runs as fit are merged first at a time. So a row is rewritten about log times:
the logarithm of the number of runs to the base of those that fit. A row of an unpacked run is
rewritten once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from tidelake.merge.runs.changelog import ChangeRule, MergedRows, merge_with_changes
from tidelake.merge.runs.merged_order import MergedOrder, OrderRecorder, rows_in_order
from tidelake.merge.runs.sorted_runs import merge_runs
from tidelake.merge.runs.spill import COPIES, SpilledRun, SpillFiles
from tidelake.merge.spec import MergeSpec
from tidelake.telemetry import Executor, Memory

RUNS_MIN = 2
UNPACKED_BATCH_BYTES_MIN = 16 << 10
"""Smaller batches of an unpacked run would cost more than they save."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """A sorted run that is not open yet.

    Parameters
    ----------
    open : callable
        Opens it; takes the most bytes of a batch.
    held_bytes : int
        The bytes it holds while open, besides a batch.
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
    together: Executor | None = None,
    recorder: OrderRecorder | None = None,
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs as :func:`merge_runs` does, through local disk if they are too many.

    Parameters
    ----------
    sources : sequence of RunSource
        The runs, oldest first.
    memory : Memory
        Bounds what is held.
    spill_files : callable
        Gives the files for spilled rows; called only if there are any.
    together : Executor, optional
        Reads the first batches of all runs at once: for a remote storage.
    recorder : OrderRecorder, optional
        Notes the order of the result, unless runs are merged first.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty; sorted by key, each key once.
    """
    above_count = sum(run.level > 0 for run in sources) if spec.looks_at_levels else 0
    assert all(run.level > 0 for run in sources[:above_count]), "level 0 comes last"
    with _few_enough(sources, above_count, spec, memory, spill_files) as runs:
        if recorder is not None and len(runs) != len(sources):
            recorder.give_up()
        yield from merge_runs(
            _opened(runs, memory, together),
            spec,
            drop_deletes=drop_deletes,
            columns=columns,
            memory=memory,
            levels=[run.level for run in runs],
            recorder=recorder,
        )


def read_in_order(
    sources: Sequence[RunSource],
    order: MergedOrder,
    *,
    memory: Memory,
    together: Executor | None = None,
) -> Iterator[pa.RecordBatch] | None:
    """Give the rows of a merge whose order is known, without their keys.

    Parameters
    ----------
    sources : sequence of RunSource
        The runs that were merged, oldest first, with the columns wanted.

    Returns
    -------
    iterator of pyarrow.RecordBatch or None
        Never empty batches; None if the memory cannot have all runs open.
    """
    if sum(run.held_bytes for run in sources) > memory.merge_pages_bytes:
        return None
    return rows_in_order(order, _opened(sources, memory, together, batches=2))


def merge_bounded_with_changes(
    sources: Sequence[RunSource],
    spec: MergeSpec,
    rule: ChangeRule,
    *,
    memory: Memory,
    spill_files: Callable[[], SpillFiles],
    drop_deletes: bool,
    together: Executor | None = None,
) -> Iterator[MergedRows]:
    """Merge sorted runs and return the changes, as :func:`merge_with_changes` does.

    Parameters
    ----------
    sources : sequence of RunSource
        The runs, oldest first; the new ones last.

    Yields
    ------
    MergedRows
        In key order.
    """
    old_count = sum(run.level >= rule.old_level for run in sources)
    assert all(run.level >= rule.old_level for run in sources[:old_count]), "new runs come last"
    with _few_enough(sources, old_count, spec, memory, spill_files) as runs:
        yield from merge_with_changes(
            _opened(runs, memory, together),
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
    """The runs, some merged first or unpacked if they are too many.

    The first `kept_count` are not merged.
    """
    runs = list(sources)
    spilled: list[SpilledRun] = []
    files: SpillFiles | None = None
    pages_bytes = memory.merge_pages_bytes
    beside = sum(run.held_bytes for run in runs[:kept_count])
    try:
        while (
            not spec.combines
            and (some := _beforehand(runs[kept_count:], pages_bytes - beside, pages_bytes))
            is not None
        ):
            if files is None:
                files = spill_files()
            chosen = slice(some.start + kept_count, some.stop + kept_count)
            opened = _opened(runs[chosen], memory)
            joined = files.write(merge_runs(opened, spec, drop_deletes=False, memory=memory))
            spilled.append(joined)
            runs[chosen] = [_source_of(joined)]
        batch_bytes = _unpacked_batch_bytes(len(runs), memory)
        stay_apart = len(runs) if spec.combines else kept_count
        most_first = sorted(range(stay_apart), key=lambda i: runs[i].held_bytes, reverse=True)
        for place in most_first:
            if (
                sum(run.held_bytes for run in runs) <= pages_bytes
                or runs[place].held_bytes <= COPIES * batch_bytes
            ):
                break
            if files is None:
                files = spill_files()
            [rows] = _opened([runs[place]], memory)
            unpacked = files.write(rows, batch_bytes=batch_bytes)
            spilled.append(unpacked)
            runs[place] = _source_of(unpacked, level=runs[place].level)
        yield runs
    finally:
        for run in spilled:
            run.delete()
        if files is not None:
            files.close()


def _opened(
    runs: Sequence[RunSource],
    memory: Memory,
    together: Executor | None = None,
    *,
    batches: int = 1,
) -> list[Iterator[pa.RecordBatch]]:
    share = min(memory.batch_bytes, memory.merge_rows_bytes // (batches * max(1, len(runs))))
    opened = [run.open(share) for run in runs]
    if together is None or len(opened) == 1:
        return opened
    # each run's first batch is needed before the first row can leave; one after the other, each
    # would wait for the network alone
    firsts = together.map(lambda rows: list(islice(rows, 1)), opened)
    return [_again(first, rows) for first, rows in zip(list(firsts), opened, strict=True)]


def _again(first: list[pa.RecordBatch], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first:
        yield first.pop()  # so that nothing here keeps it
        yield from rows


def _source_of(run: SpilledRun, *, level: int = 0) -> RunSource:
    return RunSource(lambda _: run.batches(), run.size_bytes, run.held_bytes, level)


def _unpacked_batch_bytes(runs_count: int, memory: Memory) -> int:
    """The largest batch size at which the pages' share holds the batches of all runs."""
    return max(UNPACKED_BATCH_BYTES_MIN, memory.merge_pages_bytes // (COPIES * max(1, runs_count)))


def _beforehand(runs: Sequence[RunSource], bytes_max: int, open_bytes_max: int) -> slice | None:
    """The neighbours to merge next; None if all runs fit in `bytes_max`, which may be negative.

    The merge may use `open_bytes_max`: no other run is open then.
    """
    total = sum(run.held_bytes for run in runs)
    if len(runs) <= RUNS_MIN or total <= bytes_max:
        return None
    windows = [
        _window(runs, start, total - bytes_max, open_bytes_max) for start in range(len(runs) - 1)
    ]
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


def _window(
    runs: Sequence[RunSource], start: int, excess_bytes: int, open_bytes_max: int
) -> _Window:
    """As many neighbours from `start` on as fit, but only as many as make the rest fit."""
    stop, held = start, 0
    while stop < len(runs) and held <= excess_bytes:
        if stop - start >= RUNS_MIN and held + runs[stop].held_bytes > open_bytes_max:
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
