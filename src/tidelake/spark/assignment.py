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

from tidelake.spark.expression import quoted
from tidelake.spark.types import to_spark_type
from tidelake.sql.insert_columns import check_count, wrong_type
from tidelake.types import DataField

__all__ = ["assigned", "goes_into"]

_DATES = (st.DateType, st.TimestampType, st.TimestampNTZType)


def assigned(frame: DataFrame, targets: Sequence[DataField], *, table: str) -> DataFrame:
    """A query's rows under the names and in the types of the columns they go to.

    Raises
    ------
    InvalidInputError
        Columns are too few or too many, or a type does not go into another.
    """
    check_count(len(frame.columns), targets, table=table)
    places = [f"c{number}" for number in range(len(targets))]
    columns: list[Column] = []
    types = [field.dataType for field in frame.schema.fields]
    for place, source, target in zip(places, types, targets, strict=True):
        wanted = to_spark_type(target.type, column=target.name, table=table)
        if not goes_into(source, wanted):
            raise wrong_type(
                target,
                given=source.simpleString(),
                cast_to=wanted.simpleString().upper(),
                table=table,
            )
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
