"""``bool_and`` and ``bool_or``: over the values that are there.

Source: Paimon's ``FieldBoolAndAgg`` and ``FieldBoolOrAgg`` (1.3.1).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.codec.arrow_memory import fixed_values
from tidelake.merge.layout import Action, Actions, Layout

__all__ = ["truth"]


def truth(layout: Layout, actions: Actions, column: pa.Array, *, needs_all: bool) -> pa.Array:
    """Combine the values of each key; null where it has none.

    Parameters
    ----------
    layout : Layout
        The rows.
    actions : int8 array [n]
        What each does.
    column : pyarrow.Array of bool
        The whole column, by row position.
    needs_all : bool
        All must be true, or else one.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)[layout.rows]
    used = np.isin(actions, (Action.ADD, Action.OLDER, Action.SET)) & valid
    events = layout.events(used & layout.since_reset(actions))
    results, unknown = np.zeros(len(layout.starts), np.bool_), np.ones(len(layout.starts), np.bool_)
    if len(events.at):
        values = fixed_values(column, np.bool_)[layout.rows[events.at]]
        combine = np.logical_and if needs_all else np.logical_or
        results[events.segments] = combine.reduceat(values, events.starts)
        unknown[events.segments] = False
    return pa.array(results, mask=unknown)
