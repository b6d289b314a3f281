"""The interface between ordering rows and choosing a key's row.

An engine receives the rows of a group of whole keys in merge order (:class:`Segments`) and returns
each key's row (:class:`Merged`). It knows no runs, batches or files, and the streaming loop knows
no engine. A new engine needs a class here and a name in
:func:`~tidelake.merge.engines.engine_of.engine_of`.

In Paimon (``ReducerMergeFunctionWrapper``) a key with exactly one row in the whole merge bypasses
the engine: the row stays as it is. The streaming loop relies on that when it passes a stretch of
one run on unchanged, so an engine must return lone rows unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.merge.segments import Segments


@dataclass(frozen=True, slots=True)
class Merged:
    """One row per surviving key, in key order.

    Parameters
    ----------
    rows : int64 array [m]
        The input row that gives the key, the sequence number and every column not in `columns`.
    kinds : int8 array [m]
        The kind of the merged row.
    columns : mapping of str to pyarrow.Array [m]
        Columns that the engine computed.
    """

    rows: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    columns: Mapping[str, pa.Array] = field(default_factory=dict)

    def without_retracts(self) -> Merged:
        """The same without keys whose row is a retraction."""
        add = (self.kinds & 1) == 0
        if add.all():
            return self
        mask = pa.array(add)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return Merged(self.rows[add], self.kinds[add], columns)


class MergeEngine(Protocol):
    """Decides each key's row."""

    def merge(self, rows: pa.Table, segments: Segments) -> Merged:
        """Merge whole keys.

        Parameters
        ----------
        rows : pyarrow.Table
            The rows that `segments` refers to by position; in their original chunks.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The newest row of a key wins, whatever its kind; if it retracts, the key is deleted.

    Source: Paimon's ``DeduplicateMergeFunction`` (1.3.1). With `ignore_delete` retractions are
    ignored: the newest row that adds wins, and a key of several retractions and nothing else has
    no row.

    Examples
    --------
    >>> order = np.array([0, 2, 1])
    >>> first = np.array([True, False, True])
    >>> segments = Segments(order, first, np.array([0, 0, 3], np.int8))
    >>> merged = Deduplicate().merge(pa.table({}), segments)
    >>> merged.rows.tolist(), merged.kinds.tolist()
    ([2, 1], [3, 0])
    """

    ignore_delete: bool = False

    def merge(self, rows: pa.Table, segments: Segments) -> Merged:  # noqa: ARG002
        """Take the last row of each segment."""
        winners = segments.newest
        if self.ignore_delete:
            winners = self._last_adds(segments, winners)
        return Merged(winners, segments.kinds.take(winners))

    def _last_adds(
        self, segments: Segments, winners: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        retract = (segments.kinds[segments.order] & 1) != 0
        if not retract.any():
            return winners
        starts = segments.starts
        place = np.arange(len(retract), dtype=np.int64)
        place[retract] = -1
        newest_add = np.maximum.reduceat(place, starts)
        lone = segments.lengths == 1
        newest_add[lone] = starts[lone]  # a lone row bypasses the merge
        return segments.order[newest_add[newest_add >= 0]]
