"""Converts Arrow columns to plain values for all output formats.

A column becomes a list of None, bool, int, float, str, bytes, :class:`Number`,
:class:`TemporalText`, list, and dict for rows, maps and variants' objects.

1. Arrow formats dates, times and timestamps as text: Python's types have neither nanoseconds nor
   years after 9999.
2. An instant (``TIMESTAMP_LTZ``) is shown in the session's zone, with its offset.
3. Children of a list, row or map are converted as columns and split by offsets.

Linear in the number of values.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.types.variant.variant import decode_variant


class Number(str):
    """A decimal number with all digits."""

    __slots__ = ()


class TemporalText(str):
    """A date, a time or both, in ISO 8601 with a blank between them."""

    __slots__ = ()


def plain_values(array: pa.Array, zone: str) -> list[Any]:
    """Convert the values of a column.

    Examples
    --------
    >>> plain_values(pa.array([1.5, None]), "UTC")
    [1.5, None]
    >>> plain_values(pa.array([0], pa.timestamp("ms", tz="UTC")), "America/New_York")
    ['1969-12-31 19:00:00-05:00']
    >>> plain_values(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "UTC")
    [{'a': 1}]
    """
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return plain_values(array.storage, zone)
    if pa.types.is_dictionary(kind):
        return plain_values(array.cast(kind.value_type), zone)
    if pa.types.is_temporal(kind):
        return _temporal_texts(array, zone)
    if pa.types.is_decimal(kind):
        return [None if v is None else Number(f"{v:f}") for v in array.to_pylist()]
    if pa.types.is_map(kind):
        return _maps(array, zone)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array, zone)
    if pa.types.is_struct(kind):
        return _variants(array) if _is_variant(kind) else _structs(array, zone)
    return array.to_pylist()


def _temporal_texts(array: pa.Array, zone: str) -> list[TemporalText | str | None]:
    kind = array.type
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return [None if v is None else str(v) for v in array.to_pylist()]
    instant = pa.types.is_timestamp(kind) and kind.tz is not None
    if instant:
        array = array.cast(pa.timestamp(kind.unit, tz=zone))
    texts = array.cast(pa.string())
    if instant:  # a zone's offset gets its colon
        texts = pc.replace_substring_regex(texts, r"([+-]\d{2})(\d{2})$", r"\1:\2")
        texts = pc.replace_substring_regex(texts, r"Z$", "+00:00")
    # strip trailing zeros of the fraction, then a trailing point
    texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+($|[+-])", r"\1\2")
    texts = pc.replace_substring_regex(texts, r"\.($|[+-])", r"\1")
    return [None if v is None else TemporalText(v) for v in texts.to_pylist()]


def _split_lists(array: pa.Array, children: list[Any]) -> list[list[Any] | None]:
    """Split the children of each list; offsets count from the first child of the array."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_fixed_size_list(array.type):
        ends = np.cumsum(np.where(valid, array.type.list_size, 0))
    else:
        ends = np.cumsum(pc.fill_null(pc.list_value_length(array), 0).to_numpy())
    begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    pairs = zip(begins.tolist(), ends.tolist(), valid.tolist(), strict=True)
    return [children[begin:end] if is_there else None for begin, end, is_there in pairs]


def _lists(array: pa.Array, zone: str) -> list[list[Any] | None]:
    return _split_lists(array, plain_values(array.flatten(), zone))


def _maps(array: pa.Array, zone: str) -> list[dict[str, Any] | None]:
    """Convert maps to objects; keys become text."""
    kind = array.type
    items = pa.struct([kind.key_field, kind.item_field])
    lists = array.cast(pa.list_(pa.field("entries", items, nullable=False)))
    pairs = lists.flatten()
    keys = [k if isinstance(k, str) else _key(k) for k in plain_values(pairs.field(0), zone)]
    values = plain_values(pairs.field(1), zone)
    rows = _split_lists(lists, list(zip(keys, values, strict=True)))
    return [None if row is None else dict(row) for row in rows]


def _key(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def _structs(array: pa.Array, zone: str) -> list[dict[str, Any] | None]:
    names = [field.name for field in array.type]
    columns = [plain_values(child, zone) for child in array.flatten()]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if is_there else None
        for row, is_there in zip(rows, valid, strict=True)
    ]


def _is_variant(kind: pa.DataType) -> bool:
    """True for the struct of a variant's two binaries."""
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return [f.name for f in fields] == ["value", "metadata"] and all(
        pa.types.is_binary(f.type) and not f.nullable for f in fields
    )


def _variants(array: pa.Array) -> list[Any]:
    return [
        None if v is None else _plain(decode_variant(v["value"], v["metadata"]))
        for v in array.to_pylist()
    ]


def _plain(value: object) -> object:
    """Convert a variant's value."""
    match value:
        case dict():
            return {key: _plain(child) for key, child in value.items()}
        case list():
            return [_plain(child) for child in value]
        case decimal.Decimal():
            return Number(f"{value:f}")
        case dt.datetime():
            return TemporalText(value.isoformat(" "))
        case dt.date() | dt.time():
            return TemporalText(value.isoformat())
        case np.datetime64():
            return TemporalText(str(value).replace("T", " "))
        case uuid.UUID():
            return str(value)
    return value
