"""Makes columns of JSON values, by type, as Flink's JSON format does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.messages.columns import ColumnReader
from tidelake.messages.text_parsing import (
    INTEGER_BITS,
    TEXT_ROOTS,
    decimal_bytes,
    parse_integer,
    text_parser,
    times_of_texts,
)
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types, to_arrow_type

_FLOATS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TIMES = frozenset({TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_MAPS = frozenset({TypeRoot.MAP, TypeRoot.MULTISET})
COUNT = DataType(TypeRoot.INT)
_json_text = msgspec.json.Encoder(decimal_format="number").encode


def check_json(fields: Sequence[DataField], *, what: str) -> None:
    """Refuse columns that JSON has no values for.

    Raises
    ------
    UnsupportedError
        A VARIANT, or a map with keys other than text.
    """
    for field in fields:
        fault = _fault(field.type)
        if fault:
            message = f"Column '{field.name}' cannot be in {what}: {fault}. Change its type."
            raise UnsupportedError(message, kind="column_type", column=field.name)


def _fault(data_type: DataType) -> str | None:
    if data_type.root is TypeRoot.VARIANT:
        return "VARIANT is not supported"
    if data_type.root in _MAPS and data_type.children[0].root not in TEXT_ROOTS:
        return f"{data_type} has keys that are not text"
    faults = (_fault(child) for _, child in child_types(data_type)) if data_type.is_nested else ()
    return next(filter(None, faults), None)


def has_decimals(data_type: DataType) -> bool:
    """Whether a type needs all digits of a number, which a float loses."""
    if data_type.is_nested:
        return any(has_decimals(child) for _, child in child_types(data_type))
    return data_type.root is TypeRoot.DECIMAL


def column_reader(field: DataField, standard: str) -> ColumnReader:
    """Make the reader of a column of decoded JSON values."""
    return ColumnReader(
        field.name, field.type, _fast(field.type, standard), _converter(field.type, standard)
    )


def _fast(data_type: DataType, standard: str) -> Callable[[Sequence[Any]], pa.Array | None] | None:
    """Convert plain JSON values of the right type to a column."""
    root, target = data_type.root, to_arrow_type(data_type)
    if root in TEXT_ROOTS:
        return lambda values: pa.array(values, target)
    if root is TypeRoot.BOOLEAN or root in INTEGER_BITS:
        wanted = target if root is TypeRoot.BOOLEAN else pa.int64()

        def exact(values: Sequence[Any]) -> pa.Array | None:
            # as integers, Arrow would cut 1.5 to 1
            found = pa.array(values)
            return found.cast(target) if found.type in (wanted, pa.null()) else None

        return exact
    if root in _FLOATS:

        def numbers(values: Sequence[Any]) -> pa.Array | None:
            found = pa.array(values)  # as numbers, Arrow would read true as 1.0
            known = (pa.float64(), pa.int64(), pa.null())
            return found.cast(target, safe=False) if found.type in known else None

        return numbers
    if root in _TIMES:
        return lambda values: times_of_texts(pa.array(values, pa.string()), data_type, standard)
    return None


def _converter(data_type: DataType, standard: str) -> Callable[[Any], Any]:
    """Make the converter of one JSON value to a type."""
    root = data_type.root
    if root is TypeRoot.ROW:
        return _row(data_type, standard)
    if root is TypeRoot.ARRAY:
        element = _nullable(_converter(data_type.children[0], standard))
        return lambda value: [element(one) for one in _of(value, list)]
    if root in _MAPS:
        children = data_type.children
        inside = children[1] if root is TypeRoot.MAP else COUNT
        item = _nullable(_converter(inside, standard))
        return lambda value: {key: item(one) for key, one in _of(value, dict).items()}
    if root in TEXT_ROOTS:
        return _text
    from_text = text_parser(data_type, standard)
    if root in INTEGER_BITS:
        bits = INTEGER_BITS[root]
        return lambda value: (
            from_text(value) if isinstance(value, str) else parse_integer(_number(value), bits)
        )
    if root in _FLOATS:
        return lambda value: from_text(value) if isinstance(value, str) else float(_number(value))
    if root is TypeRoot.DECIMAL:
        return lambda value: (
            from_text(value)
            if isinstance(value, str)
            else decimal_bytes(Decimal(str(_number(value))), data_type)
        )
    if root is TypeRoot.BOOLEAN:
        return lambda value: value if isinstance(value, bool) else from_text(_of(value, str))
    return lambda value: from_text(_of(value, str))


def _row(data_type: DataType, standard: str) -> Callable[[Any], Any]:
    parts = [
        (name, _nullable(_converter(child, standard))) for name, child in child_types(data_type)
    ]

    def convert(value: Any) -> dict[str, Any]:
        given = _of(value, dict)
        return {name: one(given.get(name)) for name, one in parts}

    return convert


def _nullable(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    return value


def _text(value: Any) -> str:
    """Convert any value to text; a value that is not text keeps its JSON."""
    if isinstance(value, float):
        return str(value)
    return value if isinstance(value, str) else _json_text(value).decode()
