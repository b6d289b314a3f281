"""A sorted run being read: the current batch, its encoded keys, and how far it is given out.

1. `fill` takes the next batch of the run when the current one is used up. A batch of very many
   bytes is cut, so that a group of all runs stays within its share of the memory and no string
   column of it nears Arrow's limit of 2 GiB.
2. `encode` gives the batch's rows keys that compare with those of the other runs: fixed-width bytes
   need one width for all. Where a longer key shows up the other runs' rows are encoded again,
   which is rare. With very wide keys only a window of the batch is encoded at a time, so keys
   never take more than rows may, or :data:`KEY_BYTES_MAX`, per run.
3. `advance` hands out the rows up to a key.

Memory: one batch and its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.format import KIND_FIELD, SEQUENCE_FIELD
from tidelake.merge.segments import Keys
from tidelake.merge.spec import MergeSpec
from tidelake.telemetry import invariants_on

__all__ = ["KEY_BYTES_MAX", "RunCursor", "Slice", "batch_parts"]

SLICE_BYTES_MAX = 128 << 20
"""Most bytes of rows that one run holds."""

KEY_BYTES_MAX = 32 << 20
"""Most bytes of encoded keys that one run holds."""
FIXED_KEY_BYTES = 16
"""Room for a column's fixed part: a wide decimal, a length."""

NO_KINDS = np.empty(0, np.int8)
NO_KEYS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive rows of one run, with what the merge needs of them as arrays.

    Parameters
    ----------
    rows : pyarrow.RecordBatch [n]
        The rows.
    keys : array [n]
        Encoded keys.
    kinds : int8 array [n]
        Row kinds.
    sequence_bounds : (int, int)
        No sequence number of the rows lies outside.
    level : int
        The level of the run.
    """

    rows: pa.RecordBatch
    keys: Keys
    kinds: npt.NDArray[np.int8]
    sequence_bounds: tuple[int, int]
    level: int = 0


class RunCursor:
    """Reads one run.

    Requires: the run is sorted by key and has no key twice.

    Parameters
    ----------
    batches : iterator of pyarrow.RecordBatch
        The run.
    spec : MergeSpec
        Names the key columns.
    slice_bytes_max : int
        Batches above this size are cut, and no more bytes of keys are encoded at a time.
    level : int
        The run's level, where it counts.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        spec: MergeSpec,
        *,
        slice_bytes_max: int,
        level: int = 0,
    ) -> None:
        self._batches = batches
        self._spec = spec
        self.level = level
        """The run's level."""
        self._slice_bytes_max = slice_bytes_max
        self._parts: list[pa.RecordBatch] = []  # cut off the current batch; the next one is last
        self._batch: pa.RecordBatch | None = None
        self._key_columns: list[pa.Array] = []
        self._kinds = NO_KINDS
        self._sequence_bounds = (0, 0)
        self._taken = 0  # rows of the batch that are handed out
        self._keys: Keys = NO_KEYS  # of the rows from _keys_start on
        self._keys_start = 0
        self._keys_widths: tuple[int, ...] | None = None
        self.widths: tuple[int, ...] = ()
        """Bytes that the current batch's variable-width key columns need."""

    def fill(self) -> bool:
        """Have a batch with rows left; False where the run has ended."""
        while self._batch is None or self._taken == self._batch.num_rows:
            self._let_go()
            if not self._parts:
                batch = next(self._batches, None)
                if batch is None:
                    return False
                self._parts = list(batch_parts(batch, bytes_max=self._slice_bytes_max))[::-1]
                continue
            self._start(self._parts.pop())
        return True

    def _let_go(self) -> None:
        """Hold nothing of the batch that is used up while the next is read."""
        self._batch = None
        self._key_columns = []
        self._kinds = NO_KINDS
        self._keys = NO_KEYS

    def _start(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._taken = 0
        self._keys_widths = None
        self._key_columns = [batch.column(name) for name in self._spec.key_columns]
        self._kinds = batch.column(KIND_FIELD.name).to_numpy()
        sequence = batch.column(SEQUENCE_FIELD.name).to_numpy()
        self._sequence_bounds = (int(sequence.min()), int(sequence.max()))
        self.widths = key_widths(self._key_columns, self._spec.key_types)

    def encode(self, widths: tuple[int, ...]) -> None:
        """Have keys of these widths for the rows that come next."""
        assert self._batch is not None
        keys_stop = self._keys_start + len(self._keys)
        if self._keys_widths == widths and self._taken < keys_stop:
            return
        count = self._batch.num_rows - self._taken
        width = sum(widths) + FIXED_KEY_BYTES * len(widths)
        rows_max = max(1, min(KEY_BYTES_MAX, self._slice_bytes_max) // width)
        columns = [c.slice(self._taken, min(count, rows_max)) for c in self._key_columns]
        self._keys = encode_keys(columns, self._spec.key_types, widths)
        self._keys_start, self._keys_widths = self._taken, widths
        if invariants_on():
            assert bool(np.all(self._keys[1:] > self._keys[:-1])), "a run's keys must rise"

    @property
    def last_key(self) -> Any:
        """The largest key that is encoded."""
        return self._keys[-1]

    def advance(self, cut: Any) -> Slice | None:
        """Hand out the rows whose keys are at most `cut`; None where there are none."""
        assert self._batch is not None
        begin = self._taken - self._keys_start
        end = len(self._keys)
        if self._keys[-1] > cut:
            end = int(np.searchsorted(self._keys, cut, side="right"))
        if end == begin:
            return None
        count = end - begin
        rows = self._batch.slice(self._taken, count)
        kinds = self._kinds[self._taken : self._taken + count]
        self._taken += count
        return Slice(rows, self._keys[begin:end], kinds, self._sequence_bounds, self.level)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Hand out all rows that are left."""
        while self.fill():
            assert self._batch is not None
            rows = self._batch.slice(self._taken)
            self._taken = self._batch.num_rows
            yield rows


def batch_parts(batch: pa.RecordBatch, *, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about `bytes_max` bytes at most, one row at least; no copy.

    Examples
    --------
    >>> batch = pa.record_batch({"a": [1, 2, 3, 4, 5]})
    >>> [part.num_rows for part in batch_parts(batch, bytes_max=16)]
    [2, 2, 1]
    """
    if batch.num_rows == 0:
        return
    rows_max = max(1, int(batch.num_rows * bytes_max / max(1, batch.nbytes)))
    for offset in range(0, batch.num_rows, rows_max):
        yield batch.slice(offset, rows_max)
