"""Sorted runs read in parallel, in groups of whole keys.

1. Every run holds one batch (64 k rows are best: smaller ones cost Python time, larger ones cache
   misses). The **cut** is the smallest of the runs' last buffered keys.
2. All rows up to the cut form a **group**. Keys are unique inside a run, so a key lies in exactly
   one group. A run that has used up its batch reads the next.
3. When one run remains, its rows are returned without looking at a key.

Memory: a batch of each run, cut to the run's share of the bytes for merged rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidelake.merge.runs.run_cursor import SLICE_BYTES_MAX, RunCursor, RunSlice
from tidelake.merge.spec import MergeSpec
from tidelake.telemetry import Memory

WIDTH_STEP_BYTES = 8
WIDTH_SLACK = 4
WIDTH_SMALL_BYTES = 64


class RunGroups:
    """Reads runs.

    Requires: each run is sorted by key and has no key twice.

    Parameters
    ----------
    runs : sequence of iterators of pyarrow.RecordBatch
        The runs, oldest first.
    """

    def __init__(
        self,
        runs: Sequence[Iterator[pa.RecordBatch]],
        spec: MergeSpec,
        *,
        memory: Memory,
        levels: Sequence[int],
    ) -> None:
        share = min(SLICE_BYTES_MAX, memory.merge_rows_bytes // max(1, len(runs)))
        self._live = [
            RunCursor(run, spec, slice_bytes_max=share, level=level, run=number)
            for number, (run, level) in enumerate(zip(runs, levels, strict=True))
        ]
        self._widths: tuple[int, ...] = ()

    def next_group(self) -> list[RunSlice] | None:
        """Give the rows of the next keys, oldest run first; None when at most one run remains."""
        self._live = [cursor for cursor in self._live if cursor.fill()]
        if len(self._live) <= 1:
            return None
        self._widths = _common_widths(self._live, self._widths)
        for cursor in self._live:
            cursor.encode(self._widths)
        cut = min(cursor.last_key for cursor in self._live)
        return [rows for cursor in self._live if (rows := cursor.advance(cut)) is not None]

    def rest(self) -> Iterator[tuple[pa.RecordBatch, RunCursor]]:
        """Give the rest of the last run, each batch with the run."""
        for cursor in self._live:
            for rows in cursor.rest():
                yield rows, cursor


def _common_widths(live: Sequence[RunCursor], widths: tuple[int, ...]) -> tuple[int, ...]:
    """Widths that hold every run's keys; the current ones while they hold them and are close.

    Rounding up and slack avoid that slightly different lengths encode all runs again.
    """
    needed = tuple(max(column) for column in zip(*(c.widths for c in live), strict=True))
    holds = len(widths) == len(needed) and all(w >= n for w, n in zip(widths, needed, strict=True))
    if holds and sum(widths) <= max(WIDTH_SMALL_BYTES, WIDTH_SLACK * sum(needed)):
        return widths
    return tuple(-(-n // WIDTH_STEP_BYTES) * WIDTH_STEP_BYTES for n in needed)
