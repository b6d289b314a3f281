"""Sorted runs merged into one, streaming: the kernel of every read and every compaction.

Algorithm:

1. The runs are read in parallel, in groups of whole keys (:mod:`tidelake.merge.runs.run_groups`).
2. A group of one run passes through untouched. Rows of several runs are put in merge order
   (:mod:`tidelake.merge.segments`) and the engine decides each key's row. On request, keys whose
   row retracts are dropped.
3. When one run remains, its rows pass through without looking at a key.

Rows of one key compare by user sequence fields, then sequence number, then retract before add, then
the run: the later wins. The semantics are in ``docs/format/merge.md``.

Complexity: O(n log K) time; memory of K batches and one group, bounded by the share of
:class:`~tidelake.telemetry.Memory` for merged rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge.engines.engine import Merged, MergeEngine
from tidelake.merge.engines.engine_of import engine_of
from tidelake.merge.engines.materialise import gather
from tidelake.merge.runs.merged_order import OrderRecorder
from tidelake.merge.runs.run_cursor import RunSlice
from tidelake.merge.runs.run_groups import RunGroups
from tidelake.merge.segments import RankOf, Segments, merge_order, segments_of
from tidelake.merge.sequence import rank_rows
from tidelake.merge.spec import FIRST_ROW, MergeSpec
from tidelake.telemetry import UNLIMITED, Memory


def merge_runs(
    runs: Sequence[Iterator[pa.RecordBatch]],
    spec: MergeSpec,
    *,
    drop_deletes: bool,
    columns: Sequence[str] | None = None,
    memory: Memory = UNLIMITED,
    levels: Sequence[int] | None = None,
    recorder: OrderRecorder | None = None,
) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs.

    Requires: each run is sorted by key and has no key twice.

    Parameters
    ----------
    runs : sequence of iterators of pyarrow.RecordBatch
        The runs, oldest first; all with one schema: the spec's key and sequence columns,
        ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and any others. A run is opened when its first batch
        is wanted.
    drop_deletes : bool
        Leave out keys whose row retracts: right if no older row of the key can exist elsewhere.
    columns : sequence of str, optional
        The columns wanted of the result, in order; all by default.
    memory : Memory
        Bounds the rows that all runs hold together; a batch above its run's share is cut.
    levels : sequence of int, optional
        The runs' levels. They count if compactions look keys up (``MergeSpec.by_lookup``): a row
        of a level from 1 contains the higher levels' rows of its key. Under first-row a row of a
        level from 1 wins over level 0.
    recorder : OrderRecorder, optional
        Notes the order of the result. Requires: the engine combines no rows.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty; sorted by key, each key once.

    Notes
    -----
    Runs on executors. Holds one batch per run.
    """
    engine = engine_of(spec)
    known = levels if levels is not None and spec.looks_at_levels else [0] * len(runs)
    groups = RunGroups(runs, spec, memory=memory, levels=known)
    while (slices := groups.next_group()) is not None:
        if len(slices) == 1:
            rows, adds = slices[0].rows, _adds(slices[0].rows, drop_deletes=drop_deletes)
            if recorder is not None:
                recorder.add_rows(slices[0].run, rows.num_rows if adds is None else adds)
            batch = _as_they_are(rows, adds, columns=columns)
            del rows
        else:
            rows, merged = _merge_group(slices, spec, engine, drop_deletes=drop_deletes)
            if recorder is not None:
                recorder.add_group(slices, merged.rows)
            batch = gather(rows, merged, columns=columns, near=True)
            del rows, merged
        del slices  # else the group's batches stay alive while the next are read
        if batch.num_rows:
            yield batch
        del batch
    for rest, cursor in groups.rest():
        adds = _adds(rest, drop_deletes=drop_deletes)
        if recorder is not None:
            recorder.add_rows(cursor.run, rest.num_rows if adds is None else adds)
        batch = _as_they_are(rest, adds, columns=columns)
        if batch.num_rows:
            yield batch


def _adds(rows: pa.RecordBatch, *, drop_deletes: bool) -> npt.NDArray[np.bool_] | None:
    """Which rows are given; None if all are."""
    if not drop_deletes:
        return None
    adds: npt.NDArray[np.bool_] = (rows.column(KIND_FIELD.name).to_numpy() & 1) == 0
    return None if adds.all() else adds


def _as_they_are(
    rows: pa.RecordBatch, adds: npt.NDArray[np.bool_] | None, *, columns: Sequence[str] | None
) -> pa.RecordBatch:
    """Rows of keys that no other run has."""
    wanted = rows if columns is None else rows.select(list(columns))
    return wanted if adds is None else wanted.filter(pa.array(adds))


def _merge_group(
    slices: Sequence[RunSlice],
    spec: MergeSpec,
    engine: MergeEngine,
    *,
    drop_deletes: bool,
) -> tuple[pa.Table, Merged]:
    """Merge whole keys of several runs, oldest run first; their rows, and what they become."""
    rows = pa.Table.from_batches([s.rows for s in slices])
    segments = rows_that_count(group_segments(slices, spec, rows), level_of_rows(slices), spec)
    merged = engine.merge(rows, segments)
    return rows, merged.without_retracts() if drop_deletes else merged


def group_segments(slices: Sequence[RunSlice], spec: MergeSpec, rows: pa.Table) -> Segments:
    """Put the rows of a group in merge order.

    Parameters
    ----------
    slices : sequence of RunSlice
        The group, oldest run first.
    rows : pyarrow.Table
        The slices' rows, one after the other.
    """
    return segments_of(
        np.concatenate([s.keys for s in slices]),
        np.concatenate([s.kinds for s in slices]),
        sort=merge_order,
        rank_of=_rank_of(slices, spec, rows),
    )


def rows_that_count(segments: Segments, levels: npt.NDArray[np.int64], spec: MergeSpec) -> Segments:
    """Leave out rows that do not count; `levels` are those of the rows.

    Under first-row those are rows of level 0 whose key has a row above level 0, which a
    compaction has logged and which stays; elsewhere rows already merged into another by a lookup.
    """
    if spec.engine == FIRST_ROW:
        return segments.above_level_0_first(levels)
    return segments.lowest_level_only(levels) if spec.by_lookup else segments


def level_of_rows(slices: Sequence[RunSlice]) -> npt.NDArray[np.int64]:
    """Give the level of each row of a group, in the order of its slices."""
    return np.repeat([s.level for s in slices], [s.rows.num_rows for s in slices])


def _rank_of(slices: Sequence[RunSlice], spec: MergeSpec, rows: pa.Table) -> RankOf | None:
    """How to rank rows of one key; None if every run is newer than all before it."""
    if not spec.sequence_columns:
        highest = slices[0].sequence_bounds[1]
        for s in slices[1:]:
            low, high = s.sequence_bounds
            if low <= highest:
                break
            highest = high
        else:
            return None
    return rank_rows(rows, spec, sequence_column=SEQUENCE_FIELD.name)
