"""The columns of a merge whose engine decides column by column.

A key with one row keeps it: its values are taken by position, like those of functions that choose a
row. Values that a function computed stand behind the column's own, so that one gather gives both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import joined, take_rows
from tidelake.merge.functions import NEWEST, ColumnFunction, fold
from tidelake.merge.layout import Action, Actions, Layout

__all__ = ["fold_columns", "removing"]


def fold_columns(
    rows: pa.Table,
    winners: npt.NDArray[np.int64],
    layout: Layout,
    functions: Iterable[ColumnFunction],
    actions_of: Callable[[ColumnFunction], Actions],
) -> dict[str, pa.Array]:
    """Compute the columns that are there.

    Parameters
    ----------
    rows : pyarrow.Table
        The rows that were merged.
    winners : int64 array [m]
        For each key in key order a row: the only one of a key that has no more.
    layout : Layout
        The rows of the other keys.
    functions : iterable of ColumnFunction
        One per column.
    actions_of : callable
        What each row of the layout does to the column; the same array for columns to which the
        rows do the same.

    Returns
    -------
    dict of str to pyarrow.Array [m]
    """
    present = set(rows.column_names)
    columns = {}
    chosen: tuple[Actions, npt.NDArray[np.int64]] | None = None
    for function in functions:
        if function.column not in present:
            continue
        column = joined(rows.column(function.column).chunks)
        actions = actions_of(function)
        if chosen is not None and chosen[0] is actions and function.name == NEWEST:
            columns[function.column] = take_rows(column, chosen[1], near=True, or_null=True)
            continue
        folded = fold(function, layout, actions, column)
        index = winners.copy()
        if isinstance(folded, pa.Array):
            index[layout.keys] = len(column) + np.arange(len(folded))
            column = pa.concat_arrays([column, folded])
        else:
            index[layout.keys] = folded
            if function.name == NEWEST:
                chosen = actions, index  # other columns of the group choose the same rows
        columns[function.column] = take_rows(column, index, near=True, or_null=True)
    return columns


def removing(actions: Actions, removes: npt.NDArray[np.bool_], *, not_null: bool) -> Actions:
    """Let rows that remove the key's row begin the column again.

    Parameters
    ----------
    actions : int8 array [n]
        What the rows do otherwise.
    removes : bool array [n]
        Which rows remove what was before.
    not_null : bool
        The column holds no null: it takes the removing row's value.
    """
    if not removes.any():
        return actions
    begins = np.int8(Action.SET if not_null else Action.CLEAR)
    return np.where(removes, begins, actions).astype(np.int8, copy=False)
