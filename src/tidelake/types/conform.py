"""User data made to fit a table: the one gate through which rows enter.

1. Columns are put in table order, cast without loss; what would change a value is refused.
2. Nulls in NOT NULL columns, text and bytes longer than their type, and times outside a day are
   refused. Paimon's core checks none but the nulls; Spark and Flink check lengths as they write.
3. A column that has a default may be left out: it is null, until the writer puts the default in.
4. Columns of nested types are taken apart and each of their children goes through the same.

Everything behind it relies on the exact Arrow types of :mod:`tidelake.types.arrow`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.types.arrow import (
    MS_PER_DAY,
    VARIANT_STORAGE,
    check_names_once,
    child_types,
    to_arrow_schema,
    to_arrow_type,
)
from tidelake.types.data_type import STRING_LENGTH_MAX, DataType, TypeRoot
from tidelake.types.nested import (
    ListParts,
    is_list_like,
    list_of,
    list_parts,
    map_of,
    struct_children,
    struct_of,
)
from tidelake.types.schema import DataField

__all__ = ["conform"]

INTEGER_DIGITS_MAX = 20
"""Of an unsigned integer of 64 bits."""
TYPES_KEPT = 256

Column: TypeAlias = pa.Array | pa.ChunkedArray
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def conform(batch: Rows, fields: Sequence[DataField], *, table: str) -> Rows:
    """Make rows fit a table's columns: order by name, cast without loss, check nulls and lengths.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Exactly the columns of `fields`, in any order; those with a default may be left out.
        Integers may be of any width, strings, binaries and lists of any layout, timestamps of any
        unit, as long as each value fits; a struct has exactly the fields of its ROW, in any order.
    fields : sequence of DataField
        The table's columns.
    table : str
        The table's name, for messages.

    Returns
    -------
    pyarrow.RecordBatch or pyarrow.Table
        As given, with the schema ``to_arrow_schema(fields)``.

    Raises
    ------
    InvalidInputError
        A missing, unknown or retyped column, a value that does not fit, a null in a NOT NULL
        column: the message names table, column and number of rows.
    """
    schema = to_arrow_schema(fields)
    names = batch.schema.names
    if batch.schema.equals(schema):
        columns = [batch.column(i) for i in range(len(names))]
    else:
        defaults = {f.name for f in fields if f.default_value is not None}
        _check_columns(names, [f.name for f in fields], table, optional=defaults)
        columns = [
            batch.column(f.name)
            if f.name in names
            else pa.nulls(batch.num_rows)  # the writer puts the default in
            for f in fields
        ]
    columns = [
        _conform_column(column, field, arrow_type, table)
        for column, field, arrow_type in zip(columns, fields, schema.types, strict=True)
    ]
    return type(batch).from_arrays(columns, schema=schema)


def _conform_column(
    column: Column, field: DataField, arrow_type: pa.DataType, table: str, *, nulls_above: int = 0
) -> Column:
    """Cast and check a column; `nulls_above` of its nulls are those of the struct it is in."""
    if field.type.is_nested or field.type.root is TypeRoot.VARIANT:
        _check_nulls(column, field, table, nulls_above=nulls_above)
        return _conform_nested(column, field, arrow_type, table)
    column = _cast_column(column, field, arrow_type, table)
    _check_nulls(column, field, table, nulls_above=nulls_above)
    _check_values(column, field, table)
    return column


def _conform_nested(
    column: Column, field: DataField, arrow_type: pa.DataType, table: str
) -> Column:
    if column.type == arrow_type and not _has_rules(field.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = [_conform_nested(c, field, arrow_type, table) for c in column.chunks]
        return pa.chunked_array(chunks, arrow_type)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow_type)
    if isinstance(column, pa.ExtensionArray):
        return _conform_nested(column.storage, field, arrow_type, table)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _alike(column.type, arrow_type):
        raise _other_type(column.type, field, arrow_type, table)
    if pa.types.is_struct(arrow_type):
        return _conform_struct(column, field, arrow_type, table)
    parts = list_parts(column)
    children = []
    for flat, (name, data_type) in zip(parts.children, child_types(field.type), strict=True):
        inner = DataField(field.id, f"{field.name}.{name}", data_type)
        children.append(_conform_column(flat, inner, to_arrow_type(data_type), table))
    parts = ListParts(parts.offsets, parts.nulls, tuple(children))
    return map_of(parts, arrow_type) if pa.types.is_map(arrow_type) else list_of(parts, arrow_type)


def _conform_struct(
    column: pa.StructArray, field: DataField, arrow_type: pa.DataType, table: str
) -> pa.Array:
    fields = child_types(field.type) if field.type.is_nested else _VARIANT_FIELDS
    given = [f.name for f in column.type]
    if len(set(given)) != len(given) or set(given) != {name for name, _ in fields}:
        raise _other_type(column.type, field, arrow_type, table)
    by_name = dict(zip(given, struct_children(column), strict=True))
    children = [
        _conform_column(
            by_name[name],
            DataField(field.id, f"{field.name}.{name}", data_type),
            to_arrow_type(data_type),
            table,
            nulls_above=column.null_count,
        )
        for name, data_type in fields
    ]
    if field.type.root is TypeRoot.VARIANT:
        _check_variant_version(children[1], field, table)
    return struct_of(children, arrow_type, column)


_VARIANT_FIELDS = [
    (f.name, DataType(TypeRoot.VARBINARY, nullable=False, length=STRING_LENGTH_MAX))
    for f in VARIANT_STORAGE
]


def _alike(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether both are structs, both maps or both lists; a map may come as list of its entries."""
    kinds = pa.types
    if kinds.is_struct(target):
        return kinds.is_struct(source)
    if kinds.is_map(target):
        return kinds.is_map(source)
    return is_list_like(source)


@lru_cache(maxsize=TYPES_KEPT)
def _has_rules(data_type: DataType) -> bool:
    """Whether values inside can break a rule that the Arrow type does not know."""
    if data_type.root is TypeRoot.VARIANT:
        return True
    return any(
        not child.nullable
        or child.root is TypeRoot.TIME
        or (child.length or STRING_LENGTH_MAX) < STRING_LENGTH_MAX
        or _has_rules(child)
        for _, child in (child_types(data_type) if data_type.is_nested else ())
    )


def _check_variant_version(metadata: pa.Array, field: DataField, table: str) -> None:
    first = pc.binary_slice(metadata, 0, 1).cast(pa.binary())
    known = pc.is_in(first, pa.array([bytes([n << 4 | 1]) for n in range(16)]))
    bad_count = pc.sum(pc.and_(pc.invert(known), pc.is_valid(metadata))).as_py() or 0
    if bad_count:
        message = (
            f"Column '{field.name}' of table '{table}' is {field.type}, but {bad_count} rows hold"
            " no variant of version 1: make them with tidelake.variants()."
        )
        raise InvalidInputError(message, kind="value_range", table=table, column=field.name)


def _other_type(
    given: pa.DataType, field: DataField, wanted: pa.DataType, table: str
) -> InvalidInputError:
    message = (
        f"Column '{field.name}' of table '{table}' is {field.type}, but the data has the Arrow"
        f" type {given}. Cast it to {wanted} first."
    )
    return InvalidInputError(message, kind="column_type", table=table, column=field.name)


def _check_columns(
    names: Sequence[str], wanted: Sequence[str], table: str, *, optional: Collection[str]
) -> None:
    check_names_once(names, f"The data for table '{table}'")
    missing = [n for n in wanted if n not in names and n not in optional]
    extra = [n for n in names if n not in wanted]
    if extra:
        message = (
            f"The data has the column '{shortened(extra[0])}', which table '{table}' has not."
            f"{near_names(extra[0], wanted)} The table's columns are: {', '.join(wanted)}."
        )
        raise InvalidInputError(message, kind="column_unknown", table=table, column=extra[0])
    if missing:
        message = (
            f"The data lacks the column '{missing[0]}' of table '{table}'; give every column"
            f" (nulls where there is no value). The data has: {', '.join(names)}."
        )
        raise InvalidInputError(message, kind="column_missing", table=table, column=missing[0])


def _cast_column(column: Column, field: DataField, arrow_type: pa.DataType, table: str) -> Column:
    source = column.type
    if source == arrow_type:
        return column
    if pa.types.is_dictionary(source):
        source = source.value_type
    if not _castable(source, arrow_type):
        raise _other_type(column.type, field, arrow_type, table)
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(source)
        if pa.types.is_integer(source) and pa.types.is_decimal(arrow_type):
            # a narrow decimal is refused by the integer's type, through a wide one by the values
            digits = INTEGER_DIGITS_MAX + arrow_type.scale
            if arrow_type.precision < digits:
                column = column.cast(pa.decimal256(digits, arrow_type.scale))
        result = column.cast(arrow_type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = (
            f"Column '{field.name}' of table '{table}' is {field.type}; the data ({column.type})"
            f" does not fit it without loss: {error}. Change the values or the column's type."
        )
        raise InvalidInputError(
            message, kind="value_range", table=table, column=field.name
        ) from error
    if pa.types.is_floating(source) and source.bit_width > arrow_type.bit_width:
        _check_same_floats(column, result, field, table)
    return result


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps the meaning of values; whether each one fits is checked by the cast."""
    kinds = pa.types
    if source == target or kinds.is_null(source):
        return True
    if kinds.is_integer(target):
        return kinds.is_integer(source)
    if kinds.is_floating(target):
        return kinds.is_floating(source) or kinds.is_integer(source)
    if kinds.is_decimal(target):
        return kinds.is_decimal(source) or kinds.is_integer(source)
    if kinds.is_timestamp(target):
        return kinds.is_timestamp(source) and (source.tz is None) == (target.tz is None)
    if kinds.is_string(target):
        return source in {pa.large_string(), pa.string_view()}
    if kinds.is_binary(target):
        views = {pa.large_binary(), pa.binary_view()}
        return source in views or kinds.is_fixed_size_binary(source)
    return (kinds.is_date(target) and kinds.is_date(source)) or (
        kinds.is_time(target) and kinds.is_time(source)
    )


def _check_same_floats(
    before: Column,
    after: Column,
    field: DataField,
    table: str,
) -> None:
    same = pc.or_(pc.equal(before, after.cast(before.type)), pc.is_nan(before))
    changed_count = pc.sum(pc.invert(same)).as_py() or 0
    if changed_count:
        message = (
            f"Column '{field.name}' of table '{table}' is {field.type}; {changed_count} rows of the"
            f" data ({before.type}) would be rounded. Make the column DOUBLE or cast the data."
        )
        raise InvalidInputError(message, kind="value_range", table=table, column=field.name)


def _check_nulls(column: Column, field: DataField, table: str, *, nulls_above: int) -> None:
    if not field.type.nullable and column.null_count > nulls_above:
        message = (
            f"Column '{field.name}' of table '{table}' is NOT NULL, but"
            f" {column.null_count - nulls_above} of {len(column)} rows are null. Fill or drop them."
        )
        raise InvalidInputError(message, kind="null_value", table=table, column=field.name)


def _check_values(column: Column, field: DataField, table: str) -> None:
    length_max = field.type.length
    bad_count = 0
    if length_max is not None and length_max < STRING_LENGTH_MAX:
        is_text = field.type.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}
        lengths = pc.utf8_length(column) if is_text else pc.binary_length(column)
        bad_count = pc.sum(pc.greater(lengths, length_max)).as_py() or 0
        reason = f"longer than {length_max} {'characters' if is_text else 'bytes'}"
    elif field.type.root is TypeRoot.TIME:
        numbers = column.cast(pa.int32())
        outside = pc.or_(pc.less(numbers, 0), pc.greater_equal(numbers, MS_PER_DAY))
        bad_count = pc.sum(outside).as_py() or 0
        reason = "outside one day"
    if bad_count:
        message = (
            f"Column '{field.name}' of table '{table}' is {field.type}, but {bad_count} rows are"
            f" {reason}. Change the values or the column's type."
        )
        raise InvalidInputError(message, kind="value_range", table=table, column=field.name)
