"""Rows that a writer holds in memory, in arrival order, and their size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

PINNED_RATIO = 64
OWNED_RATIO = 1.25
BATCH_BYTES = 2 << 10
"""A batch's bytes besides its rows; most of the memory of batches of a few rows."""
PINNED_BYTES_MIN = 1 << 20


class RowBuffer:
    """Batches and their size.

    Parameters
    ----------
    owns_rows : bool
        Whether to copy every slice of something larger. A buffer then holds exactly its size, and
        keeps nothing alive that others have released; needed if memory is limited.

    Examples
    --------
    >>> buffer = RowBuffer()
    >>> buffer.append(pa.record_batch({"a": [1, 2]}))
    >>> buffer.size_bytes, buffer.row_count
    (16, 2)
    """

    def __init__(self, *, owns_rows: bool = False) -> None:
        self._pinned_ratio = OWNED_RATIO if owns_rows else PINNED_RATIO
        self._batch_bytes = BATCH_BYTES if owns_rows else 0
        self._batches: list[pa.RecordBatch] = []
        self.size_bytes = 0
        self.row_count = 0

    @property
    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """The batches in arrival order."""
        return tuple(self._batches)

    def oldest(self, size_bytes: int | None) -> Sequence[pa.RecordBatch] | None:
        """The first batches of this size together; None if all are needed or no size is given."""
        if size_bytes is None:
            return None
        held_bytes = 0
        for number, batch in enumerate(self._batches[:-1], start=1):
            held_bytes += self._size_of(batch)
            if held_bytes >= size_bytes:
                return self._batches[:number]
        return None

    def drop_oldest(self, count: int) -> None:
        """Release the first batches."""
        self.replace(self._batches[count:])

    def append(self, batch: pa.RecordBatch) -> None:
        """Take rows; a tiny slice of large buffers is copied, so that they can be released."""
        if batch.num_rows == 0:
            return
        held_bytes = batch.get_total_buffer_size()
        if held_bytes > PINNED_BYTES_MIN and held_bytes > self._pinned_ratio * batch.nbytes:
            batch = batch.take(pa.array(np.arange(batch.num_rows, dtype=np.int64)))
        self._hold(batch)

    def replace(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Hold only these rows; slices of one table that are all kept are not copied."""
        self.clear()
        for batch in batches:
            self._hold(batch)

    def clear(self) -> None:
        """Release all rows."""
        self._batches.clear()
        self.size_bytes = self.row_count = 0

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.size_bytes += self._size_of(batch)
        self.row_count += batch.num_rows

    def _size_of(self, batch: pa.RecordBatch) -> int:
        return batch.nbytes + self._batch_bytes
