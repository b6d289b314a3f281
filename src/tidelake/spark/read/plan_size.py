"""How large Spark takes our rows to be: it decides joins by the bytes of a plan.

Spark divides the bytes of files among their columns, by a width for each type. Told of the columns
wanted only, it would give them all bytes of the files, and broadcast no small part of a wide table.
And it derives the size of ``mapInArrow`` from its input, a few numbers of tasks: it would broadcast
a table of any size. So:

1. The schema of a native scan has all columns of the files. Where they are many, or the files have
   several schemas, one more column stands for those left out, as wide as they
   (:func:`unread_column`).
2. The numbers of tasks are as large as the rows that tasks make of them (:func:`task_numbers`).
3. No rows are a relation without rows (:func:`no_rows`): Spark takes an RDD of none to be larger
   than any table, and joins by sorting the other side.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.errors import UnsupportedError
from tidelake.spark.expression.types import to_spark_type
from tidelake.spark.jvm.logical_rdd import logical_rdd
from tidelake.types import DataField

UNREAD_COLUMN = "__tidelake_unread"
ROW_OVERHEAD_BYTES = 8
_WIDTHS: dict[type[st.DataType], int] = {
    st.BooleanType: 1,
    st.ByteType: 1,
    st.ShortType: 2,
    st.IntegerType: 4,
    st.FloatType: 4,
    st.DateType: 4,
    st.StringType: 20,
    st.BinaryType: 100,
    st.DecimalType: 16,
}
_PIECES = (st.BinaryType(), st.StringType(), st.LongType(), st.ByteType())
_NUMBER_WIDTH = 8


def field_types(fields: Iterable[DataField]) -> list[st.DataType]:
    """Spark's types of columns; without those that Spark cannot have."""
    found = []
    for field in fields:
        with suppress(UnsupportedError):
            found.append(to_spark_type(field.type))
    return found


def row_width(types: Iterable[st.DataType]) -> int:
    """Spark's estimate of a row's bytes.

    Examples
    --------
    >>> row_width([st.LongType(), st.StringType()])
    36
    """
    return ROW_OVERHEAD_BYTES + sum(map(_width, types))


def _width(data_type: st.DataType) -> int:
    if isinstance(data_type, st.StructType):
        return sum(_width(field.dataType) for field in data_type.fields)
    if isinstance(data_type, st.ArrayType):
        return _width(data_type.elementType)
    if isinstance(data_type, st.MapType):
        return _width(data_type.keyType) + _width(data_type.valueType)
    if isinstance(data_type, st.DecimalType) and data_type.precision <= _LONG_DIGITS:
        return 8
    return _WIDTHS.get(type(data_type), 8)


_LONG_DIGITS = 18


def unread_column(types: Iterable[st.DataType]) -> list[st.StructField]:
    """A column as wide as columns of these types, for a schema; none if there are none.

    Examples
    --------
    >>> [column] = unread_column([st.StringType(), st.LongType(), st.IntegerType()])
    >>> column.dataType.simpleString()
    'struct<0:string,1:bigint,2:tinyint,3:tinyint,4:tinyint,5:tinyint>'
    >>> unread_column([])
    []
    """
    left, parts = row_width(types) - ROW_OVERHEAD_BYTES, []
    for piece in _PIECES:
        count, left = divmod(left, _width(piece))
        parts += [piece] * count
    if not parts:
        return []
    inside = [st.StructField(str(number), part) for number, part in enumerate(parts)]
    return [st.StructField(UNREAD_COLUMN, st.StructType(inside))]


def no_rows(spark: SparkSession, schema: st.StructType) -> DataFrame:
    """A frame without rows, which Spark knows to be empty."""
    if is_remote() or not hasattr(spark, "_jsparkSession"):
        return spark.createDataFrame([], schema)
    session = spark._jsparkSession
    struct = session.parseDataType(schema.json())
    return DataFrame(session.createDataFrame(spark._jvm.java.util.ArrayList(), struct), spark)


def task_numbers(spark: SparkSession, count: int, *, size_bytes: int) -> DataFrame:
    """The numbers 0 to `count` - 1, one for each task.

    Parameters
    ----------
    size_bytes : int
        Bytes of the rows that ``mapInArrow`` makes of them: to Spark its size is its input's.
    """
    numbers = spark.range(0, count, 1, count)
    if is_remote() or not hasattr(spark, "_jsparkSession"):
        return numbers  # there is no JVM to tell
    told = spark.range(0, max(count, size_bytes // _NUMBER_WIDTH), 1, count)
    rows = logical_rdd(spark, numbers._jdf.queryExecution().toRdd(), told._jdf)
    datasets = getattr(spark._jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, rows), spark)
