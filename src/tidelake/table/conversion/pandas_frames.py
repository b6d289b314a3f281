"""Rows as pandas frames that keep every value.

pandas' own types lose some: integers beside nulls become floats, which round from 2**53 on, and a
NaN becomes a null. Each column is looked at, and takes a nullable type where its values need one:

1. Integers with nulls become ``Int8`` to ``Int64``, floats with a NaN among them ``Float64``.
2. Nested values become Python lists and dicts if one holds a null; other lists are NumPy arrays.
3. Maps become dicts, and variants Python values. They are made one by one, some microseconds each.

The nulls of a column are counted by Arrow already; a NaN costs one pass over a column of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, shortened
from tidelake.table.conversion import _optional
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.nested import is_list_like
from tidelake.types.variant.variant import decode_variant

TypesMapper = Callable[[pa.DataType], Any]
"""Gives pandas' type for one of Arrow's, such as ``pandas.ArrowDtype``; None for the default."""


def pandas_frame(
    rows: pa.Table,
    fields: Sequence[DataField],
    *,
    table: str,
    types_mapper: TypesMapper | None = None,
) -> Any:
    """Convert rows to a pandas frame whose values are the rows'.

    Parameters
    ----------
    fields : sequence of DataField
        The columns that are the table's; others are converted by their Arrow types.
    types_mapper : callable, optional
        As of :meth:`pyarrow.Table.to_pandas`: it comes before the rules here.

    Raises
    ------
    InvalidInputError
        A map has a key twice, which no dict can hold.
    CorruptError
        A value is not a variant.

    Notes
    -----
    A map with keys of a nested type stays a list of pairs: a dict cannot have such keys.
    """
    own = {f.name: f.type for f in fields}
    made: dict[int, Any] = {}
    for place, name in enumerate(rows.column_names):
        column = rows.column(place)
        if name in own and _has_root(own[name], _MADE):
            made[place] = _objects(_python_values(column, own[name], name, table))
        elif types_mapper is None or types_mapper(column.type) is None:
            exact = _exact(column)
            if exact is not None:
                made[place] = exact
    rest = [place for place in range(rows.num_columns) if place not in made]
    frame = rows.select(rest).to_pandas(types_mapper=types_mapper)
    for place, values in made.items():
        frame.insert(place, rows.column_names[place], values)
    return frame


def _exact(column: pa.ChunkedArray) -> Any | None:
    """The column as pandas keeps it without loss; None where its own type does so."""
    kind, kinds = column.type, pa.types
    if kinds.is_integer(kind) and column.null_count:
        sign = "U" if kinds.is_unsigned_integer(kind) else ""
        return _nullable(f"{sign}Int{kind.bit_width}", column)
    if kinds.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
        return _nullable("Float32" if kinds.is_float32(kind) else "Float64", column)
    if kinds.is_nested(kind) and any(_has_inner_nulls(chunk) for chunk in column.chunks):
        return _objects(column.to_pylist())
    return None


def _nullable(name: str, column: pa.ChunkedArray) -> Any:
    pandas = _optional.load("pandas", for_what="to_pandas()")
    return getattr(pandas, f"{name}Dtype")().__from_arrow__(column)


def _has_inner_nulls(values: pa.Array) -> bool:
    """Whether NumPy, which has no nulls, would make other values of lists and rows."""
    kinds = pa.types
    if kinds.is_map(values.type):
        return _has_inner_nulls(values.items)
    if is_list_like(values.type):
        elements = values.flatten()
        return bool(elements.null_count) or _has_inner_nulls(elements)
    if kinds.is_struct(values.type):
        children = values.flatten()
        return any(child.null_count or _has_inner_nulls(child) for child in children)
    return False


def _objects(values: Sequence[object]) -> np.ndarray:
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _python_values(
    column: pa.ChunkedArray, data_type: DataType, name: str, table: str
) -> list[object]:
    try:
        return [_python_value(v, data_type) for v in column.to_pylist()]
    except _TwiceError as error:
        key = shortened(repr(error.args[0]))
        message = (
            f"Column '{name}' of table '{table}' has a map with the key {key} twice, which no dict"
            " can hold: read it with to_arrow()."
        )
        raise InvalidInputError(message, kind="map_key_twice", table=table, column=name) from error


class _TwiceError(Exception):
    """A map has a key twice; the argument is the key."""


_MADE = frozenset({TypeRoot.VARIANT, TypeRoot.MAP, TypeRoot.MULTISET})


def _has_root(data_type: DataType, roots: Collection[TypeRoot]) -> bool:
    return data_type.root in roots or any(_has_root(c, roots) for c in data_type.children)


def _python_value(value: Any, data_type: DataType) -> object:
    """A value as Arrow gives it in Python, with its maps as dicts and its variants decoded."""
    if value is None or not _has_root(data_type, _MADE):
        return value
    match data_type.root:
        case TypeRoot.VARIANT:
            return decode_variant(value["value"], value["metadata"])
        case TypeRoot.ARRAY:
            return [_python_value(v, data_type.children[0]) for v in value]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key_type = data_type.children[0]
            pairs = value
            if data_type.root is TypeRoot.MAP:
                pairs = [(k, _python_value(v, data_type.children[1])) for k, v in value]
            if key_type.is_nested or key_type.root is TypeRoot.VARIANT:
                return pairs
            made = dict(pairs)
            if len(made) < len(pairs):
                keys = [key for key, _ in pairs]
                raise _TwiceError(next(key for key in keys if keys.count(key) > 1))
            return made
    types = [name for _, name in data_type.child_fields]
    return {
        name: _python_value(value[name], child)
        for name, child in zip(types, data_type.children, strict=True)
    }
