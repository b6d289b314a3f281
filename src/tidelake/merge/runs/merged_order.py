"""The order of a merge, noted while it runs, and rows put in it again without their keys.

Where a merge gives rows as they are, its result is told by two facts about immutable runs: which
rows of each run it gives, and for each row of the result, from which run it comes. Inside a run the
rows keep their order. That takes a bit for each row read and a byte for each row given.

1. :class:`OrderRecorder` notes both, group by group, while :func:`merge_runs` works.
2. :func:`rows_in_order` reads the same runs again, any of their columns. The bytes of a **group**
   of the result give each run's places in it. Rows are given as far as the batch at hand of each
   run goes: their places are their positions, and one gather per column follows.

No key, sequence number or kind is read or compared the second time.

Complexity: O(n). Memory: a batch of each run, its rows joined, and these gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import joined, take_rows
from tidelake.merge.runs.run_cursor import RunSlice

RUNS_MAX = 255
GROUP_ROWS = 65_536
COMPARED_RUNS_MAX = 8
"""Of so many runs each is looked for by a comparison; a sort costs as much as these."""
OBJECT_BYTES = 400


@dataclass(frozen=True, slots=True, eq=False)
class MergedOrder:
    """The result of a merge, without its rows. Immutable.

    Parameters
    ----------
    run_of : uint8 array [rows of the result]
        The run of each row, 0 for the oldest.
    kept : tuple of uint8 arrays
        For each run a bit per row that is read, lowest first: whether the result has it.
    rows_counts : tuple of int
        The rows of each run.
    """

    run_of: npt.NDArray[np.uint8]
    kept: tuple[npt.NDArray[np.uint8], ...]
    rows_counts: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return OBJECT_BYTES + self.run_of.nbytes + sum(bits.nbytes for bits in self.kept)


def order_bytes(rows_count: int, runs_count: int) -> int:
    """The most memory of an order, while it is noted and after.

    Examples
    --------
    >>> order_bytes(1_000_000, 3)
    1125403
    """
    return OBJECT_BYTES + rows_count + rows_count // 8 + runs_count


class OrderRecorder:
    """Notes the order of one merge.

    Parameters
    ----------
    bytes_max : int
        With more bytes nothing is noted: a bit for each row read, and a byte for each row given.
    """

    def __init__(self, runs_count: int, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._nbytes = 0.0
        self._is_whole = runs_count <= RUNS_MAX
        self._run_of = bytearray()  # it grows without a second copy
        self._kept = [_Bits() for _ in range(runs_count)]

    def give_up(self) -> None:
        """Note nothing: the runs are not those that a reader will find."""
        self._is_whole = False
        self._run_of.clear()
        self._kept.clear()

    def add_group(self, slices: Sequence[RunSlice], rows: npt.NDArray[np.int64]) -> None:
        """Note what a merge gives of a group.

        Parameters
        ----------
        rows : int64 array
            Positions of the rows given, in their order; the slices lie one after the other.
        """
        counts = [s.rows.num_rows for s in slices]
        if not self._has_room(sum(counts) / 8 + len(rows)):
            return
        self._run_of += np.repeat(np.array([s.run for s in slices], np.uint8), counts)[rows].data
        flags = np.zeros(sum(counts), np.bool_)
        flags[rows] = True
        begin = 0
        for s, count in zip(slices, counts, strict=True):
            self._kept[s.run].add(flags[begin : begin + count])
            begin += count

    def add_rows(self, run: int, adds: npt.NDArray[np.bool_] | int) -> None:
        """Note rows of a run that no other run has.

        Parameters
        ----------
        adds : bool array or int
            Which of the rows are given; or how many, if all are.
        """
        flags = np.ones(adds, np.bool_) if isinstance(adds, int) else adds
        given = int(np.count_nonzero(flags))
        if self._has_room(len(flags) / 8 + given):
            self._run_of += np.full(given, run, np.uint8).data
            self._kept[run].add(flags)

    def order(self) -> MergedOrder | None:
        """The order, after the last group; None if it was too large."""
        if not self._is_whole:
            return None
        return MergedOrder(
            np.frombuffer(self._run_of, np.uint8),
            tuple(bits.whole() for bits in self._kept),
            tuple(bits.count for bits in self._kept),
        )

    def _has_room(self, nbytes: float) -> bool:
        self._nbytes += nbytes
        if self._is_whole and self._nbytes > self._bytes_max:
            self.give_up()
        return self._is_whole


class _Bits:
    """Flags, packed as they come."""

    def __init__(self) -> None:
        self.count = 0
        self._packed = bytearray()
        self._rest = np.zeros(0, np.bool_)  # less than a byte

    def add(self, flags: npt.NDArray[np.bool_]) -> None:
        self.count += len(flags)
        flags = np.concatenate([self._rest, flags])
        whole = len(flags) - len(flags) % 8
        self._packed += np.packbits(flags[:whole], bitorder="little").data
        self._rest = flags[whole:].copy()

    def whole(self) -> npt.NDArray[np.uint8]:
        last = np.packbits(self._rest, bitorder="little")
        return np.concatenate([np.frombuffer(self._packed, np.uint8), last])


def rows_in_order(
    order: MergedOrder, runs: Sequence[Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a merge whose order is known.

    Requires: the runs have the rows that were merged, in their order.

    Parameters
    ----------
    runs : sequence of iterators of pyarrow.RecordBatch
        The runs, oldest first, with the columns wanted, at least one; all of one schema.

    Yields
    ------
    pyarrow.RecordBatch
        Never empty.
    """
    live = [
        _Run(run, kept, count)
        for run, kept, count in zip(runs, order.kept, order.rows_counts, strict=True)
    ]
    for begin in range(0, len(order.run_of), GROUP_ROWS):
        group = order.run_of[begin : begin + GROUP_ROWS]
        places, at = _rows_of_runs(group, len(live)), 0
        while at < len(group):
            for run, own in zip(live, places, strict=True):
                if len(own):
                    run.fill()
            # batches of runs differ in rows: waiting for one run must not pile up those of another
            short = (
                own[run.ready]
                for run, own in zip(live, places, strict=True)
                if len(own) > run.ready
            )
            end = int(min(short, default=len(group)))
            counts = [int(np.searchsorted(own, end)) for own in places]
            now = [own[:count] - at for own, count in zip(places, counts, strict=True)]
            places = [own[count:] for own, count in zip(places, counts, strict=True)]
            yield _gathered(live, now, end - at)
            at = end


def _rows_of_runs(window: npt.NDArray[np.uint8], runs_count: int) -> list[npt.NDArray[np.int64]]:
    """Each run's places in the window."""
    if runs_count <= COMPARED_RUNS_MAX:
        return [np.flatnonzero(window == run) for run in range(runs_count)]
    ends = np.cumsum(np.bincount(window, minlength=runs_count))
    return np.split(np.argsort(window, kind="stable"), ends[:-1])


def _gathered(
    live: Sequence[_Run], places: Sequence[npt.NDArray[np.int64]], rows_count: int
) -> pa.RecordBatch:
    """The next rows of the result, those of each run at its places."""
    if max(map(len, places)) == rows_count:  # one run
        [run] = [run for run, own in zip(live, places, strict=True) if len(own)]
        part, positions = run.take(rows_count)
        if part.num_rows == rows_count:
            return part  # all its rows, as they are
        parts = [part]
    else:
        positions, parts = np.empty(rows_count, np.int64), []
        begin = 0
        for run, own in zip(live, places, strict=True):
            if len(own):
                part, taken = run.take(len(own))
                positions[own] = taken + begin
                begin += part.num_rows
                parts.append(part)
    columns = [
        take_rows(joined([part.column(n) for part in parts]), positions, near=True)
        for n in range(parts[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=parts[0].schema)


class _Run:
    """A run that is read again: the batch at hand, and which of its rows count."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], kept: npt.NDArray[np.uint8], rows_count: int
    ) -> None:
        self._batches = batches
        self._kept = kept
        self._rows_count = rows_count
        self._rows_read = 0
        self._batch: pa.RecordBatch | None = None
        self._positions = np.zeros(0, np.int64)

    @property
    def ready(self) -> int:
        """Rows at hand that count."""
        return len(self._positions)

    def fill(self) -> None:
        """Read until at least one row that counts is at hand."""
        while not self.ready:
            batch = next(self._batches, None)
            assert batch is not None, "a run has the rows that it had"
            self._batch = batch
            self._positions = np.flatnonzero(self._flags(batch.num_rows))

    def _flags(self, count: int) -> npt.NDArray[np.uint8]:
        """Which of the next rows count [count]."""
        begin, end = self._rows_read, self._rows_read + count
        assert end <= self._rows_count, "a run has the rows that it had"
        self._rows_read = end
        first = begin // 8
        bits = np.unpackbits(self._kept[first : -(-end // 8)], bitorder="little")
        return bits[begin - 8 * first : end - 8 * first]

    def take(self, count: int) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """Take so many rows of those at hand: a part of the batch, and their positions in it."""
        batch, own = self._batch, self._positions[:count]
        assert batch is not None
        self._positions = self._positions[count:]
        if not self.ready:
            self._batch = None  # so that it does not stay while the next is read
        low, high = int(own[0]), int(own[-1]) + 1
        return batch.slice(low, high - low), own - low
