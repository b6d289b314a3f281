"""The engine first-row: the oldest row of a key stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelake.merge.engines.engine import Merged
from tidelake.merge.segments import Segments


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The oldest row of a key wins; rows that retract are ignored.

    A table of this engine refuses retractions or ignores them
    (:func:`tidelake.merge.check_retractions`), but old files may hold some. A key with only
    retractions has no row, unless it has a single one, which stays as it is.

    Source: Paimon's ``FirstRowMergeFunction`` (1.3.1).

    Examples
    --------
    >>> order = np.array([0, 2, 1])
    >>> first = np.array([True, False, True])
    >>> segments = Segments(order, first, np.array([0, 0, 0], np.int8))
    >>> FirstRow().merge(pa.table({}), segments).rows.tolist()
    [0, 1]
    """

    def merge(self, rows: pa.Table, segments: Segments) -> Merged:  # noqa: ARG002
        """Take the first row of each segment that adds."""
        winners = segments.order[segments.first]
        retract = (segments.kinds[segments.order] & 1) != 0
        if retract.any():
            starts = segments.starts
            count = len(retract)
            place = np.arange(count, dtype=np.int64)
            place[retract] = count
            oldest_add = np.minimum.reduceat(place, starts)
            lone = np.diff(starts, append=count) == 1
            oldest_add[lone] = starts[lone]
            winners = segments.order[oldest_add[oldest_add < count]]
        return Merged(winners, segments.kinds[winners])
