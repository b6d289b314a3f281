"""From a query's columns to a table's, by the rules of SQL's store assignment.

A column goes where its position says. What loses nothing, or fails rather than losing something,
is cast; a text into a number, or a number into a date, is refused: the query must say how
(Spark's ``storeAssignmentPolicy = ANSI``).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.errors import InvalidInputError, near_names
from tidelake.spark.expression import quoted
from tidelake.spark.types import to_spark_type
from tidelake.types import DataField

__all__ = ["assigned", "goes_into", "target_columns"]

_DATES = (st.DateType, st.TimestampType, st.TimestampNTZType)


def target_columns(
    given: Sequence[str], fields: Sequence[DataField], fixed: Sequence[str], *, table: str
) -> list[DataField]:
    """The columns that a query's columns go to, in the query's order.

    Parameters
    ----------
    given : sequence of str
        The list behind the table's name; empty for all columns.
    fields : sequence of DataField
        The table's.
    fixed : sequence of str
        Columns whose value PARTITION gives.
    table : str
        For messages.

    Raises
    ------
    InvalidInputError
        A name is unknown, there twice, or has a value already.
    """
    by_key = {f.name.casefold(): f for f in fields}
    taken = {name.casefold() for name in fixed}
    if not given:
        return [f for f in fields if f.name.casefold() not in taken]
    found: list[DataField] = []
    for name in given:
        field = by_key.get(name.casefold())
        if field is None:
            message = (
                f"Table '{table}' has no column '{name}'."
                f"{near_names(name, [f.name for f in fields])}"
            )
            raise InvalidInputError(message, kind="column_not_found", table=table, column=name)
        if field in found or field.name.casefold() in taken:
            message = f"Column '{name}' of table '{table}' is given twice."
            raise InvalidInputError(message, kind="column_twice", table=table, column=name)
        found.append(field)
    return found


def assigned(frame: DataFrame, targets: Sequence[DataField], *, table: str) -> DataFrame:
    """A query's rows under the names and in the types of the columns they go to.

    Raises
    ------
    InvalidInputError
        Columns are too few or too many, or a type does not go into another.
    """
    if len(frame.columns) != len(targets):
        message = (
            f"The query gives {len(frame.columns)} columns, table '{table}' takes {len(targets)}:"
            f" {', '.join(f.name for f in targets)}."
        )
        raise InvalidInputError(message, kind="column_count", table=table)
    places = [f"c{number}" for number in range(len(targets))]
    columns: list[Column] = []
    types = [field.dataType for field in frame.schema.fields]
    for place, source, target in zip(places, types, targets, strict=True):
        wanted = to_spark_type(target.type, column=target.name, table=table)
        if not goes_into(source, wanted):
            message = (
                f"Column '{target.name}' of table '{table}' is {target.type}, the query gives"
                f" {source.simpleString()}: write CAST(... AS {wanted.simpleString().upper()})."
            )
            raise InvalidInputError(message, kind="column_type", table=table, column=target.name)
        column = F.col(place)
        columns.append((column if source == wanted else column.cast(wanted)).alias(target.name))
    return frame.toDF(*places).select(*columns)


def goes_into(source: st.DataType, target: st.DataType) -> bool:
    """Whether the ANSI rules assign one type to another without a cast in the query."""
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
    if isinstance(target, st.StringType):
        return isinstance(source, st.AtomicType) and not isinstance(source, st.BinaryType)
    return isinstance(source, st.StringType) and isinstance(target, st.StringType)


def with_columns(frame: DataFrame, values: dict[str, Column]) -> DataFrame:
    """A DataFrame with more columns, of any name."""
    return frame.select(
        *(F.col(quoted(c)) for c in frame.columns), *(v.alias(n) for n, v in values.items())
    )
