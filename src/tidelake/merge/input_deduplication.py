"""The rows of one write that count, for keys that are looked up before their rows have numbers.

A key that may change partition is looked up before its rows are routed, so its writer, which
numbers and merges rows, is not known yet. Its rows are in order of arrival, the only order of such
a table: ``sequence.field`` is refused there. Cost: a group-by of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW

_ROW = "_tidelake_row"


def deduplicate_input(table: pa.Table, keys: Sequence[str], *, engine: str) -> pa.RecordBatch:
    """The rows of a write that the engine uses, in their order.

    For ``deduplicate`` the last of each key, for ``first-row`` the first, else all.

    Parameters
    ----------
    table : Table
        Not empty.
    """
    which = {DEDUPLICATE: "max", FIRST_ROW: "min"}.get(engine)
    if which is not None:
        numbered = table.select(keys).append_column(_ROW, pa.array(np.arange(table.num_rows)))
        ends = numbered.group_by(keys).aggregate([(_ROW, which)]).column(f"{_ROW}_{which}")
        table = table.take(pa.array(np.sort(ends.to_numpy())))
    batches = table.combine_chunks().to_batches()
    assert len(batches) == 1, "a table of one chunk"
    batch: pa.RecordBatch = batches[0]
    return batch
