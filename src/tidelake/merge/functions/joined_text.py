"""``listagg``: the texts of a key, joined.

1. Texts are joined in the order of the rows; a row with an older sequence goes in front.
2. With ``distinct`` repeated and blank parts are left out.

Source: Paimon's ``FieldListaggAgg``: 1.3.1 for 1 (it knows no ``distinct``), 2.x for 2.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.merge.layout import Action, Actions, Events, Layout


def joined_text(
    layout: Layout, actions: Actions, column: pa.Array, *, delimiter: str, distinct: bool
) -> pa.Array:
    """Join the texts of each key; null where it has none.

    Parameters
    ----------
    actions : int8 array [n]
        The action of each.
    distinct : bool
        Keep each part once.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)[layout.rows]
    used = np.isin(actions, (Action.ADD, Action.OLDER, Action.SET)) & valid
    events = layout.events(used & layout.since_reset(actions))
    texts = column.take(pa.array(layout.rows[in_order_of_age(events, actions)]))
    offsets = np.zeros(len(layout.starts) + 1, np.int64)
    offsets[1 + events.segments] = events.lengths
    lists = pa.LargeListArray.from_arrays(pa.array(np.cumsum(offsets)), texts)
    if distinct:
        values = [_distinct(parts, delimiter) for parts in lists.to_pylist()]
        return pa.array(values, column.type)
    joined = pc.binary_join(lists, delimiter)
    empty = np.diff(np.cumsum(offsets)) == 0
    return pc.if_else(pa.array(empty), pa.scalar(None, joined.type), joined).cast(column.type)


def in_order_of_age(events: Events, actions: Actions) -> np.ndarray:
    """Give the positions of the events; in each segment late ones first, in reverse."""
    late = actions[events.at] == Action.OLDER
    if not late.any():
        return events.at
    segment = np.repeat(np.arange(len(events.starts)), events.lengths)
    rank = np.where(late, -1 - events.at, events.at)
    return events.at[np.lexsort((rank, segment))]


def _distinct(texts: list[str], delimiter: str) -> str | None:
    """Fold as 2.x does: the first text stays as it is; later texts add their new parts."""
    kept: list[str] = []
    seen: set[str] = set()
    for text in texts:
        if not text.strip():
            continue
        parts = text.split(delimiter) if delimiter else [text]
        if not kept:
            kept, seen = [text], set(parts)
            continue
        for part in parts:
            if part.strip() and part not in seen:
                seen.add(part)
                kept.append(part)
    return delimiter.join(kept) if kept else None
