"""``rbm32``: the union of serialized roaring bitmaps, for counting distinct numbers.

Source: Paimon's ``FieldRoaringBitmap32Agg`` (1.3.1); the bytes are those that Java writes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.codec.roaring import union
from tidelake.errors import CorruptError, InvalidInputError
from tidelake.merge.layout import Action, Actions, Layout


def bitmap_union(layout: Layout, actions: Actions, column: pa.Array, *, name: str) -> pa.Array:
    """Unite the bitmaps of each key; null where it has none.

    Parameters
    ----------
    actions : int8 array [n]
        The action of each.

    Raises
    ------
    InvalidInputError
        A value is not a bitmap.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)[layout.rows]
    used = np.isin(actions, (Action.ADD, Action.OLDER, Action.SET)) & valid
    events = layout.events(used & layout.since_reset(actions))
    values = column.take(pa.array(layout.rows[events.at])).to_pylist()
    results: list[bytes | None] = [None] * len(layout.starts)
    for segment, start, length in zip(
        events.segments.tolist(), events.starts.tolist(), events.lengths.tolist(), strict=True
    ):
        own = values[start : start + length]
        results[segment] = own[0] if length == 1 else _united(own, name)
    return pa.array(results, column.type)


def _united(bitmaps: list[bytes], name: str) -> bytes:
    try:
        return union(bitmaps)
    except CorruptError as error:
        message = (
            f"Column '{name}' is aggregated by 'rbm32', but a value is not a roaring bitmap:"
            f" {error.message} Write bitmaps in the portable format of RoaringBitmap."
        )
        raise InvalidInputError(message, kind="aggregate_value", column=name) from error
