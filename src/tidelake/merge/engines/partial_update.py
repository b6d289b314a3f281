"""The engine ``partial-update``: each column keeps its last value that is not null.

Rules, from Paimon's ``PartialUpdateMergeFunction`` (1.3.1):

- Without sequence groups a row sets the columns in which it has a value. Rows that retract (-U, -D)
  are an error, unless ``ignore-delete`` leaves them out, or
  ``partial-update.remove-record-on-delete`` lets a -D remove the row (then a -U has no effect).
- The columns of a **sequence group** change together. If a row's sequence (null smallest) is not
  below the largest so far, its sequence and members are taken, even nulls, or aggregated if a
  member has a function. If it is below, functions get it as an older value and other members stay.
  A row whose sequence is all null does not change the group. A row that retracts sets members to
  null, or is retracted from their functions; if ``partial-update.remove-record-on-sequence-group``
  names the group, a -D removes the row.
- The merged row is a delete if the newest row removed it or no row ever added; else an insert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import joined, take_rows
from tidelake.codec.number_column import has_numbers, numbers_at
from tidelake.errors import InvalidInputError
from tidelake.merge.column_rules import SequenceGroup
from tidelake.merge.engines.engine import Merged
from tidelake.merge.engines.fold_columns import fold_columns, removing
from tidelake.merge.functions import NEWEST, ColumnFunction
from tidelake.merge.layout import Action, Actions, Layout, Ranked, layout_of
from tidelake.merge.segments import Segments
from tidelake.merge.sequence import rank_column
from tidelake.types.row_kind import RowKind

NOTHING = np.int64(-1)
"""The rank of a sequence that is all null: below every other."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Decided:
    """The effects of a layout's rows.

    Parameters
    ----------
    newer : tuple of bool array [n]
        Per group: whether the row's sequence is not below the largest so far.
    removes : bool array [n]
        Whether the row removes the earlier ones.
    adds : bool array [n]
        Whether the row adds; the others retract.
    """

    groups: tuple[SequenceGroup, ...]
    newer: tuple[Mask, ...]
    empty: tuple[Mask, ...]
    removes: Mask
    adds: Mask

    def part(self, function: ColumnFunction) -> tuple[object, ...]:
        """Columns with equal parts change alike: a group, and the column's role in it."""
        for number, group in enumerate(self.groups):
            if function.column in group.columns_and_members:
                is_newest = function.name == NEWEST
                return number, is_newest, self.acts_as_sequence(function, group)
        return ()

    def acts_as_sequence(self, function: ColumnFunction, group: SequenceGroup) -> bool:
        """Whether rows act on a column as on the sequence of its group.

        Members do so if they have no function and no row retracts.
        """
        alike = function.name == NEWEST and bool(self.adds.all())
        return alike or function.column in group.columns


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """Sets the columns in which rows have a value, group by group.

    Parameters
    ----------
    functions : tuple of ColumnFunction
        One per column outside the key.
    ignore_delete : bool
        Rows that retract take no part.
    remove_on_delete : bool
        A -D removes the row of its key.
    """

    functions: tuple[ColumnFunction, ...]
    groups: tuple[SequenceGroup, ...] = ()
    ignore_delete: bool = False
    remove_on_delete: bool = False
    not_null: frozenset[str] = frozenset()

    def merge(self, rows: pa.Table, segments: Segments) -> Merged:
        """Merge whole keys; see :class:`~tidelake.merge.engines.engine.MergeEngine`.

        Raises
        ------
        InvalidInputError
            A row retracts, but the options define no effect of it.
        """
        winners = segments.newest
        kinds = segments.kinds.take(winners)
        layout = layout_of(segments)
        if not len(layout.keys):
            return Merged(winners, kinds)
        if not segments.may_retract and layout.by_rank is not None and self._only_chooses():
            kinds[layout.keys] = RowKind.INSERT
            columns = self._chosen_columns(rows, winners, layout, layout.by_rank)
            self._check_nulls(columns)
            return Merged(winners, kinds, columns)
        own_kinds = segments.kinds[layout.rows]
        adds = (own_kinds & 1) == 0
        retracts = not adds.all()
        if retracts and not (self.ignore_delete or self.remove_on_delete or self.groups):
            raise no_delete()
        decided = self._decide(rows, layout, own_kinds)
        deleted = decided.removes[layout.last]
        if retracts:
            deleted |= ~np.logical_or.reduceat(adds, layout.starts)
        kinds[layout.keys] = np.where(deleted, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))
        if self.ignore_delete:  # the sequence number is the last counting row's
            last = layout.last_of(adds)
            winners[layout.keys] = layout.rows[np.where(last < 0, layout.last, last)]

        known: dict[tuple[object, ...], Actions] = {}

        def actions_of(function: ColumnFunction) -> Actions:
            keeps = function.column in self.not_null
            alike = (decided.part(function), keeps and retracts)
            if alike not in known:
                own = self._actions(function, layout, decided)
                known[alike] = removing(own, decided.removes, not_null=keeps)
            return known[alike]

        columns = fold_columns(rows, winners, layout, self.functions, actions_of)
        self._check_nulls(columns)
        return Merged(winners, kinds, columns)

    def _only_chooses(self) -> bool:
        """Whether groups have no functions: all their columns take the values of one row."""
        return all(
            function.name == NEWEST
            for function in self.functions
            for group in self.groups
            if function.column in group.columns_and_members
        )

    def _chosen_columns(
        self,
        rows: pa.Table,
        winners: npt.NDArray[np.int64],
        layout: Layout,
        ranked: Ranked,
    ) -> dict[str, pa.Array]:
        """Compute the columns if every row adds and each group chooses one row.

        Gives the same as the other way, but skips the actions of each row, which are not needed.
        """
        picks: dict[str, npt.NDArray[np.int64]] = {}
        for group in self.groups:
            if group.columns[0] in rows.column_names:
                own, _ = self._ranks(rows, ranked.rows, group)
                chosen = ranked.last_rising(own, NOTHING)
                picks |= dict.fromkeys(group.columns_and_members, chosen)
        return fold_columns(
            rows,
            winners,
            layout,
            self.functions,
            lambda _: layout.added,
            picks_of=lambda function: picks.get(function.column),
        )

    def _actions(self, function: ColumnFunction, layout: Layout, decided: _Decided) -> Actions:
        adds = decided.adds
        for group, newer, empty in zip(decided.groups, decided.newer, decided.empty, strict=True):
            if function.column not in group.columns_and_members:
                continue
            if decided.acts_as_sequence(function, group):
                return np.where(newer, np.int8(Action.ADD), np.int8(Action.SKIP))
            added = np.where(newer, np.int8(Action.ADD), np.int8(Action.OLDER))
            taken = np.full(len(adds), Action.RETRACT, np.int8)
            self._check_first(function, layout, adds)
            if function.name == NEWEST:  # an older row never replaces it
                taken = np.where(newer, taken, np.int8(Action.SKIP))
            return np.where(empty, np.int8(Action.SKIP), np.where(adds, added, taken))
        return np.where(adds, np.int8(Action.ADD), np.int8(Action.SKIP))

    def _decide(self, rows: pa.Table, layout: Layout, kinds: npt.NDArray[np.int8]) -> _Decided:
        adds, deletes = (kinds & 1) == 0, kinds == RowKind.DELETE
        if not self.groups:
            nobody = np.zeros(len(kinds), np.bool_)
            return _Decided((), (), (), deletes if self.remove_on_delete else nobody, adds)
        groups = tuple(g for g in self.groups if g.columns[0] in rows.column_names)
        ranks, after_removal = [], []
        for group in groups:
            own, begun = self._ranks(rows, layout.rows, group)
            if self.ignore_delete:
                own = np.where(adds, own, NOTHING)
            ranks.append(own)
            after_removal.append(begun)
        newer = tuple(np.zeros(len(kinds), np.bool_) for _ in groups)
        removes = np.zeros(len(kinds), np.bool_)
        seen = [np.full(len(layout.starts), NOTHING) for _ in groups]
        for active, at in layout.ranks():
            gone = np.zeros(active, np.bool_)
            for group, own, before, is_newer in zip(groups, ranks, seen, newer, strict=True):
                rank = own[at]
                takes = (rank >= before[:active]) & (rank != NOTHING)
                is_newer[at] = takes
                np.putmask(before[:active], takes, rank)
                if group.removes:
                    gone |= takes & deletes[at]
            removes[at] = gone
            if gone.any():
                for before, begun in zip(seen, after_removal, strict=True):
                    before[:active] = np.where(gone, begun[at], before[:active])
        return _Decided(groups, newer, tuple(own == NOTHING for own in ranks), removes, adds)

    def _ranks(
        self, rows: pa.Table, positions: npt.NDArray[np.int64], group: SequenceGroup
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Number the rows' sequences in order; and those that remain if its row removes.

        The NOT NULL columns remain, whichever group removes the row.
        """
        stays = [name in self.not_null for name in group.columns]
        sources = [joined(rows.column(name).chunks) for name in group.columns]
        count = len(positions)
        if not any(stays) or not any(g.removes for g in self.groups):
            own = _plain_numbers(sources, group, positions)
            if own is None:
                own = _order_numbers(_taken(sources, positions), group)
            return own, np.full(count, NOTHING) if not any(stays) else own
        columns = _taken(sources, positions)
        emptied = [
            column if kept else pa.nulls(count, column.type)
            for column, kept in zip(columns, stays, strict=True)
        ]
        both = _order_numbers(
            [pa.concat_arrays(pair) for pair in zip(columns, emptied, strict=True)], group
        )
        return both[:count], both[count:]

    def _check_first(self, function: ColumnFunction, layout: Layout, adds: Mask) -> None:
        """Refuse a first row that Paimon takes as a value and retracts at once."""
        if function.column in self.not_null and not adds[layout.starts].all():
            raise _retract_not_null(function.column)

    def _check_nulls(self, columns: dict[str, pa.Array]) -> None:
        for name, column in columns.items():
            if name in self.not_null and column.null_count:
                raise _retract_not_null(name)


def _plain_numbers(
    sources: Sequence[pa.Array], group: SequenceGroup, positions: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64] | None:
    """The result of :func:`_order_numbers` for a sequence of one number, none negative."""
    if len(sources) > 1 or not has_numbers(group.types[0]):
        return None
    numbers, known = numbers_at(sources[0], group.types[0], positions)
    numbers = numbers if known is None else np.where(known, numbers, 0)
    if numbers.dtype.kind != "i" or int(numbers.min(initial=0)) < 0:
        return None
    # instants and versions are ranks as they are
    return (numbers if known is None else np.where(known, numbers, NOTHING)).astype(np.int64)


def _taken(sources: Sequence[pa.Array], positions: npt.NDArray[np.int64]) -> list[pa.Array]:
    return [take_rows(source, positions, near=True) for source in sources]


def _order_numbers(columns: Sequence[pa.Array], group: SequenceGroup) -> npt.NDArray[np.int64]:
    """Numbers that order the rows' sequences; :data:`NOTHING` where all fields are null."""
    ranks: list[npt.NDArray[Any]] = []
    for column, data_type in zip(columns, group.types, strict=True):
        ranks += rank_column(column, data_type, descending=False)
    empty = np.ones(len(ranks[0]), np.bool_)
    for column in columns:
        empty &= column.is_null().to_numpy(zero_copy_only=False)
    order = np.lexsort(ranks[::-1])
    rises = np.zeros(len(order), np.bool_)
    for rank in ranks:
        ordered = rank[order]
        rises[1:] |= ordered[1:] != ordered[:-1]
    dense = np.empty(len(order), np.int64)
    dense[order] = np.cumsum(rises)
    return np.where(empty, NOTHING, dense)


def _retract_not_null(column: str) -> InvalidInputError:
    message = (
        f"Column '{column}' is NOT NULL and in a sequence group. A row that retracts (-U, -D)"
        " would set it to null: make the column nullable, or write no such rows."
    )
    return InvalidInputError(message, kind="retract_not_null", column=column)


def no_delete() -> InvalidInputError:
    """The error of a row that retracts if the options define no effect of it."""
    message = (
        "With its options this table's merge engine 'partial-update' cannot retract rows (-U, -D)."
        " Set 'ignore-delete' = 'true' to leave them out;"
        " 'partial-update.remove-record-on-delete' = 'true' to let a -D remove the row; or"
        " 'fields.<sequence>.sequence-group' to retract the columns of a group."
    )
    return InvalidInputError(message, kind="no_delete")
