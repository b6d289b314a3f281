"""A bound predicate on a batch of rows, as Arrow kernels.

Floats are totally ordered as in Spark and Java's ``Double.compare``: NaN equals NaN and is larger
than every number. Unlike ``Double.compare``, -0.0 equals 0.0, as in SQL. Strings and binaries
compare by bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types.arrow import to_arrow_type
from tidelake.types.data_type import DataType, TypeRoot
from tidelake.types.predicate.node import (
    Always,
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
)
from tidelake.types.schema import DataField
from tidelake.types.values import storage_to_arrow

_UNKNOWN = pa.scalar(None, pa.bool_())
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_KERNELS: Mapping[str, Callable[..., pa.Array]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def evaluate(
    predicate: Predicate, batch: pa.RecordBatch | pa.Table, fields: Sequence[DataField]
) -> pa.BooleanArray:
    """Return which rows a bound predicate keeps.

    Parameters
    ----------
    predicate : Predicate
        Bound to `fields`.
    batch : pyarrow.RecordBatch or pyarrow.Table [n]
        Has the predicate's columns, perhaps others too.

    Returns
    -------
    pyarrow.BooleanArray [n]
        Without nulls: unknown is false.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> from tidelake.types.predicate import bind, col
    >>> fields = [DataField(0, "n", parse_type("INT"))]
    >>> batch = pa.record_batch({"n": pa.array([1, None, 3], pa.int32())})
    >>> evaluate(bind(~(col("n") == 1), fields), batch, fields).to_pylist()
    [False, False, True]
    """
    mask = _mask(predicate, batch, {f.name: f.type for f in fields})
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    return mask.fill_null(False)


def _mask(
    predicate: Predicate, batch: pa.RecordBatch | pa.Table, types: Mapping[str, DataType]
) -> pa.Array:
    match predicate:
        case Always(value):
            return _constant(batch, value=value)
        case And(parts) if parts:
            return reduce(pc.and_kleene, (_mask(p, batch, types) for p in parts))
        case Or(parts) if parts:
            return reduce(pc.or_kleene, (_mask(p, batch, types) for p in parts))
        case And() | Or():
            return _constant(batch, value=isinstance(predicate, And))
        case Not(part):
            return pc.invert(_mask(part, batch, types))
        case IsNull(name):
            return pc.is_null(batch.column(name))
        case NotNull(name):
            return pc.is_valid(batch.column(name))
        case Compare(op, name, literal):
            column = _column(batch, name, types[name])
            if types[name].root in _FLOATS:
                assert isinstance(literal, float), "a bound literal of a float column"
                return _compare_floats(op, column, literal)
            scalar = storage_to_arrow([literal], types[name])[0]
            return _KERNELS[op](column, scalar.cast(column.type))
        case In(name, literals):
            return _is_in(_column(batch, name, types[name]), literals, types[name])
        case StartsWith(name, prefix):
            return pc.starts_with(_column(batch, name, types[name]), prefix)
    raise AssertionError(f"{predicate!r} is not a node")


def _constant(batch: pa.RecordBatch | pa.Table, *, value: bool) -> pa.Array:
    return pa.array(np.full(batch.num_rows, value))


def _column(batch: pa.RecordBatch | pa.Table, name: str, data_type: DataType) -> pa.Array:
    column = batch.column(name)
    arrow_type = to_arrow_type(data_type)
    if column.type == arrow_type or column.type in {pa.large_string(), pa.large_binary()}:
        return column
    return column.cast(arrow_type)


def _compare_floats(op: str, column: pa.Array, literal: float) -> pa.Array:
    is_nan = pc.is_nan(column)
    if literal != literal:  # NaN: equal to itself, larger than all else
        match op:
            case "==" | ">=":
                return is_nan
            case "!=" | "<":
                return pc.invert(is_nan)
            case "<=":
                return pc.or_(is_nan, pc.invert(is_nan))  # all that is not null
            case _:
                return pc.and_(is_nan, pc.invert(is_nan))  # none that is not null
    compared = _KERNELS[op](column, pa.scalar(literal, column.type))
    return pc.or_(compared, is_nan) if op in {">", ">="} else compared


def _is_in(column: pa.Array, literals: Sequence[object], data_type: DataType) -> pa.Array:
    values = [v for v in literals if v is not None]
    if data_type.root in _FLOATS:
        zero = pa.scalar(0.0, column.type)  # -0.0 + 0.0 is 0.0: one zero for the hash table
        numbers = [v + 0.0 for v in values if v == v]  # type: ignore[operator]
        found = pc.is_in(pc.add(column, zero), pa.array(numbers, column.type))
        if len(numbers) < len(values):
            found = pc.or_(found, pc.fill_null(pc.is_nan(column), False))
    else:
        found = pc.is_in(column, storage_to_arrow(values, data_type).cast(column.type))
    unknown = pc.is_null(column)
    if len(values) < len(literals):
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, _UNKNOWN, found)
