"""Converts the values that fastavro decodes to columns in the types of the file's schema.

The decoder returns one Python value each in any case. Nested values are split into plain columns,
so that Arrow converts each column at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.format.avro.schema import entry_types, is_text
from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import child_types, to_arrow_type
from tidelake.types.nested import ListParts, list_of, map_of

_WHOLE = {
    TypeRoot.DATE: pa.int32(),
    TypeRoot.TIME: pa.int32(),
    TypeRoot.TIMESTAMP: pa.int64(),
    TypeRoot.TIMESTAMP_LTZ: pa.int64(),
}
"""Types that are numbers in the file."""


def column_of(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Convert decoded values to a column.

    Parameters
    ----------
    values : sequence
        fastavro's values for the plain schema: None, numbers, texts, bytes, and for nested types
        lists and dicts.
    """
    target = to_arrow_type(data_type)
    match data_type.root:
        case TypeRoot.DECIMAL:
            return _decimals(values, target)
        case TypeRoot.ROW:
            return _struct(values, data_type, target)
        case TypeRoot.ARRAY:
            flat = column_of(list(_flat(values)), data_type.children[0])
            return list_of(_parts(values, flat), target)
        case TypeRoot.MAP | TypeRoot.MULTISET:
            keys, items = _entries(values, data_type)
            return map_of(_parts(values, keys, items), target)
    whole = _WHOLE.get(data_type.root)
    return pa.array(values, target) if whole is None else pa.array(values, whole).view(target)


def _flat(values: Sequence[Any]) -> Iterable[Any]:
    return chain.from_iterable(v for v in values if v is not None)


def _parts(values: Sequence[Any], *children: pa.Array) -> ListParts:
    offsets = np.zeros(len(values) + 1, np.int32)
    lengths = (0 if v is None else len(v) for v in values)
    np.cumsum(np.fromiter(lengths, np.int64, len(values)), out=offsets[1:])
    nulls = pa.array([v is None for v in values], pa.bool_()) if None in values else None
    return ListParts(pa.array(offsets), nulls, children)


def _entries(values: Sequence[Any], data_type: DataType) -> tuple[pa.Array, pa.Array]:
    key, value = entry_types(data_type)
    if is_text(key):
        items = list(chain.from_iterable(v.values() for v in values if v is not None))
        return column_of(list(_flat(values)), key), column_of(items, value)
    entries = list(_flat(values))
    keys, items = ([entry[name] for entry in entries] for name in ("key", "value"))
    return column_of(keys, key), column_of(items, value)


def _struct(values: Sequence[Any], data_type: DataType, target: pa.DataType) -> pa.Array:
    children = [
        column_of([None if row is None else row[name] for row in values], child)
        for name, child in child_types(data_type)
    ]
    nulls = pa.array([row is None for row in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(target), mask=nulls)


def _decimals(values: Sequence[bytes | None], target: pa.DataType) -> pa.Array:
    """Decimals from their unscaled bytes; a number beyond the type's digits is damage."""
    stored = b"".join(
        bytes(16)
        if value is None
        else int.from_bytes(value, "big", signed=True).to_bytes(16, "little", signed=True)
        for value in values
    )
    valid = pa.array([value is not None for value in values], pa.bool_())
    buffers = [valid.buffers()[1], pa.py_buffer(stored)]
    array = pa.Array.from_buffers(target, len(values), buffers)
    array.validate(full=True)
    return array
