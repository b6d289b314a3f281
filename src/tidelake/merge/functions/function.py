"""One column's function with its settings, applied to all keys at once.

A function that chooses a row returns row positions, every other one values: positions need no look
at the values and serve every type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import fixed_values, valid_rows
from tidelake.errors import InvalidInputError
from tidelake.merge.functions import selection
from tidelake.merge.functions.arithmetic import product, total
from tidelake.merge.functions.bitmap import bitmap_union
from tidelake.merge.functions.collections import collect, merge_map, nested_update
from tidelake.merge.functions.joined_text import joined_text
from tidelake.merge.functions.names import NEWEST, forgets_retractions, takes_retractions
from tidelake.merge.layout import Action, Actions, Layout
from tidelake.types import DataType

OVERFLOW = "aggregate_overflow"
"""The kind of the error of a result that does not fit its column."""

Folded: TypeAlias = "npt.NDArray[np.int64] | pa.Array"
"""Per segment a row position (``selection.NONE`` for null), or values."""


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """How the values of a column are merged. Picklable.

    Parameters
    ----------
    name : str
        Paimon's name of the function, or :data:`~tidelake.merge.functions.names.NEWEST`.
    ignore_retract : bool
        Whether rows that retract leave the column as it is.
    delimiter : str
        Of ``listagg``.
    distinct : bool
        Of ``collect`` and ``listagg``.
    nested_key : tuple of str
        Of ``nested_update``: the fields that identify its rows.
    count_limit : int, optional
        Of ``nested_update``: the most rows of an array.
    """

    column: str
    name: str
    data_type: DataType
    ignore_retract: bool = False
    delimiter: str = ","
    distinct: bool = False
    nested_key: tuple[str, ...] = ()
    count_limit: int | None = None
    table: str = ""

    @property
    def retracts(self) -> bool:
        """Whether rows that retract may be given to it."""
        return self.ignore_retract or takes_retractions(self.name)

    @property
    def forgets_retractions(self) -> bool:
        """Whether a retracted row must meet the older rows in the same merge."""
        return not self.ignore_retract and forgets_retractions(self.name)


def fold(function: ColumnFunction, layout: Layout, actions: Actions, column: pa.Array) -> Folded:
    """Apply a function.

    Parameters
    ----------
    actions : int8 array [n]
        The action of each row on this column.

    Returns
    -------
    int64 array [s] or pyarrow.Array [s]
        Row positions or values, by segment.

    Raises
    ------
    InvalidInputError
        A row is retracted but the function cannot, or a result does not fit the column.
    """
    if actions is not layout.added and (actions == Action.RETRACT).any():
        if function.ignore_retract:
            actions = np.where(actions == Action.RETRACT, np.int8(Action.SKIP), actions)
        elif not function.retracts:
            raise no_retraction(function)
    name = function.name
    if name == "primary-key":  # the newest row's value, even if it retracts
        actions = np.where(actions == Action.RETRACT, np.int8(Action.ADD), actions)
    if name in (NEWEST, "last_value", "primary-key"):
        return selection.last_value(layout, actions)
    if name == "last_non_null_value":
        return selection.last_non_null_value(layout, actions, valid_rows(column))
    if name == "first_value":
        return selection.first_value(layout, actions)
    if name in ("first_non_null_value", "first_not_null_value"):
        return selection.first_non_null_value(layout, actions, valid_rows(column))
    if name in ("max", "min"):
        largest = name == "max"
        return selection.extreme(layout, actions, column, function.data_type, largest=largest)
    return _values(function, layout, actions, column)


def _values(
    function: ColumnFunction, layout: Layout, actions: Actions, column: pa.Array
) -> pa.Array:
    match function.name:
        case "sum":
            return total(layout, actions, column, function.data_type, lambda: _overflow(function))
        case "product":
            return product(layout, actions, column, function.data_type, lambda: _overflow(function))
        case "bool_and" | "bool_or":
            return truth(layout, actions, column, needs_all=function.name == "bool_and")
        case "listagg":
            return joined_text(
                layout,
                actions,
                column,
                delimiter=function.delimiter,
                distinct=function.distinct,
            )
        case "collect":
            # Java's wrapper that ignores retractions bypasses collect's own order
            return collect(
                layout,
                actions,
                column,
                distinct=function.distinct,
                prepends=function.ignore_retract,
            )
        case "merge_map":
            return merge_map(layout, actions, column)
        case "nested_update":
            return nested_update(
                layout,
                actions,
                column,
                nested_key=function.nested_key,
                count_limit=function.count_limit,
            )
        case "rbm32":
            return bitmap_union(layout, actions, column, name=function.column)
    message = f"no function is named {function.name}"
    raise AssertionError(message)


def no_retraction(function: ColumnFunction) -> InvalidInputError:
    """The error of a -D or -U row that a function cannot retract."""
    message = (
        f"Column '{function.column}' is aggregated by '{function.name}', which cannot retract rows"
        f" (-U, -D): set 'fields.{function.column}.ignore-retract' = 'true' to keep the column"
        " unchanged then, or write no such rows."
    )
    return InvalidInputError(message, kind="no_retraction", column=function.column)


def _overflow(function: ColumnFunction) -> InvalidInputError:
    start = f"Table '{function.table}': the" if function.table else "The"
    # a product must fit after each row: a later row cannot correct it
    back = ", or write a row that brings it back" if function.name == "sum" else ""
    message = (
        f"{start} {function.name} of column '{function.column}' does not fit"
        f" {function.data_type}: widen the column's type{back}. Rows not written yet can"
        " have other values."
    )
    return InvalidInputError(message, kind=OVERFLOW, table=function.table, column=function.column)


def truth(layout: Layout, actions: Actions, column: pa.Array, *, needs_all: bool) -> pa.Array:
    """``bool_and`` and ``bool_or``: combine the values that are not null; null where none is.

    Source: Paimon's ``FieldBoolAndAgg`` and ``FieldBoolOrAgg`` (1.3.1).

    Parameters
    ----------
    actions : int8 array [n]
        The action of each.
    column : pyarrow.Array of bool
        The whole column, by row position.
    needs_all : bool
        Whether all must be true; otherwise one.
    """
    valid = valid_rows(column)
    ranked = layout.if_all_add(actions)
    if ranked is not None:
        decides = fixed_values(column, np.bool_).take(ranked.rows) != needs_all
        if valid is None:
            return pa.array(ranked.some(decides) != needs_all)
        own = valid.take(ranked.rows)
        decides &= own
        return pa.array(ranked.some(decides) != needs_all, mask=~ranked.some(own))
    used = (actions == Action.ADD) | (actions == Action.OLDER) | (actions == Action.SET)
    used &= layout.since_reset(actions)
    if valid is not None:
        used &= valid[layout.rows]
    decides = fixed_values(column, np.bool_)[layout.rows] != needs_all
    decided = layout.sums((used & decides).astype(np.int64)) > 0
    known = decided | (layout.sums(used.astype(np.int64)) > 0)
    return pa.array(decided != needs_all, mask=~known)
