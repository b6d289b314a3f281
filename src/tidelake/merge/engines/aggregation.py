"""The engine ``aggregation``: every column has a function of its own.

Rules, from Paimon's ``AggregateMergeFunction`` (1.3.1):

- rows that add (+I, +U) are aggregated, rows that take back (-U, -D) are retracted;
- with ``aggregation.remove-record-on-delete`` a -D removes the earlier values; NOT NULL columns
  take the values of the -D;
- the merged row is an insert, or a delete if the newest row removed it. A retraction alone never
  removes the row: the sum of 5 and -5 is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.merge.engines.engine import Merged
from tidelake.merge.engines.fold_columns import fold_columns, removing
from tidelake.merge.functions import ColumnFunction
from tidelake.merge.layout import Action, Actions, layout_of
from tidelake.merge.segments import Segments
from tidelake.types.row_kind import RowKind


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Folds each column by its function.

    Parameters
    ----------
    functions : tuple of ColumnFunction
        One per column outside the key.
    remove_on_delete : bool
        Whether a -D removes the row of its key.
    """

    functions: tuple[ColumnFunction, ...]
    remove_on_delete: bool = False
    not_null: frozenset[str] = frozenset()

    def merge(self, rows: pa.Table, segments: Segments) -> Merged:
        """Merge whole keys; see :class:`~tidelake.merge.engines.engine.MergeEngine`."""
        winners = segments.newest
        kinds = segments.kinds.take(winners)
        layout = layout_of(segments)
        if not len(layout.keys):
            return Merged(winners, kinds)
        kinds[layout.keys] = RowKind.INSERT
        actions, removes = layout.added, np.zeros(0, np.bool_)
        if segments.may_retract:
            own_kinds = segments.kinds[layout.rows]
            actions = np.where(own_kinds & 1, np.int8(Action.RETRACT), np.int8(Action.ADD))
            if self.remove_on_delete:
                removes = own_kinds == RowKind.DELETE
                kinds[layout.keys[removes[layout.last]]] = RowKind.DELETE

        def actions_of(function: ColumnFunction) -> Actions:
            return removing(actions, removes, not_null=function.column in self.not_null)

        columns = fold_columns(rows, winners, layout, self.functions, actions_of)
        return Merged(winners, kinds, columns)
