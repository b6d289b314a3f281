"""Sorts any number of rows by columns, in memory or by way of local disk.

1. Rows wait in memory. When they fill the buffer they are sorted and spilled as a run.
2. Without a spilled run the buffer's order is the result. Otherwise all runs are merged: each round
   takes the rows up to the smallest last key of the batches at hand, which is all of one batch at
   least, sorts them together and gives them.
3. Many runs are joined on the way (:mod:`tidelake.merge.runs.spill`).

Nothing is decided: every row comes out. The order of equal rows is not promised.

Memory: the buffer, once more while its columns are joined, and its keys; in a merge one batch of
each run and the rows of a round. Cost O(n log n), and each row is written and read once per tier of
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidelake.codec.arrow_memory import joined, take_rows
from tidelake.codec.key_order import encode_keys, key_widths
from tidelake.merge.runs.run_cursor import NO_KEYS
from tidelake.merge.runs.sort_buffer import GROUP_BYTES_MAX
from tidelake.merge.runs.spill import Join, SpillStack
from tidelake.merge.segments import Keys, compact_keys, flush_order
from tidelake.telemetry import check_wanted
from tidelake.types.data_type import DataType

GIVEN_ROWS = 65_536
"""Rows of a batch that is given."""


class RowSorter:
    """Sorts rows; for one thread.

    Parameters
    ----------
    columns : sequence of str
        The columns to sort by, most significant first; nulls come first.
    types : sequence of DataType
        Their types.
    buffer_bytes : int
        Rows that are held before they are spilled.
    stack : callable
        Opens the stack of spilled runs, with the function that joins them; called if rows do not
        fit the buffer.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> sorter = RowSorter(["k"], [parse_type("INT")], buffer_bytes=1 << 20, stack=None)
    >>> sorter.add(pa.record_batch({"k": pa.array([3, None, 1], pa.int32())}))
    >>> [row["k"] for rows in sorter.batches() for row in rows.to_pylist()]
    [None, 1, 3]
    """

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[DataType],
        *,
        buffer_bytes: int,
        stack: Callable[[Join], SpillStack] | None,
    ) -> None:
        self._columns = tuple(columns)
        self._types = tuple(types)
        self._buffer_bytes = min(buffer_bytes, GROUP_BYTES_MAX)
        self._open_stack = stack
        self._stack: SpillStack | None = None
        self._rows: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows.

        Raises
        ------
        StorageError
            The local disk failed.
        """
        if not rows.num_rows:
            return
        self._rows.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._buffer_bytes and self._open_stack is not None:
            self._spill()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give all rows in order, once; never an empty batch.

        Raises
        ------
        StorageError
            The local disk failed.
        """
        if self._stack is None:
            rows, self._rows = self._rows, []
            yield from self._sorted(rows)
            return
        if self._rows:
            self._spill()
        yield from self._merged(self._stack.runs())

    def close(self) -> None:
        """Release memory and delete spilled runs."""
        self._rows.clear()
        if self._stack is not None:
            self._stack.clear()

    def _spill(self) -> None:
        if self._stack is None:
            assert self._open_stack is not None, "a stack was given"
            self._stack = self._open_stack(self._merged)
        rows, self._rows, self._held_bytes = self._rows, [], 0
        self._stack.push(self._sorted(rows))

    def _sorted(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sort rows in memory; their list is emptied."""
        if not batches:
            return
        schema = batches[0].schema
        columns = [joined([b.column(i) for b in batches]) for i in range(len(schema))]
        batches.clear()
        keys = [columns[schema.get_field_index(name)] for name in self._columns]
        order = flush_order(
            compact_keys(encode_keys(keys, self._types, key_widths(keys, self._types)))
        )
        for begin in range(0, len(order), GIVEN_ROWS):
            check_wanted()
            some = order[begin : begin + GIVEN_ROWS]
            yield pa.RecordBatch.from_arrays([take_rows(c, some) for c in columns], schema=schema)

    def _merged(self, runs: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Merge sorted runs."""
        heads = [head for run in runs if (head := _Head(run)).fill()]
        widths = (0,) * len(self._types)
        while heads:
            check_wanted()
            new = [head for head in heads if not len(head.keys)]
            wanted = [key_widths(self._keys_of(head.rows), self._types) for head in new]
            widest = tuple(map(max, zip(widths, *wanted, strict=True)))
            for head in new if widest == widths else heads:  # keys of one width compare
                head.keys = encode_keys(self._keys_of(head.rows), self._types, widest)
            widths = widest
            bound = min(head.keys[-1] for head in heads)
            parts: list[pa.RecordBatch] = []
            keys: list[Keys] = []
            for head in heads:
                count = int(np.searchsorted(head.keys, bound, side="right"))
                if count:
                    parts.append(head.rows.slice(0, count))
                    keys.append(head.keys[:count])
                    head.drop(count)
            yield _in_order(parts, np.concatenate(keys))
            heads = [head for head in heads if head.fill()]

    def _keys_of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [rows.column(name) for name in self._columns]


def rows_in_order(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[str],
    types: Sequence[DataType],
    *,
    buffer_bytes: int,
    stack: Callable[[Join], SpillStack],
) -> Iterator[pa.RecordBatch]:
    """Give all rows of some batches in the order of columns; parameters as of RowSorter.

    Raises
    ------
    StorageError
        The local disk failed.
    """
    sorter = RowSorter(columns, types, buffer_bytes=buffer_bytes, stack=stack)
    try:
        for batch in batches:
            sorter.add(batch)
        yield from sorter.batches()
    finally:
        sorter.close()


@dataclass(slots=True)
class _Head:
    """The rows of a run that are at hand.

    Parameters
    ----------
    keys : array
        Their keys; none before they are encoded.
    """

    run: Iterator[pa.RecordBatch]
    rows: pa.RecordBatch = field(default_factory=lambda: pa.record_batch({}))
    keys: Keys = field(default_factory=lambda: NO_KEYS)

    def fill(self) -> bool:
        """Take the next batch if there are no rows; False at the end of the run."""
        while not self.rows.num_rows:
            following = next(self.run, None)
            if following is None:
                return False
            self.rows, self.keys = following, NO_KEYS
        return True

    def drop(self, count: int) -> None:
        """Drop the first rows."""
        self.rows, self.keys = self.rows.slice(count), self.keys[count:]


def _in_order(parts: Sequence[pa.RecordBatch], keys: Keys) -> pa.RecordBatch:
    """Rows of several sorted parts as one."""
    if len(parts) == 1:
        return parts[0]
    order = flush_order(compact_keys(keys))
    schema = parts[0].schema
    columns = [joined([part.column(i) for part in parts]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays([take_rows(c, order) for c in columns], schema=schema)
