"""Order columns: where a row stands in its source, so that a late older row never wins.

They are the target's ``sequence.field``: the second line of defence behind epochs that are applied
once, and what keeps order where Spark writes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelake.types import DataField, parse_type

ORDER_NAMES = ("_cdc_lsn", "_cdc_seq")
"""The place of a row's transaction, and of the row in it. On disk: never rename."""
ORDER_FIELDS = tuple(DataField(i, n, parse_type("BIGINT")) for i, n in enumerate(ORDER_NAMES))


def order_values(order: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Give the order columns of a batch, by their names.

    Parameters
    ----------
    order : numpy.ndarray
        int64, ``[n, 2]``: :attr:`tidelake.cdc.source.changes.SourceRows.order`.
    """
    return {name: pa.array(order[:, place]) for place, name in enumerate(ORDER_NAMES)}
