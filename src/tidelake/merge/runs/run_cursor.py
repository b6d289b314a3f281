"""Reads a sorted run: the current batch, its encoded keys, and the position in it.

1. `fill` reads the run's next batch after the current one is used up. A very large batch is cut, so
   that a group of all runs stays within its share of the memory and no string column nears Arrow's
   limit of 2 GiB.
2. `encode` gives the batch's rows keys that compare with those of the other runs: fixed-width bytes
   need one width for all. If a longer key appears, the other runs' rows are encoded again, which is
   rare. Of very wide keys only a window of the batch is encoded at a time, so keys never take more
   than rows may, or :data:`KEY_BYTES_MAX`, per run.
3. `advance` returns the rows up to a key.
4. A few remaining rows of a batch are copied, and the next batch is read behind them. Otherwise
   each run would end its batches at its own keys, with a small group between one such key and the
   next: for runs of one size, as many small groups for each large one as there are runs.

Memory: one batch and its keys, and the copied rows of the one before. Rows are copied only if the
last batch was so small that both would have fit the run's share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

SLICE_BYTES_MAX = 128 << 20
"""Most bytes of rows that one run holds."""

KEY_BYTES_MAX = 32 << 20
"""Most bytes of encoded keys that one run holds."""
FIXED_KEY_BYTES = 16
"""Room for a column's fixed part: a wide decimal, a length."""

LEFT_SHARE = 8
"""The remaining rows of a batch are few if they are at most one in so many of it."""

NO_KEYS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class RunSlice:
    """Consecutive rows of one run, with arrays for the merge.

    Parameters
    ----------
    rows : pyarrow.RecordBatch [n]
        The rows.
    keys : array [n]
        Encoded keys.
    kinds : int8 array [n]
        Row kinds.
    run : int
        The number of the run, 0 for the oldest.
    """

    rows: pa.RecordBatch
    keys: Keys
    kinds: npt.NDArray[np.int8]
    sequence_bounds: tuple[int, int]
    level: int = 0
    run: int = 0


class _Held:
    """A batch, and the position in it."""

    def __init__(self, batch: pa.RecordBatch, spec: MergeSpec, level: int, run: int) -> None:
        self._batch = batch
        self._spec = spec
        self._level = level
        self._run = run
        self._key_columns = [batch.column(name) for name in spec.key_columns]
        self._kinds = batch.column(KIND_FIELD.name).to_numpy()
        sequence = batch.column(SEQUENCE_FIELD.name).to_numpy()
        self._sequence_bounds = (int(sequence.min()), int(sequence.max()))
        self._taken = 0  # rows already returned
        self._keys: Keys = NO_KEYS  # of the rows from _keys_start on
        self._keys_start = 0
        self._keys_widths: tuple[int, ...] | None = None
        self.widths = key_widths(self._key_columns, spec.key_types)
        """Bytes that the variable-width key columns need."""

    @property
    def rest_count(self) -> int:
        """How many rows remain."""
        return self._batch.num_rows - self._taken

    @property
    def has_few(self) -> bool:
        """Whether only a few of the batch's rows remain."""
        return self.rest_count * LEFT_SHARE <= self._batch.num_rows

    def rest(self) -> pa.RecordBatch:
        """Return the remaining rows."""
        return self._batch.slice(self._taken)

    def encode(self, widths: tuple[int, ...], *, bytes_max: int) -> None:
        """Encode keys of these widths for the next rows."""
        keys_stop = self._keys_start + len(self._keys)
        if self._keys_widths == widths and self._taken < keys_stop:
            return
        width = sum(widths) + FIXED_KEY_BYTES * len(widths)
        rows_max = max(1, bytes_max // width)
        columns = [c.slice(self._taken, min(self.rest_count, rows_max)) for c in self._key_columns]
        self._keys = encode_keys(columns, self._spec.key_types, widths)
        self._keys_start, self._keys_widths = self._taken, widths
        if invariants_on():
            assert bool(np.all(self._keys[1:] > self._keys[:-1])), "a run's keys must rise"

    @property
    def keys_are_whole(self) -> bool:
        """Whether all remaining rows have keys."""
        return self._keys_start + len(self._keys) == self._batch.num_rows

    @property
    def last_key(self) -> Any:
        """The largest key that is encoded."""
        return self._keys[-1]

    def advance(self, cut: Any) -> RunSlice | None:
        """Return the rows whose keys are at most `cut`; None if there are none."""
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
        return RunSlice(
            rows, self._keys[begin:end], kinds, self._sequence_bounds, self._level, self._run
        )


class RunCursor:
    """Reads one run.

    Requires: the run is sorted by key and has no key twice.

    Parameters
    ----------
    slice_bytes_max : int
        Batches above this size are cut, and no more bytes of keys are encoded at a time.
    level : int
        The run's level, if it matters.
    run : int
        The run's number, if it matters.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        spec: MergeSpec,
        *,
        slice_bytes_max: int,
        level: int = 0,
        run: int = 0,
    ) -> None:
        self._batches = batches
        self._spec = spec
        self.level = level
        """The run's level."""
        self.run = run
        """The run's number."""
        self._slice_bytes_max = slice_bytes_max
        self._parts: list[pa.RecordBatch] = []  # cut off the current batch; the next one is last
        self._left: _Held | None = None  # the rest of the batch before the current one
        self._held: _Held | None = None
        self._batch_bytes = 0
        self._has_ended = False

    def fill(self) -> bool:
        """Load a batch with remaining rows; False if the run has ended."""
        if self._held is not None and self._held.rest_count:
            if self._held.has_few and self._may_read_behind():
                self._read_behind()
            return True
        self._held = None  # release the used batch before the next is read
        self._held = self._next_held()
        return self._held is not None

    def _may_read_behind(self) -> bool:
        room = self._slice_bytes_max - self._slice_bytes_max // LEFT_SHARE
        has_room = not self._parts and self._batch_bytes <= room
        return has_room and self._left is None and not self._has_ended

    def _read_behind(self) -> None:
        """Copy the remaining rows, so that their batch is released, and read the next one."""
        assert self._held is not None
        rest = self._held.rest()
        copied = rest.take(pa.array(np.arange(rest.num_rows)))
        left = _Held(copied, self._spec, self.level, self.run)
        self._held = None
        del rest, copied
        self._held = self._next_held()
        if self._held is None:
            self._held = left
        else:
            self._left = left

    def _next_held(self) -> _Held | None:
        while not self._parts:
            batch = next(self._batches, None)
            if batch is None:
                self._has_ended = True
                return None
            self._batch_bytes = batch.nbytes
            self._parts = list(batch_parts(batch, bytes_max=self._slice_bytes_max))[::-1]
        return _Held(self._parts.pop(), self._spec, self.level, self.run)

    def _all_held(self) -> list[_Held]:
        return [held for held in (self._left, self._held) if held is not None]

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes that the variable-width key columns of the held rows need."""
        each = [held.widths for held in self._all_held()]
        return tuple(max(column) for column in zip(*each, strict=True))

    def encode(self, widths: tuple[int, ...]) -> None:
        """Encode keys of these widths for the next rows."""
        for held in self._all_held():
            held.encode(widths, bytes_max=min(KEY_BYTES_MAX, self._slice_bytes_max))

    @property
    def last_key(self) -> Any:
        """The largest key up to which all rows have keys."""
        first, *behind = self._all_held()
        return behind[0].last_key if behind and first.keys_are_whole else first.last_key

    def advance(self, cut: Any) -> RunSlice | None:
        """Return the rows whose keys are at most `cut`; None if there are none."""
        slices = []
        for held in self._all_held():
            rows = held.advance(cut)
            if rows is not None:
                slices.append(rows)
            if held.rest_count:
                break
            self._left = None if held is self._left else self._left
        return _together(slices) if len(slices) > 1 else next(iter(slices), None)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return all remaining rows."""
        yield from [held.rest() for held in self._all_held() if held.rest_count]
        self._left = self._held = None
        while (held := self._next_held()) is not None:
            rows = held.rest()
            del held  # else it stays alive while the next is read
            yield rows
            del rows


def _together(slices: Sequence[RunSlice]) -> RunSlice:
    """Join consecutive slices of one run."""
    lows, highs = zip(*(s.sequence_bounds for s in slices), strict=True)
    return RunSlice(
        pa.concat_batches([s.rows for s in slices]),
        np.concatenate([s.keys for s in slices]),
        np.concatenate([s.kinds for s in slices]),
        (min(lows), max(highs)),
        slices[0].level,
        slices[0].run,
    )


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
