"""The rows of found keys from several files, as one batch in the order of the keys.

Numbers without nulls go to their rows at once. Other columns are taken file by file, joined, and
taken again in the order of the keys. With a few rows from each file the calls cost more than the
bytes, so there are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.arrow_memory import fixed_values, take_rows
from tidelake.lookup.raw_rows import RawColumn
from tidelake.lookup.row_values import value_width
from tidelake.telemetry import kept_property

RowNumbers = npt.NDArray[np.int64]


class ColumnSource(Protocol):
    """Whole columns of a file, or of merged rows."""

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """A column by name, in this type."""
        ...

    def fixed(self, name: str, kind: pa.DataType) -> npt.NDArray[Any] | None:
        """The same as items of one width, where it has no nulls and all are equally long."""
        ...


@dataclass(frozen=True, slots=True)
class KeyRows:
    """The rows of some keys.

    Parameters
    ----------
    keys : int array [m]
        Which of the keys asked for have a row here; in any order.
    rows : int64 array [m]
        Their rows there.
    """

    keys: RowNumbers
    source: ColumnSource
    rows: RowNumbers


def gathered(parts: Sequence[KeyRows], count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Build the rows of keys.

    Requires: the keys of all parts are 0 to `count` - 1, each once.
    """
    if not parts or not len(schema):
        return _without_columns(count) if count else pa.RecordBatch.from_pylist([], schema=schema)
    order = _Order(parts)
    columns = [_column(order, count, field.name, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def gathered_bytes(
    parts: Sequence[KeyRows], count: int, schema: pa.Schema
) -> list[RawColumn | pa.Array]:
    """The columns of :func:`gathered` as bytes, where that takes no Arrow; else as Arrow."""
    order = _Order(parts)
    return [
        _bytes_column(order, count, field.name, field.type) if count else pa.array([], field.type)
        for field in schema
    ]


def _bytes_column(order: _Order, count: int, name: str, kind: pa.DataType) -> RawColumn | pa.Array:
    items = [part.source.fixed(name, kind) for part in order.parts]
    first = items[0]
    if first is None or any(own is None or own.dtype != first.dtype for own in items):
        return _column(order, count, name, kind)
    values = np.empty(count, first.dtype)
    for part, own in zip(order.parts, items, strict=True):
        assert own is not None
        values[part.keys] = own.take(part.rows)
    if value_width(kind):
        return RawColumn(values.tobytes())
    width = values.itemsize
    ends = np.arange(0, (count + 1) * width, width, dtype="<u4")
    return RawColumn(values.tobytes(), ends.tobytes())


class _Order:
    """The way of the parts' rows, one after the other, into the order of the keys."""

    def __init__(self, parts: Sequence[KeyRows]) -> None:
        self.parts = parts

    @kept_property
    def positions(self) -> RowNumbers | None:
        """The position of each key's row; None if the rows are in order."""
        keys = [part.keys for part in self.parts]
        whole = keys[0] if len(keys) == 1 else np.concatenate(keys)
        if (whole[1:] > whole[:-1]).all():
            return None
        positions = np.empty_like(whole)
        positions[whole] = np.arange(len(whole))
        return positions


def _column(order: _Order, count: int, name: str, kind: pa.DataType) -> pa.Array:
    arrays = [part.source.column(name, kind) for part in order.parts]
    width = _number_bytes(kind)
    if width and not any(array.null_count for array in arrays):
        dtype = np.dtype(f"u{width}")
        values = np.empty(count, dtype)
        for part, array in zip(order.parts, arrays, strict=True):
            values[part.keys] = fixed_values(array, dtype)[part.rows]
        return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])
    taken = [
        _as_type(take_rows(array, part.rows), kind)
        for part, array in zip(order.parts, arrays, strict=True)
    ]
    joined = taken[0] if len(taken) == 1 else pa.concat_arrays(taken)
    return joined if order.positions is None else take_rows(joined, order.positions, near=True)


def _number_bytes(kind: pa.DataType) -> int:
    """Bytes of a type whose values are numbers in memory; 0 of another."""
    if not pa.types.is_primitive(kind) or pa.types.is_boolean(kind):
        return 0
    return int(kind.bit_width) // 8


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)


def _without_columns(count: int) -> pa.RecordBatch:
    """Rows without columns that have their number."""
    empty = pa.StructArray.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(empty)
