"""Store assignment of a query's columns to a table's, as Spark's ``storeAssignmentPolicy = ANSI``.

A number goes into a numeric column: a fraction is cut off if the column has none, more digits than
a decimal's are rounded, and a number out of range is an error with table, column and value. Text
for a number, or a number for a date, is refused. INSERT assigns columns by position
(:func:`assigned`), UPDATE and MERGE by name (:func:`assigned_values`); both use :func:`stored`. By
name is by name at every depth (:mod:`tidelake.spark.expression.field_order`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import InvalidInputError
from tidelake.spark.error_wire import error_from_text, error_to_text
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.field_order import fields_by_name
from tidelake.spark.expression.types import is_time, to_spark_type
from tidelake.sql.syntax.insert_columns import check_count, out_of_range_error, wrong_type_error
from tidelake.types import DataField

Key = TypeVar("Key", bound=Hashable)

_DATES = (st.DateType, st.TimestampType, st.TimestampNTZType)
_WHOLE_DIGITS = {
    st.ByteType: 3,
    st.ShortType: 5,
    st.IntegerType: 10,
    st.LongType: 19,
}
"""Digits of the largest number of each type."""
_VALUE = "\N{REPLACEMENT CHARACTER}"
_RAISED = re.compile(r'\{"class": "InvalidInputError".*?"kind": "value_range".*?\}\}', re.DOTALL)


def assigned(
    frame: DataFrame,
    targets: Sequence[DataField],
    *,
    table: str,
    by_name: bool = False,
    kept: str | None = None,
) -> DataFrame:
    """Return a query's rows with the names and types of their target columns.

    Parameters
    ----------
    by_name : bool
        Whether fields in the columns are matched by their names; by default by position.
    kept : str, optional
        A column that the table does not have and that is kept.

    Raises
    ------
    InvalidInputError
        There are too few or too many columns, or a type does not fit.
    """
    given = [field for field in frame.schema.fields if field.name != kept]
    check_count(len(given), targets, table=table)
    numbers = iter(range(len(given)))
    names = [kept if c == kept and kept else f"c{next(numbers)}" for c in frame.columns]
    columns: list[Column] = []
    for number, (field, target) in enumerate(zip(given, targets, strict=True)):
        value, source = F.col(f"c{number}"), field.dataType
        if by_name:
            wanted = to_spark_type(target.type, column=target.name, table=table)
            value, source = fields_by_name(value, source, wanted, column=target.name, table=table)
        value = stored(value, source, target, table=table)
        columns.append(value.alias(target.name))
    if kept is not None:
        columns.append(F.col(quoted(kept)))
    return frame.toDF(*names).select(*columns)


def assigned_values(
    rows: DataFrame, values: Mapping[Key, Column], targets: Mapping[Key, DataField], *, table: str
) -> dict[Key, Column]:
    """Return new values in the types of their target columns.

    Parameters
    ----------
    rows : DataFrame
        Rows with the values' types, perhaps none.
    targets : mapping to DataField
        Target fields by the same keys; messages show their names.

    Raises
    ------
    InvalidInputError
        A type does not fit; ``column`` in its context is the target's name.
    """
    if not values:
        return {}
    schema = rows.select(*(v.alias(f"c{n}") for n, v in enumerate(values.values()))).schema
    made: dict[Key, Column] = {}
    for (key, value), found in zip(values.items(), schema.fields, strict=True):
        target = targets[key]
        wanted = to_spark_type(target.type, column=target.name, table=table)
        value, source = fields_by_name(
            value, found.dataType, wanted, column=target.name, table=table
        )
        made[key] = stored(value, source, target, table=table)
    return made


def stored(value: Column, source: st.DataType, target: DataField, *, table: str) -> Column:
    """Cast a value to the type of a column.

    Raises
    ------
    InvalidInputError
        The type does not fit. A number out of range fails when rows are written:
        :func:`spark_overflow_error` makes the error from Spark's.
    """
    wanted = to_spark_type(target.type, column=target.name, table=table)
    if source == wanted:
        return value
    if not goes_into(source, wanted):
        raise wrong_type_error(
            target,
            given=source.simpleString(),
            cast_to=wanted.simpleString().upper(),
            table=table,
        )
    if not _may_be_out_of_range(source, wanted):
        return value.cast(wanted)
    error = error_to_text(out_of_range_error(target, _VALUE, table=table))
    before, after = error.split(json.dumps(_VALUE).strip('"'))
    said = F.concat(F.lit(before), value.cast("string"), F.lit(after))
    # a null is a null, and no error
    return F.coalesce(value.try_cast(wanted), F.when(value.isNotNull(), F.raise_error(said)))


def spark_overflow_error(said: str) -> InvalidInputError | None:
    """Make the error of a value that :func:`stored` refused, from Spark's message."""
    found = _RAISED.search(said)
    if found is None:
        return None
    error = error_from_text(found[0])
    assert isinstance(error, InvalidInputError), "written by us"
    return error


def _may_be_out_of_range(source: st.DataType, wanted: st.DataType) -> bool:
    """True if some numbers of one type are out of another's range."""
    if not isinstance(source, st.NumericType) or not isinstance(wanted, st.NumericType):
        return False
    if isinstance(wanted, (st.FloatType, st.DoubleType)):
        return False  # infinity takes what is too large, as in Spark
    if isinstance(source, (st.FloatType, st.DoubleType)):
        return True
    if isinstance(wanted, st.DecimalType):
        # rounding may carry: 9.95 is 10.0 with one digit behind the point
        carries = isinstance(source, st.DecimalType) and source.scale > wanted.scale
        return _digits(source) + carries > _digits(wanted)
    if isinstance(source, st.DecimalType):
        return _digits(source) >= _digits(wanted)
    return _digits(source) > _digits(wanted)


def _digits(number: st.DataType) -> int:
    """Digits before the point of the largest number of a type that is exact."""
    if isinstance(number, st.DecimalType):
        return number.precision - number.scale
    return _WHOLE_DIGITS[type(number)]


def goes_into(source: st.DataType, target: st.DataType) -> bool:
    """True if the ANSI rules assign one type to another without a cast."""
    if isinstance(source, st.NullType) or source == target:
        return True
    if isinstance(source, st.ArrayType) and isinstance(target, st.ArrayType):
        return goes_into(source.elementType, target.elementType)
    if isinstance(source, st.MapType) and isinstance(target, st.MapType):
        return goes_into(source.keyType, target.keyType) and goes_into(
            source.valueType, target.valueType
        )
    if isinstance(source, st.StructType) and isinstance(target, st.StructType):
        return len(source) == len(target) and all(
            goes_into(a.dataType, b.dataType)
            for a, b in zip(source.fields, target.fields, strict=True)
        )
    if isinstance(source, st.NumericType) and isinstance(target, st.NumericType):
        return True
    if isinstance(source, _DATES) and isinstance(target, _DATES):
        return True
    if is_time(source) and is_time(target):
        return True
    if isinstance(target, st.StringType):
        return isinstance(source, st.AtomicType) and not isinstance(source, st.BinaryType)
    return isinstance(source, st.StringType) and isinstance(target, st.StringType)
