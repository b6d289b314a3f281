"""Splits Arrow columns of nested types and joins them again.

A list, a map and a struct are split into their children as plain columns of exactly the rows that
count: not those outside a slice, not those under a null list. So work on the children (a cast, a
check) costs nothing for other rows, and meets no value that nobody wrote.

A NOT NULL field of a null struct has no value, but Arrow's Parquet writer refuses a null there:
:func:`settled` fills one in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

TYPES_KEPT = 256
_WIDEST_VALUE_BYTES = 16


@dataclass(frozen=True, slots=True)
class ListParts:
    """The parts of a list or map column.

    Parameters
    ----------
    offsets : int32 array [n + 1]
        Where each row's elements begin among `children`; the first is 0.
    nulls : pyarrow.BooleanArray [n] or None
        Which rows are null; None if none is.
    """

    offsets: pa.Array
    nulls: pa.BooleanArray | None
    children: tuple[pa.Array, ...]


def is_list_like(arrow_type: pa.DataType) -> bool:
    """Whether the type is a list of any layout, but not a map."""
    kinds = pa.types
    return bool(
        kinds.is_list(arrow_type)
        or kinds.is_large_list(arrow_type)
        or kinds.is_fixed_size_list(arrow_type)
        or kinds.is_list_view(arrow_type)
        or kinds.is_large_list_view(arrow_type)
    )


def list_parts(array: pa.Array) -> ListParts:
    """Split a list (of any layout) or map column.

    Examples
    --------
    >>> parts = list_parts(pa.array([[1, 2], None, [3]]).slice(1))
    >>> parts.offsets.to_pylist(), parts.children[0].to_pylist()
    ([0, 0, 1], [3])
    """
    if pa.types.is_map(array.type):
        return _map_parts(array)
    # lengths and elements are right in every layout; Arrow 26 casts a list view to a wrong list
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return ListParts(_offsets(lengths), _nulls(array), (array.flatten(),))


def _map_parts(array: pa.MapArray) -> ListParts:
    given = array.offsets.to_numpy()
    lengths = np.diff(given)
    hidden = lengths[array.is_null().to_numpy(zero_copy_only=False)] if array.null_count else ()
    children = [c.slice(given[0], given[-1] - given[0]) for c in (array.keys, array.items)]
    if np.any(hidden):
        counts = array.is_valid().to_numpy(zero_copy_only=False).repeat(lengths)
        children = [c.filter(pa.array(counts)) for c in children]
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    return ListParts(_offsets(lengths), _nulls(array), tuple(children))


def _offsets(lengths: npt.NDArray[np.signedinteger[Any]]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets)


def list_of(parts: ListParts, arrow_type: pa.DataType) -> pa.Array:
    """Join a list column."""
    (flat,) = parts.children
    return pa.ListArray.from_arrays(parts.offsets, flat, type=arrow_type, mask=parts.nulls)


def map_of(parts: ListParts, arrow_type: pa.DataType) -> pa.Array:
    """Join a map column."""
    keys, values = parts.children
    return pa.MapArray.from_arrays(parts.offsets, keys, values, type=arrow_type, mask=parts.nulls)


def struct_children(array: pa.StructArray) -> list[pa.Array]:
    """Return a struct column's fields; under a null struct all are null."""
    children: list[pa.Array] = array.flatten()
    return children


def struct_of(
    children: Sequence[pa.Array], arrow_type: pa.DataType, like: pa.StructArray
) -> pa.Array:
    """Join a struct column, null where `like` is."""
    return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=_nulls(like))


def _nulls(array: pa.Array) -> pa.BooleanArray | None:
    return array.is_null() if array.null_count else None


@lru_cache(maxsize=TYPES_KEPT)
def _has_required(arrow_type: pa.DataType) -> bool:
    """Whether a struct anywhere inside has a NOT NULL field."""
    if pa.types.is_map(arrow_type):
        return _has_required(arrow_type.key_type) or _has_required(arrow_type.item_type)
    if pa.types.is_list(arrow_type):
        return _has_required(arrow_type.value_type)
    if pa.types.is_struct(arrow_type):
        return any(not f.nullable or _has_required(f.type) for f in arrow_type)
    return False


def settled(column: pa.Array) -> pa.Array:
    """Fill NOT NULL fields of null structs; nothing else changes.

    Examples
    --------
    >>> kind = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    >>> column = settled(pa.nulls(2, kind))
    >>> column.to_pylist(), column.field(0).null_count
    ([None, None], 0)
    """
    kind = column.type
    if not _has_required(kind):
        return column
    if pa.types.is_struct(kind):
        children = []
        for field, child in zip(kind, struct_children(column), strict=True):
            settled_child = settled(child)
            if not field.nullable and settled_child.null_count:
                settled_child = _filled(settled_child)
            children.append(settled_child)
        return struct_of(children, kind, column)
    parts = list_parts(column)
    parts = ListParts(parts.offsets, parts.nulls, tuple(settled(c) for c in parts.children))
    return map_of(parts, kind) if pa.types.is_map(kind) else list_of(parts, kind)


def _filled(column: pa.Array) -> pa.Array:
    """Replace every null by some value."""
    rows = np.arange(len(column))
    rows[column.is_null().to_numpy(zero_copy_only=False)] = len(column)
    return pa.concat_arrays([column, _some_value(column.type)]).take(pa.array(rows))


def _some_value(arrow_type: pa.DataType) -> pa.Array:
    """A column of one row that is not null, nor is any NOT NULL field inside it."""
    if pa.types.is_struct(arrow_type):
        children = [pa.nulls(1, f.type) if f.nullable else _some_value(f.type) for f in arrow_type]
        return struct_of(children, arrow_type, pa.array([{}], pa.struct([])))
    if pa.types.is_map(arrow_type) or pa.types.is_list(arrow_type):
        return pa.array([[]], arrow_type)
    zeros = [None, pa.py_buffer(bytes(_WIDEST_VALUE_BYTES))]
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        zeros.append(pa.py_buffer(b""))
    return pa.Array.from_buffers(arrow_type, 1, zeros)


def leaf_arrays(column: pa.Array) -> list[pa.Array]:
    """Return the columns of scalars inside a column, in the order of a Parquet file's leaves."""
    kind = column.type
    if pa.types.is_struct(kind):
        return [leaf for child in struct_children(column) for leaf in leaf_arrays(child)]
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return [leaf for child in list_parts(column).children for leaf in leaf_arrays(child)]
    return [column]
