"""Merges rows that were looked up: of any keys, from any runs, in any order of keys.

The caller names each row's key by a number, so keys are neither encoded nor compared here. What a
key's rows become is what a merge of whole runs makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge.engines.engine_of import engine_of
from tidelake.merge.engines.materialise import gather
from tidelake.merge.runs.sorted_runs import rows_that_count
from tidelake.merge.segments import merge_order, segments_of
from tidelake.merge.sequence import rank_rows
from tidelake.merge.spec import MergeSpec


def fold_rows(
    batches: Sequence[pa.RecordBatch],
    keys: npt.NDArray[np.int64],
    levels: npt.NDArray[np.int64],
    spec: MergeSpec,
    *,
    columns: Sequence[str],
) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
    """Merge the rows of some keys.

    Parameters
    ----------
    batches : sequence of pyarrow.RecordBatch
        At least one: each run's rows of these keys, oldest run first, no key twice in a run; with
        the spec's columns, ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``. Key columns may be absent.
    keys : int64 array [n]
        The key of each row.
    levels : int64 array [n]
        The level of each row's run.
    columns : sequence of str
        The columns wanted, some; in order.

    Returns
    -------
    keys : int64 array [m]
        The keys that have a row: those whose row retracts have none.
    rows : pyarrow.RecordBatch [m]
        Their rows.
    """
    rows = pa.Table.from_batches(batches)
    kinds = np.concatenate([batch.column(KIND_FIELD.name).to_numpy() for batch in batches])
    ranks = rank_rows(rows, spec, sequence_column=SEQUENCE_FIELD.name)
    segments = segments_of(keys, kinds, sort=merge_order, rank_of=ranks)
    segments = rows_that_count(segments, levels, spec)
    merged = engine_of(spec).merge(rows, segments).without_retracts()
    return keys[merged.rows], gather(rows, merged, columns=columns)
