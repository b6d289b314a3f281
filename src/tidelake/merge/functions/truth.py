"""``bool_and`` and ``bool_or``: over the values that are not null.

Source: Paimon's ``FieldBoolAndAgg`` and ``FieldBoolOrAgg`` (1.3.1).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.codec.arrow_memory import fixed_values, valid_rows
from tidelake.merge.layout import Action, Actions, Layout


def truth(layout: Layout, actions: Actions, column: pa.Array, *, needs_all: bool) -> pa.Array:
    """Combine the values of each key; null where it has none.

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
