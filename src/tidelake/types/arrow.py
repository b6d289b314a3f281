"""Paimon's types as Arrow types, and user data made to fit a table.

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
=========================  ====================================================

:func:`conform` is the one gate through which user data enters: it puts columns in table order,
casts without loss, and refuses whatever would change a value. Everything behind it relies on the
exact Arrow types above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.types.data_type import STRING_LENGTH_MAX, DataType, TypeRoot
from tidelake.types.schema import DataField

__all__ = [
    "MS_PER_DAY",
    "NANOS_PER_UNIT",
    "check_covered",
    "conform",
    "fields_from_arrow",
    "timestamp_unit",
    "to_arrow_schema",
    "to_arrow_type",
]

MS_PER_DAY = 86_400_000
NANOS_PER_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
DECIMAL_PRECISION_MAX = 38
INTEGER_DIGITS_MAX = 20
"""Of an unsigned integer of 64 bits."""

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

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
    # Paimon keeps TIME in ms whatever its precision; finer values are refused when rows come.
    pa.time64("us"): DataType(TypeRoot.TIME, precision=3),
    pa.time64("ns"): DataType(TypeRoot.TIME, precision=3),
}
_PRECISION_OF_UNIT = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def timestamp_unit(data_type: DataType) -> Literal["ms", "us", "ns"]:
    """Arrow's unit of a TIMESTAMP or TIMESTAMP_LTZ column: ``"ms"``, ``"us"`` or ``"ns"``."""
    assert data_type.precision is not None, "a timestamp type has a precision"
    return "ms" if data_type.precision <= 3 else "us" if data_type.precision <= 6 else "ns"


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """Give the Arrow type of a Paimon type.

    Raises
    ------
    UnsupportedError
        A nested type or VARIANT.

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
        case _:
            message = (
                f"Type {data_type} is not covered by this version; nested types and VARIANT can be"
                " neither read nor written yet. Leave the column out or store it as a STRING."
            )
            raise UnsupportedError(message, kind="column_type", type=str(data_type))


def check_covered(fields: Iterable[DataField], *, table: str) -> None:
    """Refuse columns whose values cannot be read or written yet.

    Raises
    ------
    UnsupportedError
        Names the table and the column.
    """
    for field in fields:
        try:
            to_arrow_type(field.type)
        except UnsupportedError as error:
            message = f"Table '{table}', column '{field.name}': {error.message}"
            raise UnsupportedError(
                message, kind="column_type", table=table, column=field.name
            ) from error


def to_arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Give the Arrow schema of columns; NOT NULL columns are not nullable in Arrow.

    Raises
    ------
    UnsupportedError
        A column of a nested type or VARIANT.
    """
    return pa.schema(
        [pa.field(f.name, to_arrow_type(f.type), nullable=f.type.nullable) for f in fields]
    )


def fields_from_arrow(schema: pa.Schema, *, not_null: Iterable[str] = ()) -> tuple[DataField, ...]:
    """Give the columns of a new table for an Arrow schema, with ids from 0.

    Parameters
    ----------
    schema : pyarrow.Schema
        Unsigned integers take the next wider signed type, uint64 DECIMAL(20, 0); dictionaries take
        their values' type.
    not_null : iterable of str
        Columns that must not be null; columns that Arrow calls not nullable are too.

    Raises
    ------
    InvalidInputError
        A column of Arrow's null type, a name given twice, or a `not_null` that is not there.
    UnsupportedError
        An Arrow type without a counterpart.

    Examples
    --------
    >>> [str(f.type) for f in fields_from_arrow(pa.schema({"k": pa.int64(), "v": pa.uint64()}))]
    ['BIGINT', 'DECIMAL(20, 0)']
    """
    required = frozenset(not_null)
    _check_names_once(schema.names, "The Arrow schema")
    for name in sorted(required.difference(schema.names)):
        message = (
            f"Column '{shortened(name)}' is not in the Arrow schema."
            f"{near_names(name, schema.names)} Its columns are: {', '.join(schema.names)}."
        )
        raise InvalidInputError(message, kind="column_missing", column=name)
    fields = []
    for position, field in enumerate(schema):
        data_type = _from_arrow_type(field.type, field.name)
        if field.name in required or not field.nullable:
            data_type = data_type.not_null()
        fields.append(DataField(position, field.name, data_type))
    return tuple(fields)


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
    if pa.types.is_null(arrow_type):
        message = (
            f"Column '{column}' has Arrow's null type, which says nothing of its values."
            " Cast it to the type that it should have."
        )
        raise InvalidInputError(message, kind="column_type", column=column)
    message = (
        f"Column '{column}' has the Arrow type {arrow_type}, which this version does not cover."
        " Cast it to a scalar type (number, string, binary, date, time, timestamp) first."
    )
    raise UnsupportedError(message, kind="column_type", column=column)


def conform(batch: Rows, fields: Sequence[DataField], *, table: str) -> Rows:
    """Make rows fit a table's columns: order by name, cast without loss, check nulls and lengths.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Exactly the columns of `fields`, in any order. Integers may be of any width, strings and
        binaries of any layout, timestamps of any unit, as long as each value fits.
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
    UnsupportedError
        The table has a column of a type that is not covered.
    """
    schema = _arrow_schema_of(fields, table)
    names = batch.schema.names
    if batch.schema.equals(schema):
        columns = [batch.column(i) for i in range(len(names))]
    else:
        _check_columns(names, [f.name for f in fields], table)
        columns = [
            _cast_column(batch.column(f.name), f, arrow_type, table)
            for f, arrow_type in zip(fields, schema.types, strict=True)
        ]
    for field, column in zip(fields, columns, strict=True):
        _check_values(column, field, table)
    return type(batch).from_arrays(columns, schema=schema)


def _arrow_schema_of(fields: Sequence[DataField], table: str) -> pa.Schema:
    check_covered(fields, table=table)
    return to_arrow_schema(fields)


def _check_names_once(names: Sequence[str], what: str) -> None:
    if len(set(names)) != len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        message = (
            f"{what} has the column '{shortened(twice[0])}' more than once; name each column once."
        )
        raise InvalidInputError(message, kind="column_twice", column=twice[0])


def _check_columns(names: Sequence[str], wanted: Sequence[str], table: str) -> None:
    _check_names_once(names, f"The data for table '{table}'")
    missing = [n for n in wanted if n not in names]
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


def _cast_column(
    column: pa.Array | pa.ChunkedArray, field: DataField, arrow_type: pa.DataType, table: str
) -> pa.Array | pa.ChunkedArray:
    source = column.type
    if source == arrow_type:
        return column
    if pa.types.is_dictionary(source):
        source = source.value_type
    if not _castable(source, arrow_type):
        message = (
            f"Column '{field.name}' of table '{table}' is {field.type}, but the data has the Arrow"
            f" type {column.type}. Cast it to {arrow_type} first."
        )
        raise InvalidInputError(message, kind="column_type", table=table, column=field.name)
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
    before: pa.Array | pa.ChunkedArray,
    after: pa.Array | pa.ChunkedArray,
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


def _check_values(column: pa.Array | pa.ChunkedArray, field: DataField, table: str) -> None:
    if column.null_count and not field.type.nullable:
        message = (
            f"Column '{field.name}' of table '{table}' is NOT NULL, but {column.null_count} of"
            f" {len(column)} rows are null. Fill or drop them."
        )
        raise InvalidInputError(message, kind="null_value", table=table, column=field.name)
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
