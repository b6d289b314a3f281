"""Makes JSON objects of Arrow rows: times as texts by column, the rest as Python values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidelake.messages.text_parsing import time_texts
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types
from tidelake.types.nested import list_parts, struct_children

_TIMES = frozenset(
    {TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ},
)
_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})


def object_encoder() -> Callable[[Any], bytes]:
    """Make the JSON encoder of objects; binary values are base64, decimals are numbers."""
    return msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The text forms of values.

    Parameters
    ----------
    plain_decimals : bool
        Whether decimals have no exponent.
    omits_nulls : bool
        Whether null columns are left out.
    """

    standard: str
    plain_decimals: bool
    omits_nulls: bool


def json_objects(rows: pa.RecordBatch, fields: Sequence[DataField], style: TextStyle) -> list[Any]:
    """Make a value of each row that :func:`object_encoder` writes."""
    slots = [f"f{number}" for number in range(len(fields))]
    kind: Any = msgspec.defstruct(
        "Row",
        [(slot, Any, None) for slot in slots],
        rename=dict(zip(slots, (f.name for f in fields), strict=True)),
        omit_defaults=style.omits_nulls,
        gc=False,
    )
    columns = [
        _values(column, field.type, style)
        for column, field in zip(rows.columns, fields, strict=True)
    ]
    return [kind(*row) for row in zip(*columns, strict=True)]


def _values(column: pa.Array, data_type: DataType, style: TextStyle) -> list[Any]:
    root = data_type.root
    if root in _TIMES:
        texts: list[Any] = time_texts(column, data_type, style.standard).to_pylist()
        return texts
    values: list[Any] = []
    if root in _FLOATS:
        values = short_floats(column)
        # JSON has no such numbers; Java's JSON writes and reads their names
        return [v if v is None or math.isfinite(v) else _float_name(v) for v in values]
    if root is TypeRoot.DECIMAL:
        values = column.to_pylist()
        return [None if v is None else _decimal(v, style) for v in values]
    if root is TypeRoot.ROW:
        return _structs(column, data_type, style)
    if data_type.is_nested:
        return _lists(column, data_type, style)
    return list(column.to_pylist())


def short_floats(column: pa.Array) -> list[float | None]:
    """Make doubles with the same shortest text as the column's floats."""
    values: list[float | None] = column.to_pylist()
    if column.type != pa.float32():
        return values
    return [None if v is None else float(str(np.float32(v))) for v in values]


def _float_name(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _decimal(value: Decimal, style: TextStyle) -> Any:
    # Flink strips trailing zeros; then Java's text has an exponent where that is shorter
    stripped = value.normalize()
    if style.plain_decimals or stripped == stripped.to_integral_value():
        return msgspec.Raw(f"{stripped:f}".encode())
    return stripped


def _structs(column: pa.Array, data_type: DataType, style: TextStyle) -> list[Any]:
    names = [name for name, _ in child_types(data_type)]
    children = [
        _values(child, kind, style)
        for child, (_, kind) in zip(struct_children(column), child_types(data_type), strict=True)
    ]
    rows: Iterable[Any] = (
        dict(zip(names, row, strict=True)) for row in zip(*children, strict=True)
    )
    valid = column.is_valid().to_pylist()
    return [row if is_there else None for row, is_there in zip(rows, valid, strict=True)]


def _lists(column: pa.Array, data_type: DataType, style: TextStyle) -> list[Any]:
    parts = list_parts(column)
    kinds = [kind for _, kind in child_types(data_type)]
    children = [
        _values(child, kind, style) for child, kind in zip(parts.children, kinds, strict=True)
    ]
    items: list[Any] = children[0] if len(children) == 1 else list(zip(*children, strict=True))
    offsets = parts.offsets.to_pylist()
    made = list if data_type.root is TypeRoot.ARRAY else dict
    valid = column.is_valid().to_pylist()
    return [
        made(items[first:last]) if is_there else None
        for first, last, is_there in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]
