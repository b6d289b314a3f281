"""Paimon's types as Arrow types, and Arrow's as Paimon's.

=========================  ====================================================
Paimon                     Arrow
=========================  ====================================================
BOOLEAN, TINYINT..BIGINT   bool, int8, int16, int32, int64
FLOAT, DOUBLE              float32, float64
DECIMAL(p, s)              decimal128(p, s)
CHAR, VARCHAR              string
BINARY, VARBINARY          binary
DATE, TIME                 date32, time32[ms]
TIMESTAMP(p)               timestamp[ms] to p = 3, [us] to p = 6, [ns] above
TIMESTAMP(p) WITH ... ZONE the same with zone "UTC"
ARRAY<T>                   list<element: T>
MAP<K, V>                  map<K, V>
MULTISET<T>                map<T, int32 not null>: how often each value is there
ROW<a T, ...>              struct<a: T, ...>
VARIANT                    struct<value: binary not null, metadata: binary not null>
=========================  ====================================================

NOT NULL is Arrow's ``nullable=False``, inside nested types too. Keys of maps are never null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import pyarrow as pa

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.types.data_type import STRING_LENGTH_MAX, DataType, TypeRoot, parse_type_text
from tidelake.types.field_ids import with_new_ids
from tidelake.types.nested import is_list_like
from tidelake.types.schema import DataField

MS_PER_DAY = 86_400_000
NANOS_PER_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
DECIMAL_PRECISION_MAX = 38
TYPES_KEPT = 256
COMMENT_KEY = b"comment"
"""Key of a column's comment in the metadata of an Arrow field."""

VARIANT_STORAGE = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False),
    ]
)
_COUNT = DataType(TypeRoot.INT, nullable=False)

_SIMPLE = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}
_FROM_ARROW = {
    pa.bool_(): DataType(TypeRoot.BOOLEAN),
    pa.int8(): DataType(TypeRoot.TINYINT),
    pa.int16(): DataType(TypeRoot.SMALLINT),
    pa.int32(): DataType(TypeRoot.INT),
    pa.int64(): DataType(TypeRoot.BIGINT),
    pa.uint8(): DataType(TypeRoot.SMALLINT),
    pa.uint16(): DataType(TypeRoot.INT),
    pa.uint32(): DataType(TypeRoot.BIGINT),
    pa.uint64(): DataType(TypeRoot.DECIMAL, precision=20, scale=0),
    pa.float16(): DataType(TypeRoot.FLOAT),
    pa.float32(): DataType(TypeRoot.FLOAT),
    pa.float64(): DataType(TypeRoot.DOUBLE),
    pa.string(): DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX),
    pa.large_string(): DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX),
    pa.string_view(): DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX),
    pa.binary(): DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX),
    pa.large_binary(): DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX),
    pa.binary_view(): DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX),
    pa.date32(): DataType(TypeRoot.DATE),
    pa.date64(): DataType(TypeRoot.DATE),
    pa.time32("s"): DataType(TypeRoot.TIME, precision=0),
    pa.time32("ms"): DataType(TypeRoot.TIME, precision=3),
    # Paimon keeps TIME in ms whatever its precision; rows with finer values are refused.
    pa.time64("us"): DataType(TypeRoot.TIME, precision=3),
    pa.time64("ns"): DataType(TypeRoot.TIME, precision=3),
}
_PRECISION_OF_UNIT = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def timestamp_unit(data_type: DataType) -> Literal["ms", "us", "ns"]:
    """Arrow's unit of a TIMESTAMP or TIMESTAMP_LTZ column: ``"ms"``, ``"us"`` or ``"ns"``."""
    assert data_type.precision is not None, "a timestamp type has a precision"
    return "ms" if data_type.precision <= 3 else "us" if data_type.precision <= 6 else "ns"


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a Paimon type.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> to_arrow_type(parse_type("TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    TimestampType(timestamp[us, tz=UTC])
    """
    simple = _SIMPLE.get(data_type.root)
    if simple is not None:
        return simple
    match data_type.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(data_type.precision, data_type.scale)
        case TypeRoot.TIMESTAMP:
            return pa.timestamp(timestamp_unit(data_type))
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp(timestamp_unit(data_type), tz="UTC")
        case TypeRoot.VARIANT:
            return VARIANT_STORAGE
    return _nested_arrow_type(data_type)


@lru_cache(maxsize=TYPES_KEPT)
def _nested_arrow_type(data_type: DataType) -> pa.DataType:
    return nested_type(data_type, [_child_field(name, t) for name, t in child_types(data_type)])


def _child_field(name: str, data_type: DataType) -> pa.Field:
    return pa.field(name, to_arrow_type(data_type), nullable=data_type.nullable)


def child_types(data_type: DataType) -> list[tuple[str, DataType]]:
    """Return the columns inside a column of a nested type, named as in Arrow and in data files.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> [(n, str(t)) for n, t in child_types(parse_type({"type": "MULTISET", "element": "INT"}))]
    [('key', 'INT NOT NULL'), ('value', 'INT NOT NULL')]
    """
    match data_type.root:
        case TypeRoot.ARRAY:
            return [("element", data_type.children[0])]
        case TypeRoot.MULTISET:
            return [("key", data_type.children[0].not_null()), ("value", _COUNT)]
        case TypeRoot.MAP:
            key, value = data_type.children
            return [("key", key.not_null()), ("value", value)]
    return [
        (name, child)
        for (_, name), child in zip(data_type.child_fields, data_type.children, strict=True)
    ]


def nested_type(data_type: DataType, children: Sequence[pa.Field]) -> pa.DataType:
    """Return the Arrow type of a nested type whose children have these Arrow fields."""
    match data_type.root:
        case TypeRoot.ARRAY:
            return pa.list_(children[0])
        case TypeRoot.MULTISET | TypeRoot.MAP:
            return pa.map_(children[0], children[1])
    return pa.struct(children)


def to_arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Return the Arrow schema of columns; NOT NULL columns are not nullable in Arrow."""
    return pa.schema(
        [pa.field(f.name, to_arrow_type(f.type), nullable=f.type.nullable) for f in fields]
    )


def fields_from_arrow(schema: pa.Schema, *, not_null: Iterable[str] = ()) -> tuple[DataField, ...]:
    """Return the columns of a new table for an Arrow schema, with ids from 0.

    Parameters
    ----------
    schema : pyarrow.Schema
        Unsigned integers take the next wider signed type, uint64 DECIMAL(20, 0); dictionaries take
        their values' type. ``comment`` in a field's metadata becomes the column's comment.
    not_null : iterable of str
        Columns that must not be null, besides those that are not nullable in Arrow.

    Raises
    ------
    InvalidInputError
        A column of Arrow's null type, a duplicate name, or an unknown name in `not_null`.
    UnsupportedError
        An Arrow type without a counterpart.

    Examples
    --------
    >>> [str(f.type) for f in fields_from_arrow(pa.schema({"k": pa.int64(), "v": pa.uint64()}))]
    ['BIGINT', 'DECIMAL(20, 0)']
    """
    required = frozenset(not_null)
    check_names_once(schema.names, "The Arrow schema")
    for name in sorted(required.difference(schema.names)):
        message = (
            f"Column '{shortened(name)}' is not in the Arrow schema."
            f"{near_names(name, schema.names)} Its columns are: {', '.join(schema.names)}."
        )
        raise InvalidInputError(message, kind="column_missing", column=name)
    fields = []
    for field in schema:
        data_type = _from_arrow_field(field, field.name)
        if field.name in required:
            data_type = data_type.not_null()
        comment = (field.metadata or {}).get(COMMENT_KEY)
        description = None if comment is None else comment.decode()
        fields.append(DataField(0, field.name, data_type, description))
    return with_new_ids(fields)


def _from_arrow_field(field: pa.Field, column: str) -> DataType:
    data_type = _from_arrow_type(field.type, column)
    return data_type if field.nullable else data_type.not_null()


def _from_arrow_type(arrow_type: pa.DataType, column: str) -> DataType:
    if pa.types.is_dictionary(arrow_type):
        return _from_arrow_type(arrow_type.value_type, column)
    known = _FROM_ARROW.get(arrow_type)
    if known is not None:
        return known
    if pa.types.is_timestamp(arrow_type):
        root = TypeRoot.TIMESTAMP if arrow_type.tz is None else TypeRoot.TIMESTAMP_LTZ
        return DataType(root, precision=_PRECISION_OF_UNIT[arrow_type.unit])
    if (
        pa.types.is_decimal(arrow_type)
        and arrow_type.precision <= DECIMAL_PRECISION_MAX
        and 0 <= arrow_type.scale <= arrow_type.precision
    ):
        return DataType(TypeRoot.DECIMAL, precision=arrow_type.precision, scale=arrow_type.scale)
    if pa.types.is_fixed_size_binary(arrow_type):
        return DataType(TypeRoot.BINARY, length=arrow_type.byte_width)
    nested = _from_nested_arrow(arrow_type, column)
    if nested is not None:
        return nested
    if pa.types.is_null(arrow_type):
        message = (
            f"Column '{column}' has Arrow's null type, which does not define its values."
            " Cast it to the wanted type."
        )
        raise InvalidInputError(message, kind="column_type", column=column)
    message = (
        f"Column '{column}' has the Arrow type {arrow_type}, which this version does not cover."
        " Cast it to a number, string, binary, date, time, timestamp, list, map or struct first."
    )
    raise UnsupportedError(message, kind="column_type", column=column)


def _from_nested_arrow(arrow_type: pa.DataType, column: str) -> DataType | None:
    kinds = pa.types
    if kinds.is_map(arrow_type):
        key = _from_arrow_type(arrow_type.key_type, f"{column}.key")
        value = _from_arrow_field(arrow_type.item_field, f"{column}.value")
        return DataType(TypeRoot.MAP, children=(key.not_null(), value))
    if kinds.is_struct(arrow_type):
        check_names_once([f.name for f in arrow_type], f"Column '{shortened(column)}'")
        return DataType(
            TypeRoot.ROW,
            children=tuple(_from_arrow_field(f, f"{column}.{f.name}") for f in arrow_type),
            child_fields=tuple((0, f.name) for f in arrow_type),
        )
    if is_list_like(arrow_type):
        element = _from_arrow_field(arrow_type.value_field, f"{column}.element")
        return DataType(TypeRoot.ARRAY, children=(element,))
    return None


def check_names_once(names: Sequence[str], what: str) -> None:
    """Refuse a duplicate name; `what` begins the message.

    Raises
    ------
    InvalidInputError
        The name.
    """
    if len(set(names)) != len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        message = (
            f"{what} has the column '{shortened(twice[0])}' more than once; name each column once."
        )
        raise InvalidInputError(message, kind="column_twice", column=twice[0])


def type_of_column(given: DataType | pa.DataType | str, name: str = "column") -> DataType:
    """The type that a user gave in one of three ways; `name` is for messages.

    Raises
    ------
    InvalidInputError, UnsupportedError
        It is none, or none that Paimon has.

    Examples
    --------
    >>> str(type_of_column("int not null")), str(type_of_column(pa.int64()))
    ('INT NOT NULL', 'BIGINT')
    """
    if isinstance(given, pa.DataType):
        return fields_from_arrow(pa.schema({name: given}))[0].type
    return parse_type_text(given) if isinstance(given, str) else given
