"""Merges sorted runs into one, and gives the changes that the merge makes: changelog rows.

Some runs of a compaction are **new** (their rows came after the last changelog); the others hold
the **old** state. For a key with a new row, its old row, the one of the lowest old level, is
compared with its merged row.

====================  ==========================  ============================
old row               merged row                  changes
====================  ==========================  ============================
none, or a delete     adds                        ``+I`` merged
adds                  a delete, or none           ``-D`` old
adds                  adds                        ``-U`` old, ``+U`` merged
none, or a delete     a delete, or none           none
====================  ==========================  ============================

An update whose rows are equal in the compared columns may be left out. Under the engine first-row
the old row stays, so a key with an old row has no change.

For a lookup compaction level 0 is new, and looked-up rows come beneath the picked runs. For a full
compaction everything above the last level is new.

Source: Paimon's ``LookupChangelogMergeFunctionWrapper``, ``FullChangelogMergeFunctionWrapper`` and
``FirstRowMergeFunctionWrapper`` (1.3.1). A key with one row in the whole merge keeps that row, as
in every merge here. Java folds it if keys are looked up, so a lone retraction of a sum becomes a
row there and none here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.row_codes import rows_differ
from tidelake.format import KIND_FIELD
from tidelake.merge.engines.engine import Merged, MergeEngine
from tidelake.merge.engines.engine_of import engine_of
from tidelake.merge.engines.materialise import gather
from tidelake.merge.runs.run_cursor import RunSlice
from tidelake.merge.runs.run_groups import RunGroups
from tidelake.merge.runs.sorted_runs import group_segments, level_of_rows, rows_that_count
from tidelake.merge.segments import Segments
from tidelake.merge.spec import FIRST_ROW, MergeSpec
from tidelake.telemetry import UNLIMITED, Memory
from tidelake.types import RowKind


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """Which rows of a merge are new, and which changes count.

    Parameters
    ----------
    old_level : int
        Runs below this level are new; the old row of a key is on the lowest level from it on.
    looked_up_level : int
        Runs from this level on are not part of the compaction: they only hold rows of keys with a
        new row. Under first-row such a key gets no row.
    compared : tuple of str, optional
        Columns; an update that changes none of them is left out. None keeps every update.
    logged : bool
        Whether changes are wanted; otherwise there are none.
    """

    old_level: int
    looked_up_level: int
    compared: tuple[str, ...] | None = None
    logged: bool = True


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Some keys of a merge.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
        Their merged rows, as :func:`tidelake.merge.merge_runs` gives them; may be empty.
    changes : pyarrow.RecordBatch
        The changed rows, with their kinds in ``_VALUE_KIND``; in key order, ``-U`` before its
        ``+U``. May be empty.
    """

    rows: pa.RecordBatch
    changes: pa.RecordBatch


def merge_with_changes(
    runs: Sequence[Iterator[pa.RecordBatch]],
    spec: MergeSpec,
    rule: ChangeRule,
    *,
    levels: Sequence[int],
    drop_deletes: bool,
    memory: Memory = UNLIMITED,
) -> Iterator[MergedRows]:
    """Merge sorted runs and return the changes.

    Requires: each run is sorted by key and has no key twice; from ``rule.old_level`` on each
    level has one run at most.

    Parameters
    ----------
    runs : sequence of iterators of pyarrow.RecordBatch
        The runs, oldest first, as :func:`tidelake.merge.merge_runs` takes them.
    drop_deletes : bool
        Leave keys whose row retracts out of the rows; the changes are the same.
    memory : Memory
        Bounds the rows that all runs hold together.

    Yields
    ------
    MergedRows
        In key order.
    """
    engine = engine_of(spec)
    groups = RunGroups(runs, spec, memory=memory, levels=levels)
    while (slices := groups.next_group()) is not None:
        if len(slices) == 1:
            part = _of_one_run(slices[0].rows, slices[0].level, rule, drop_deletes=drop_deletes)
        else:
            part = _of_group(slices, spec, engine, rule, drop_deletes=drop_deletes)
        del slices  # else the group's batches stay alive while the next are read
        yield part
        del part
    for rows, cursor in groups.rest():
        yield _of_one_run(rows, cursor.level, rule, drop_deletes=drop_deletes)


def _of_one_run(
    rows: pa.RecordBatch, level: int, rule: ChangeRule, *, drop_deletes: bool
) -> MergedRows:
    """Rows of keys that no other run has."""
    assert level < rule.looked_up_level, "a row that was looked up has a new row above it"
    adds = (rows.column(KIND_FIELD.name).to_numpy() & 1) == 0
    added = rows if adds.all() else rows.filter(pa.array(adds))
    changes = rows.slice(0, 0)
    if rule.logged and level < rule.old_level:
        changes = _with_kinds(added, np.full(added.num_rows, RowKind.INSERT, np.int8))
    return MergedRows(added if drop_deletes else rows, changes)


def _of_group(
    slices: Sequence[RunSlice],
    spec: MergeSpec,
    engine: MergeEngine,
    rule: ChangeRule,
    *,
    drop_deletes: bool,
) -> MergedRows:
    rows = pa.Table.from_batches([s.rows for s in slices])
    levels = level_of_rows(slices)
    segments = group_segments(slices, spec, rows)
    merged = engine.merge(rows, rows_that_count(segments, levels, spec))
    # the old row may be merged into a lower level's row by a lookup
    keys = _Keys.of(segments, levels, rule, rows_count=rows.num_rows)
    of_merged = keys.of_row[merged.rows]
    first_row = spec.engine == FIRST_ROW
    kept = gather(rows, merged, near=True)
    changes = kept.slice(0, 0)
    if rule.logged:
        changes = _changes(rows, kept, merged, of_merged, keys, rule, updates=not first_row)
    drops = np.zeros(len(merged.rows), np.bool_)
    if drop_deletes:
        drops |= (merged.kinds & 1) != 0
    if first_row:
        drops |= keys.is_beneath[of_merged]
    if drops.any():
        kept = kept.filter(pa.array(~drops))
    return MergedRows(kept, changes)


@dataclass(frozen=True, slots=True)
class _Keys:
    """The earlier state of a group's keys.

    Parameters
    ----------
    of_row : int64 array [rows]
        By row position: the row's key, in key order.
    is_new : bool array [keys]
        Whether a key has a new row.
    is_beneath : bool array [keys]
        Whether a row of the key was looked up.
    old : int64 array [keys]
        The position of the old row, if that adds; -1 without one.
    """

    of_row: npt.NDArray[np.int64]
    is_new: npt.NDArray[np.bool_]
    is_beneath: npt.NDArray[np.bool_]
    old: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls,
        segments: Segments,
        levels: npt.NDArray[np.int64],
        rule: ChangeRule,
        *,
        rows_count: int,
    ) -> _Keys:
        order, starts = segments.order, segments.starts
        own = levels[order]
        new = own < rule.old_level
        old_levels = np.where(new, np.iinfo(np.int64).max, own)
        lowest = np.minimum.reduceat(old_levels, starts)
        lengths = np.diff(starts, append=len(order))
        is_old = ~new & (own == np.repeat(lowest, lengths))
        key = np.repeat(np.arange(len(starts), dtype=np.int64), lengths)
        of_row = np.full(rows_count, -1, np.int64)
        of_row[order] = key
        old = np.full(len(starts), -1, np.int64)
        old_rows = order[is_old & ((segments.kinds[order] & 1) == 0)]
        old[of_row[old_rows]] = old_rows
        beneath = np.logical_or.reduceat(own >= rule.looked_up_level, starts)
        return cls(of_row, np.logical_or.reduceat(new, starts), beneath, old)


def _changes(
    rows: pa.Table,
    kept: pa.RecordBatch,
    merged: Merged,
    of_merged: npt.NDArray[np.int64],
    keys: _Keys,
    rule: ChangeRule,
    *,
    updates: bool,
) -> pa.RecordBatch:
    """The changes of a group; `kept` are the merged rows of the keys `of_merged`."""
    now = np.full(len(keys.old), -1, np.int64)
    adds = (merged.kinds & 1) == 0
    now[of_merged[adds]] = np.flatnonzero(adds)
    had, has = keys.old >= 0, now >= 0
    before = keys.is_new & had
    after = keys.is_new & has
    both = np.flatnonzero(before & after)
    if not updates:
        before[both] = after[both] = False
    elif rule.compared is not None and len(both):
        names = list(rule.compared)
        was = _taken(rows.select(names), keys.old[both])
        differ = rows_differ(was, kept.select(names).take(pa.array(now[both])))
        before[both] = after[both] = differ
    gone, come = np.flatnonzero(before), np.flatnonzero(after)
    is_update = before & after
    kinds = np.r_[
        np.where(is_update[gone], RowKind.UPDATE_BEFORE, RowKind.DELETE),
        np.where(is_update[come], RowKind.UPDATE_AFTER, RowKind.INSERT),
    ].astype(np.int8)
    old_rows = _taken(rows, keys.old[gone])
    new_rows = kept.take(pa.array(now[come]))
    order = np.argsort(np.r_[gone, come], kind="stable")  # old rows come first: -U before its +U
    all_rows = pa.Table.from_batches([old_rows, new_rows])
    changed = _taken(all_rows, order)
    return _with_kinds(changed, kinds[order])


def _taken(rows: pa.Table, positions: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return gather(rows, Merged(positions, np.zeros(len(positions), np.int8)), near=True)


def _with_kinds(rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> pa.RecordBatch:
    place = rows.schema.get_field_index(KIND_FIELD.name)
    return rows.set_column(place, rows.schema.field(place), pa.array(kinds))
