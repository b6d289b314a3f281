"""All rows of a DataFrame as an Arrow table, for every type."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.spark.expression.expression import quoted

_WITHOUT_ARROW = (st.YearMonthIntervalType, st.CalendarIntervalType, st.DayTimeIntervalType)


def collected(frame: DataFrame) -> pa.Table:
    """Bring all rows to this process.

    Parameters
    ----------
    frame : DataFrame
        Of a query; two columns may have one name.

    Returns
    -------
    pyarrow.Table
        Instants are in UTC, variants as their two binaries; intervals as text, because Arrow
        lacks some of them.
    """
    fields = frame.schema.fields
    if not any(_has_interval(field.dataType) for field in fields):
        return frame.toArrow()
    names = [f"c{number}" for number in range(len(fields))]
    numbered = frame.toDF(*names)
    columns = [_carried(name, f.dataType) for name, f in zip(names, fields, strict=True)]
    rows = numbered.select(*columns).toArrow()
    return rows.rename_columns([field.name for field in fields])


def _carried(name: str, data_type: st.DataType) -> Column:
    column = F.col(quoted(name))
    if not _has_interval(data_type):
        return column
    return column.cast("string").alias(name)


def _has_interval(data_type: st.DataType) -> bool:
    if isinstance(data_type, st.ArrayType):
        return _has_interval(data_type.elementType)
    if isinstance(data_type, st.MapType):
        return _has_interval(data_type.keyType) or _has_interval(data_type.valueType)
    if isinstance(data_type, st.StructType):
        return any(_has_interval(field.dataType) for field in data_type.fields)
    return isinstance(data_type, _WITHOUT_ARROW)
