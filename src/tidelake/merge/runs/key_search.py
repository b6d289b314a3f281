"""Finds the rows of a sorted run whose keys are also in other sorted runs.

The runs are read in parallel, in groups of whole keys. The search ends with the run, or with the
others. Only the keys of the rows matter, so all runs may be read with as few columns as the caller
wants.

Complexity: O(n log m) comparisons for n rows of the run and m of the others in a group; memory of
a batch of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelake.merge.runs.run_groups import RunGroups
from tidelake.merge.segments import compact_keys
from tidelake.merge.spec import MergeSpec
from tidelake.telemetry import UNLIMITED, Memory

SEARCHED, GIVEN = 1, 0


def rows_with_keys(
    run: Iterator[pa.RecordBatch],
    given: Sequence[Iterator[pa.RecordBatch]],
    spec: MergeSpec,
    *,
    memory: Memory = UNLIMITED,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a run whose keys are among those of other runs.

    Requires: each run is sorted by key and has no key twice.

    Parameters
    ----------
    run : iterator of pyarrow.RecordBatch
        The run that is searched: the spec's key columns, ``_SEQUENCE_NUMBER``, ``_VALUE_KIND`` and
        any others.
    given : sequence of iterators of pyarrow.RecordBatch
        The runs with the wanted keys; they may have other columns than the run.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty; with all columns of the run, sorted by key.
    """
    levels = [SEARCHED, *[GIVEN] * len(given)]
    groups = RunGroups([run, *given], spec, memory=memory, levels=levels)
    while (slices := groups.next_group()) is not None:
        if slices[0].level != SEARCHED or len(slices) == 1:
            continue
        counts = [s.rows.num_rows for s in slices]
        keys = compact_keys(np.concatenate([s.keys for s in slices]))
        held, wanted = keys[: counts[0]], keys[counts[0] :]
        at = np.searchsorted(held, wanted)
        at[at == len(held)] = 0
        mask = np.zeros(len(held), np.bool_)
        mask[at[held[at] == wanted]] = True
        if mask.any():
            yield slices[0].rows.filter(pa.array(mask))
