"""Rows of an append table in a clustered order: the columns, the key, and the sort.

1. :class:`ClusterOrder` names the columns and how they become one order. By ``order`` rows are
   sorted by the columns themselves. On a curve the range of each column is found first
   (:class:`KeyRanges`), from the key columns alone; with it, each row gets a key
   (:mod:`tidelake.store.append.curve`).
2. :class:`ClusterKey` is that order for rows of known ranges, and :class:`ClusterSorter` sorts by
   it, within the memory of a write buffer.

Nulls come first. The statistics of the files then tell filters which of them to skip.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from tidelake.codec.key_bounds import KeyBounds
from tidelake.merge import RowSorter, SpillStack
from tidelake.options import declared, write_buffer_bytes
from tidelake.store.append.curve import (
    ColumnFrame,
    Curve,
    CurveRange,
    Strategy,
    column_range,
)
from tidelake.store.context import StoreContext
from tidelake.types import DataField, DataType, parse_type

KEY_COLUMN = "_CLUSTER_KEY"
"""The column of a row's place on the curve, while rows are sorted."""
KEY_TYPE = parse_type("BYTES NOT NULL")


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The range of each clustering column; None for one that has only nulls. Picklable."""

    ranges: tuple[CurveRange | None, ...]

    @classmethod
    def of(cls, fields: Sequence[DataField], batches: Iterable[pa.RecordBatch]) -> Self:
        """Find the ranges of all rows of some batches, which have these columns in order."""
        found = cls((None,) * len(fields))
        for rows in batches:
            own = (column_range(c, f.type) for c, f in zip(rows.columns, fields, strict=True))
            found = found.with_other(cls(tuple(own)))
        return found

    def with_other(self, other: Self) -> Self:
        """Give the ranges of both."""
        both = zip(self.ranges, other.ranges, strict=True)
        return type(self)(tuple(_of_both(one, two) for one, two in both))


def _of_both(one: CurveRange | None, other: CurveRange | None) -> CurveRange | None:
    if one is None or other is None:
        return one or other
    return one.with_other(other)


@dataclass(frozen=True, slots=True)
class ClusterOrder:
    """The order that a table's rows shall have. Picklable.

    Parameters
    ----------
    fields : tuple of DataField
        The columns, in the order of the user's list.
    text_bytes : int
        Bytes of a text that count on a curve.
    before : tuple of DataField
        Columns by which rows are sorted first: those of the partition, where rows of several
        partitions are sorted together.
    """

    fields: tuple[DataField, ...]
    strategy: Strategy
    text_bytes: int = 8
    before: tuple[DataField, ...] = ()

    @classmethod
    def of(cls, context: StoreContext, columns: Sequence[str], strategy: Strategy) -> ClusterOrder:
        """Take columns of a table. Requires: it has them, and they have an order."""
        fields = tuple(context.schema.field(name) for name in columns)
        return cls(fields, strategy, context.options.get(declared.ZORDER_VAR_LENGTH_CONTRIBUTION))

    @property
    def needs_ranges(self) -> bool:
        """Whether the key depends on the ranges of the columns."""
        return self.strategy is not Strategy.ORDER

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to sort by, in rows that have their key (:meth:`ClusterKey.with_key`)."""
        return (*(f.name for f in self.before), *self._names)

    @property
    def types(self) -> tuple[DataType, ...]:
        """Their types."""
        own = (KEY_TYPE,) if self.needs_ranges else tuple(f.type for f in self.fields)
        return (*(f.type for f in self.before), *own)

    @property
    def _names(self) -> tuple[str, ...]:
        return (KEY_COLUMN,) if self.needs_ranges else tuple(f.name for f in self.fields)

    def key(self, ranges: KeyRanges | None) -> ClusterKey:
        """Give the key of rows in these ranges, which it needs for a curve."""
        if not self.needs_ranges:
            return ClusterKey(self, None)
        assert ranges is not None, "a curve has ranges"
        frames = tuple(ColumnFrame() if r is None else r.frame() for r in ranges.ranges)
        types = tuple(field.type for field in self.fields)
        return ClusterKey(self, Curve(self.strategy, types, frames, self.text_bytes))


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """An order for rows of known ranges, which gives each row its place. Picklable."""

    order: ClusterOrder
    curve: Curve | None

    def with_key(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Add the place on the curve, as the last column."""
        if self.curve is None:
            return rows
        keys = self.curve.keys([rows.column(field.name) for field in self.order.fields])
        size = self.curve.key_bytes
        ends = np.arange(0, (len(keys) + 1) * size, size, dtype=np.int32)
        column = pa.Array.from_buffers(
            pa.binary(), len(keys), [None, pa.py_buffer(ends), pa.py_buffer(keys)]
        )
        return rows.append_column(pa.field(KEY_COLUMN, pa.binary(), nullable=False), column)

    def bounds(self, sample: Sequence[pa.RecordBatch], *, ranges_count: int) -> KeyBounds:
        """Choose the bounds of ranges of rows by a sample, which has the fields."""
        rows = pa.Table.from_batches(map(self.with_key, sample))
        columns = [rows.column(name).combine_chunks() for name in self.order.names]
        return KeyBounds.of_sample(columns, self.order.types, ranges_count=ranges_count)

    def pieces(
        self, rows: pa.RecordBatch, bounds: KeyBounds
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Cut rows by bounds: each range that has rows, by number, and its rows with their key."""
        keyed = self.with_key(rows)
        for number, positions in bounds.cut([keyed.column(name) for name in self.order.names]):
            yield number, keyed.take(pa.array(positions))


class ClusterSorter:
    """Sorts the rows of one writer, which have their key; for one thread.

    Parameters
    ----------
    name : str
        Prefix of the names of spilled files; unique to the writer.
    """

    def __init__(self, context: StoreContext, order: ClusterOrder, *, name: str) -> None:
        self._order = order
        memory = context.env.memory
        self._sorter = RowSorter(
            order.names,
            order.types,
            buffer_bytes=write_buffer_bytes(context.options, memory),
            stack=lambda join: SpillStack(
                context.spill_dir or context.env.spill_directory(),
                name=f"cluster-{name}",
                options=context.options,
                join=join,
                memory=memory,
            ),
        )

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, with all columns of the table and their key."""
        self._sorter.add(rows)

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Give all rows in order, once, without their key."""
        for rows in self._sorter.batches():
            yield rows.drop_columns([KEY_COLUMN]) if self._order.needs_ranges else rows

    def close(self) -> None:
        """Release memory and spilled rows."""
        self._sorter.close()
