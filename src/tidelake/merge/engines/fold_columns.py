"""The columns of a merge whose engine merges column by column.

A key with one row keeps it: its values are taken by position, as for functions that choose a row.
Columns whose functions choose the same rows share the positions. Computed values are inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import joined, rows_replaced, take_rows
from tidelake.merge.functions import NEWEST, ColumnFunction, Folded, fold
from tidelake.merge.layout import Action, Actions, Layout

Positions = npt.NDArray[np.int64]


def no_picks(_: ColumnFunction) -> None:
    """Know for no column which rows it chooses."""


def fold_columns(
    rows: pa.Table,
    winners: Positions,
    layout: Layout,
    functions: Iterable[ColumnFunction],
    actions_of: Callable[[ColumnFunction], Actions],
    *,
    picks_of: Callable[[ColumnFunction], Positions | None] = no_picks,
) -> dict[str, pa.Array]:
    """Compute the columns.

    Parameters
    ----------
    winners : int64 array [m]
        For each key in key order a row: the only one of a key that has no more.
    functions : iterable of ColumnFunction
        One per column.
    actions_of : callable
        The action of each row of the layout on the column; one shared array for columns with the
        same actions.
    picks_of : callable
        The rows that a column's keys choose [s], negative for null, if known without its
        function; else None. One shared array for columns that choose the same rows.

    Returns
    -------
    dict of str to pyarrow.Array [m]
    """
    present = set(rows.column_names)
    columns = {}
    newest: tuple[Actions, Positions] | None = None
    chosen: tuple[Positions, Positions] | None = None
    for function in functions:
        if function.column not in present:
            continue
        column = joined(rows.column(function.column).chunks)
        folded: Folded | None = picks_of(function)
        if folded is None:
            actions = actions_of(function)
            if newest is not None and newest[0] is actions and function.name == NEWEST:
                folded = newest[1]  # other columns of the group choose the same rows
            else:
                folded = fold(function, layout, actions, column)
                if function.name == NEWEST and not isinstance(folded, pa.Array):
                    newest = actions, folded
        if isinstance(folded, pa.Array):
            columns[function.column] = rows_replaced(column, winners, layout.keys, folded)
            continue
        if chosen is None or chosen[0] is not folded:
            index = winners.copy()
            index[layout.keys] = folded
            chosen = folded, index
        columns[function.column] = take_rows(column, chosen[1], near=True, or_null=True)
    return columns


def removing(actions: Actions, removes: npt.NDArray[np.bool_], *, not_null: bool) -> Actions:
    """Let rows that remove the key's row restart the column.

    Parameters
    ----------
    actions : int8 array [n]
        The other actions of the rows.
    removes : bool array [n]
        Which rows remove the earlier ones; empty if none does.
    not_null : bool
        Whether the column is NOT NULL: then it takes the removing row's value.
    """
    if not removes.any():
        return actions
    begins = np.int8(Action.SET if not_null else Action.CLEAR)
    return np.where(removes, begins, actions).astype(np.int8, copy=False)
