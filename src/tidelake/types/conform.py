"""Conforms user data to a table: all rows enter through it.

1. Columns are put in table order and cast without loss; a lossy cast is refused.
2. Nulls in NOT NULL columns, text and bytes longer than their type, and times outside a day are
   refused. Paimon's core checks only the nulls; Spark and Flink check lengths when they write.
3. A column with a default may be left out: it is null until the writer fills in the default.
4. Columns of nested types are split, and each child is conformed the same way.

All later code relies on the exact Arrow types of :mod:`tidelake.types.arrow`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
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

INTEGER_DIGITS_MAX = 20
"""The largest unsigned integer of 64 bits."""
TYPES_KEPT = 256

VALUE_SHOWN_MAX = 120
"""Characters of a value that a message repeats."""

Column: TypeAlias = pa.Array | pa.ChunkedArray
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
Sliced = TypeVar("Sliced", bound=Any)


def conform(
    batch: Rows, fields: Sequence[DataField], *, table: str, first_row: int | None = None
) -> Rows:
    """Make rows fit a table's columns: order by name, cast without loss, check nulls and lengths.

    Parameters
    ----------
    batch : pyarrow.RecordBatch or pyarrow.Table
        Exactly the columns of `fields`, in any order; those with a default may be left out.
        Integers may be of any width, strings, binaries and lists of any layout, timestamps of any
        unit, as long as each value fits; dictionaries and run ends count as their values. A
        struct has exactly the fields of its ROW, in any order.
    first_row : int, optional
        The number of the first row in the caller's data, from 0 on; messages then name the row of
        a value that does not fit.

    Returns
    -------
    pyarrow.RecordBatch or pyarrow.Table
        As given, with the schema ``to_arrow_schema(fields)``.

    Raises
    ------
    InvalidInputError
        A missing, unknown or retyped column, a value that does not fit, a null in a NOT NULL
        column: the message names table, column and the first value that does not fit.
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
            else pa.nulls(batch.num_rows)  # the writer fills in the default
            for f in fields
        ]
    columns = [
        _conform_column(column, field, arrow_type, _RowOrigin(table, first_row))
        for column, field, arrow_type in zip(columns, fields, schema.types, strict=True)
    ]
    return type(batch).from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class _RowOrigin:
    """The source of rows: their table, and the number of the first row if known."""

    table: str
    first_row: int | None

    def inside(self) -> _RowOrigin:
        """For the elements of lists and maps, which are not rows."""
        return _RowOrigin(self.table, None)

    def row(self, position: int) -> str:
        return "a row" if self.first_row is None else f"row {self.first_row + position}"

    def holds(self, column: Column, position: int) -> str:
        return f"{self.row(position)} holds {shown_value(column[position])}"


def shown_value(value: object) -> str:
    """A value for a message, shortened: as Python prints it, for its class.

    Examples
    --------
    >>> shown_value("a"), shown_value(pa.scalar(dt.date(2026, 1, 2)))
    ("'a'", '2026-01-02')
    """
    if not isinstance(value, pa.Scalar):
        return shortened(repr(value), VALUE_SHOWN_MAX)
    try:
        found = value.as_py()
    except (ValueError, OverflowError):  # an instant outside Python's range
        found = value.value
    is_time = isinstance(found, (dt.date, dt.time, Decimal))
    return shortened(str(found) if is_time else repr(found), VALUE_SHOWN_MAX)


def first_misfit(values: Sliced, fits: Callable[[Sliced], bool]) -> int | None:
    """Find the first of some values that does not fit, by bisection.

    Requires: values fit together exactly if each of them does. Costs about twice a test of all
    values.

    Returns
    -------
    int or None
        None if even the empty list does not fit: then the kind of values is wrong.

    Examples
    --------
    >>> first_misfit([1, 2, "a", 3, "b"], lambda part: all(isinstance(v, int) for v in part))
    2
    """
    if not fits(values[:0]):
        return None
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(values[low:middle]) else (low, middle)
    return low


def plain_layout(column: Column) -> Column:
    """The values behind dictionaries and run ends; extension types become their storage.

    Examples
    --------
    >>> plain_layout(pc.run_end_encode(pa.array([7, 7]))).to_pylist()
    [7, 7]
    """
    kind = column.type
    is_encoded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    if not is_encoded and not isinstance(kind, pa.BaseExtensionType):
        return column
    if isinstance(column, pa.ChunkedArray):
        if not column.num_chunks:
            return (
                plain_layout(pa.array([], kind))
                if is_encoded
                else pa.chunked_array([], kind.storage_type)
            )
        return pa.chunked_array([plain_layout(chunk) for chunk in column.chunks])
    if isinstance(column, pa.ExtensionArray):
        return plain_layout(column.storage)
    if pa.types.is_dictionary(kind):
        values, places = column.dictionary, column.indices
    else:
        rows = np.arange(column.offset, column.offset + len(column))
        ends = column.run_ends.to_numpy()
        values, places = column.values, pa.array(np.searchsorted(ends, rows, side="right"))
    if values.type in _WITHOUT_VIEWS:  # Arrow 26 cannot take from views
        values = values.cast(_WITHOUT_VIEWS[values.type])
    return plain_layout(values.take(places))


_WITHOUT_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _conform_column(
    column: Column,
    field: DataField,
    arrow_type: pa.DataType,
    origin: _RowOrigin,
    *,
    nulls_above: int = 0,
) -> Column:
    """Cast and check a column; `nulls_above` of its nulls are those of the struct it is in."""
    column = plain_layout(column)
    if field.type.is_nested or field.type.root is TypeRoot.VARIANT:
        _check_nulls(column, field, origin, nulls_above=nulls_above)
        return _conform_nested(column, field, arrow_type, origin)
    column = _cast_column(column, field, arrow_type, origin)
    _check_nulls(column, field, origin, nulls_above=nulls_above)
    _check_values(column, field, origin)
    return column


def _conform_nested(
    column: Column, field: DataField, arrow_type: pa.DataType, origin: _RowOrigin
) -> Column:
    if column.type == arrow_type and not _has_rules(field.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = [_conform_nested(c, field, arrow_type, origin) for c in column.chunks]
        return pa.chunked_array(chunks, arrow_type)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), arrow_type)
    if not _alike(column.type, arrow_type):
        raise _other_type(column.type, field, arrow_type, origin.table)
    if pa.types.is_struct(arrow_type):
        return _conform_struct(column, field, arrow_type, origin)
    parts = list_parts(column)
    children = []
    for flat, (name, data_type) in zip(parts.children, child_types(field.type), strict=True):
        inner = DataField(field.id, f"{field.name}.{name}", data_type)
        children.append(_conform_column(flat, inner, to_arrow_type(data_type), origin.inside()))
    parts = ListParts(parts.offsets, parts.nulls, tuple(children))
    return map_of(parts, arrow_type) if pa.types.is_map(arrow_type) else list_of(parts, arrow_type)


def _conform_struct(
    column: pa.StructArray, field: DataField, arrow_type: pa.DataType, origin: _RowOrigin
) -> pa.Array:
    fields = child_types(field.type) if field.type.is_nested else _VARIANT_FIELDS
    given = [f.name for f in column.type]
    wanted = [name for name, _ in fields]
    if len(set(given)) != len(given) or set(given) != set(wanted):
        raise _other_fields(column.type, field, wanted, origin.table)
    by_name = dict(zip(given, struct_children(column), strict=True))
    children = [
        _conform_column(
            by_name[name],
            DataField(field.id, f"{field.name}.{name}", data_type),
            to_arrow_type(data_type),
            origin,
            nulls_above=column.null_count,
        )
        for name, data_type in fields
    ]
    if field.type.root is TypeRoot.VARIANT:
        _check_variant_version(children[1], field, origin)
    return struct_of(children, arrow_type, column)


_VARIANT_FIELDS = [
    (f.name, DataType(TypeRoot.VARBINARY, nullable=False, length=STRING_LENGTH_MAX))
    for f in VARIANT_STORAGE
]


def _alike(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether both are structs, both maps or both lists; a map may be a list of its entries."""
    kinds = pa.types
    if kinds.is_struct(target):
        return kinds.is_struct(source)
    if kinds.is_map(target):
        return kinds.is_map(source)
    return is_list_like(source)


@lru_cache(maxsize=TYPES_KEPT)
def _has_rules(data_type: DataType) -> bool:
    """Whether inner values can break a rule that Arrow's type does not enforce."""
    if data_type.root is TypeRoot.VARIANT:
        return True
    return any(
        not child.nullable
        or child.root is TypeRoot.TIME
        or (child.length or STRING_LENGTH_MAX) < STRING_LENGTH_MAX
        or _has_rules(child)
        for _, child in (child_types(data_type) if data_type.is_nested else ())
    )


def _check_variant_version(metadata: pa.Array, field: DataField, origin: _RowOrigin) -> None:
    first = pc.binary_slice(metadata, 0, 1).cast(pa.binary())
    known = pc.is_in(first, pa.array([bytes([n << 4 | 1]) for n in range(16)]))
    bad_count = pc.sum(pc.and_(pc.invert(known), pc.is_valid(metadata))).as_py() or 0
    if bad_count:
        at = pc.index(pc.fill_null(known, True), False).as_py()
        message = (
            f"Column '{field.name}' of table '{origin.table}' is {field.type}, but {bad_count} rows"
            f" do not hold a variant of version 1 (the first is {origin.row(at)}): make them with"
            " tidelake.variants()."
        )
        raise InvalidInputError(message, kind="value_range", table=origin.table, column=field.name)


def _other_type(
    given: pa.DataType, field: DataField, wanted: pa.DataType, table: str
) -> InvalidInputError:
    message = (
        f"Column '{field.name}' of table '{table}' is {field.type}, but the data has the Arrow"
        f" type {given}. Cast it to {wanted} first{_in_spark(given, wanted)}."
    )
    return InvalidInputError(message, kind="column_type", table=table, column=field.name)


def _in_spark(given: pa.DataType, wanted: pa.DataType) -> str:
    """What Spark calls the wanted type, if only the zone is another."""
    if not (pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted)):
        return ""
    if wanted.tz is None:
        return " (timestamp_ntz in Spark), or make the column TIMESTAMP_LTZ, for instants"
    return " (timestamp in Spark), or make the column TIMESTAMP, for times without a zone"


def _other_fields(
    given: pa.StructType, field: DataField, wanted: Sequence[str], table: str
) -> InvalidInputError:
    names = given.names
    missing = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    if missing:
        what = f"the data lacks the field '{field.name}.{missing[0]}'"
    elif extra:
        near = near_names(extra[0], wanted)
        what = f"the data has the field '{field.name}.{extra[0]}', which it lacks{near}"
    else:
        what = "the data has a field twice"
    message = (
        f"Column '{field.name}' of table '{table}' is {field.type}, but {what.rstrip('.')}: give"
        f" exactly the fields {', '.join(wanted)}, in any order. The data has: {', '.join(names)}."
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
            f"The data has the column '{shortened(extra[0])}', which is not in table '{table}'."
            f"{near_names(extra[0], wanted)} The table's columns are: {', '.join(wanted)}. Leave it"
            f" out, or add it: ALTER TABLE {table} ADD COLUMN. Writes on Spark add it by the option"
            " 'write.merge-schema'."
        )
        raise InvalidInputError(message, kind="column_unknown", table=table, column=extra[0])
    if missing:
        message = (
            f"The data lacks the column '{missing[0]}' of table '{table}'; give every column"
            f" (nulls where there is no value). The data has: {', '.join(names)}."
        )
        raise InvalidInputError(message, kind="column_missing", table=table, column=missing[0])


def _cast_column(
    column: Column, field: DataField, arrow_type: pa.DataType, origin: _RowOrigin
) -> Column:
    source = column.type
    if source == arrow_type:
        return column
    if not _castable(source, arrow_type):
        raise _other_type(column.type, field, arrow_type, origin.table)
    try:
        result = _cast(column, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        at = first_misfit(column, lambda part: _is_castable(part, arrow_type))
        which = "" if at is None else f" ({origin.holds(column, at)})"
        message = (
            f"Column '{field.name}' of table '{origin.table}' is {field.type}; the data"
            f" ({column.type}) does not fit it without loss{which}: {shortened(str(error))}. Change"
            " the values or the column's type."
        )
        raise InvalidInputError(
            message, kind="value_range", table=origin.table, column=field.name
        ) from error
    if pa.types.is_floating(source) and source.bit_width > arrow_type.bit_width:
        _check_same_floats(column, result, field, origin)
    return result


def _cast(column: Column, arrow_type: pa.DataType) -> Column:
    if pa.types.is_integer(column.type) and pa.types.is_decimal(arrow_type):
        # the integer's type would refuse a narrow decimal; a wide one is checked by its values
        digits = INTEGER_DIGITS_MAX + arrow_type.scale
        if arrow_type.precision < digits:
            column = column.cast(pa.decimal256(digits, arrow_type.scale))
    return column.cast(arrow_type, safe=True)


def _is_castable(column: Column, arrow_type: pa.DataType) -> bool:
    try:
        _cast(column, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps the meaning of values; the cast checks whether each one fits."""
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
    origin: _RowOrigin,
) -> None:
    same = pc.or_(pc.equal(before, after.cast(before.type)), pc.is_nan(before))
    changed_count = pc.sum(pc.invert(same)).as_py() or 0
    if changed_count:
        at = pc.index(same, False).as_py()
        message = (
            f"Column '{field.name}' of table '{origin.table}' is {field.type}; {changed_count} rows"
            f" of the data ({before.type}) would be rounded ({origin.holds(before, at)}). Make the"
            " column DOUBLE or cast the data."
        )
        raise InvalidInputError(message, kind="value_range", table=origin.table, column=field.name)


def _check_nulls(column: Column, field: DataField, origin: _RowOrigin, *, nulls_above: int) -> None:
    if not field.type.nullable and column.null_count > nulls_above:
        known = origin.first_row is not None and not nulls_above
        first = pc.index(column.is_null(), True).as_py() if known else 0
        which = f" (the first is {origin.row(first)})" if known else ""
        message = (
            f"Column '{field.name}' of table '{origin.table}' is NOT NULL, but"
            f" {column.null_count - nulls_above} of {len(column)} rows are null{which}. Fill or"
            " drop them."
        )
        raise InvalidInputError(message, kind="null_value", table=origin.table, column=field.name)


def _check_values(column: Column, field: DataField, origin: _RowOrigin) -> None:
    length_max = field.type.length
    bad: Column | None = None
    shown = column
    if length_max is not None and length_max < STRING_LENGTH_MAX:
        is_text = field.type.root in {TypeRoot.CHAR, TypeRoot.VARCHAR}
        lengths = pc.utf8_length(column) if is_text else pc.binary_length(column)
        bad = pc.greater(lengths, length_max)
        reason = f"longer than {length_max} {'characters' if is_text else 'bytes'}"
    elif field.type.root is TypeRoot.TIME:
        shown = column.cast(pa.int32())
        bad = pc.or_(pc.less(shown, 0), pc.greater_equal(shown, MS_PER_DAY))
        reason = "outside one day"
    if bad is not None and (bad_count := pc.sum(bad).as_py()):
        holds = origin.holds(shown, pc.index(bad, True).as_py())
        message = (
            f"Column '{field.name}' of table '{origin.table}' is {field.type}, but {bad_count} rows"
            f" are {reason} ({holds}). Change the values or the column's type."
        )
        raise InvalidInputError(message, kind="value_range", table=origin.table, column=field.name)
