"""Converts Paimon's types to Spark's and back, and Arrow batches to the types of Spark.

======================================  ==========================================
Paimon                                  Spark
======================================  ==========================================
BOOLEAN, TINYINT .. BIGINT              boolean, tinyint .. bigint
FLOAT, DOUBLE, DECIMAL(p, s)            float, double, decimal(p, s)
CHAR(n), VARCHAR(n), STRING             string
BINARY(n), VARBINARY(n), BYTES          binary
DATE                                    date
TIME(p)                                 time(p), p at most 6
TIMESTAMP(p)                            timestamp_ntz (microseconds)
TIMESTAMP(p) WITH LOCAL TIME ZONE       timestamp (microseconds)
ARRAY<T>, MAP<K, V>                     array, map
MULTISET<T>                             map<T, int>
ROW<a T, ...>                           struct
VARIANT                                 variant
======================================  ==========================================

A TIMESTAMP(7..9) is readable if its values are whole microseconds; any other value is refused
rather than cut. Values inside a nested column may be null on Spark, whatever the table declares,
like its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from tidelake.errors import UnsupportedError
from tidelake.spark.versions import TIMES, has
from tidelake.types import DataField, DataType, TypeRoot
from tidelake.types.arrow import child_types, nested_type
from tidelake.types.field_ids import with_new_ids

COMMENT_KEY = "comment"
"""Key of a column's comment in Spark's metadata."""
STRING_LENGTH_MAX = 2_147_483_647
SPARK_FRACTION_DIGITS = 6
TIME_DIGITS = 3
"""Paimon keeps TIME in milliseconds."""

_PLAIN: dict[TypeRoot, st.DataType] = {
    TypeRoot.BOOLEAN: st.BooleanType(),
    TypeRoot.TINYINT: st.ByteType(),
    TypeRoot.SMALLINT: st.ShortType(),
    TypeRoot.INT: st.IntegerType(),
    TypeRoot.BIGINT: st.LongType(),
    TypeRoot.FLOAT: st.FloatType(),
    TypeRoot.DOUBLE: st.DoubleType(),
    TypeRoot.CHAR: st.StringType(),
    TypeRoot.VARCHAR: st.StringType(),
    TypeRoot.BINARY: st.BinaryType(),
    TypeRoot.VARBINARY: st.BinaryType(),
    TypeRoot.DATE: st.DateType(),
    TypeRoot.TIMESTAMP: st.TimestampNTZType(),
    TypeRoot.TIMESTAMP_LTZ: st.TimestampType(),
    TypeRoot.VARIANT: st.VariantType(),
}
_FROM_SPARK: dict[type[st.DataType], DataType] = {
    st.BooleanType: DataType(TypeRoot.BOOLEAN),
    st.ByteType: DataType(TypeRoot.TINYINT),
    st.ShortType: DataType(TypeRoot.SMALLINT),
    st.IntegerType: DataType(TypeRoot.INT),
    st.LongType: DataType(TypeRoot.BIGINT),
    st.FloatType: DataType(TypeRoot.FLOAT),
    st.DoubleType: DataType(TypeRoot.DOUBLE),
    st.StringType: DataType(TypeRoot.VARCHAR, length=STRING_LENGTH_MAX),
    st.BinaryType: DataType(TypeRoot.VARBINARY, length=STRING_LENGTH_MAX),
    st.DateType: DataType(TypeRoot.DATE),
    st.TimestampNTZType: DataType(TypeRoot.TIMESTAMP, precision=SPARK_FRACTION_DIGITS),
    st.TimestampType: DataType(TypeRoot.TIMESTAMP_LTZ, precision=SPARK_FRACTION_DIGITS),
    st.VariantType: DataType(TypeRoot.VARIANT),
}


def to_spark_type(data_type: DataType, *, column: str = "", table: str = "") -> st.DataType:
    """Convert a Paimon type to a Spark type.

    Raises
    ------
    UnsupportedError
        Spark has no such type, or this version does not cover it.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> to_spark_type(parse_type("TIMESTAMP(3)")).simpleString()
    'timestamp_ntz'
    """
    if data_type.root is TypeRoot.DECIMAL:
        return st.DecimalType(data_type.precision or 10, data_type.scale or 0)
    if data_type.root is TypeRoot.TIME and (data_type.precision or 0) <= SPARK_FRACTION_DIGITS:
        if not has(TIMES):
            message = (
                f"Column '{column}' of table '{table}' has type {data_type}, which needs Spark"
                f" {TIMES.since}: choose columns without it."
            )
            raise UnsupportedError(message, kind="spark_version", table=table, column=column)
        return st.TimeType(data_type.precision or 0)
    if data_type.is_nested:
        return _nested_spark_type(data_type, column=column, table=table)
    found = _PLAIN.get(data_type.root)
    if found is None:
        message = (
            f"Column '{column}' of table '{table}' has type {data_type}, which this version cannot"
            " use on Spark: choose columns without it."
        )
        raise UnsupportedError(message, kind="type", table=table, column=column)
    return found


def _nested_spark_type(data_type: DataType, *, column: str, table: str) -> st.DataType:
    inside = [
        (name, to_spark_type(t, column=f"{column}.{name}", table=table))
        for name, t in child_types(data_type)
    ]
    if data_type.root is TypeRoot.ROW:
        details = data_type.child_details or ((None, None),) * len(inside)
        return st.StructType(
            [
                st.StructField(name, t, metadata=_comment_metadata(comment))
                for (name, t), (comment, _) in zip(inside, details, strict=True)
            ]
        )
    types = [t for _, t in inside]
    return st.ArrayType(*types) if data_type.root is TypeRoot.ARRAY else st.MapType(*types)


def _comment_metadata(comment: str | None) -> dict[str, str]:
    return {} if comment is None else {COMMENT_KEY: comment}


def spark_schema(fields: Sequence[DataField], *, table: str = "") -> st.StructType:
    """Make the Spark schema of columns; all are nullable, as in any scan of files.

    Raises
    ------
    UnsupportedError
        See :func:`to_spark_type`.
    """
    return st.StructType(
        [
            st.StructField(
                f.name,
                to_spark_type(f.type, column=f.name, table=table),
                metadata=_comment_metadata(f.description),
            )
            for f in fields
        ]
    )


def fields_from_spark(
    schema: st.StructType, *, not_null: Sequence[str] = (), table: str = ""
) -> tuple[DataField, ...]:
    """Convert a Spark schema to fields with ids from 0.

    Parameters
    ----------
    schema : StructType
        Of a DataFrame, or made by hand (then also ``char(n)`` and ``varchar(n)``).
    not_null : sequence of str
        Columns without nulls, besides those that the schema declares.

    Raises
    ------
    UnsupportedError
        A column has a type that this version does not store.

    Examples
    --------
    >>> struct = st.StructType().add("a", "integer", nullable=False).add("b", "timestamp")
    >>> [str(f.type) for f in fields_from_spark(struct)]
    ['INT NOT NULL', 'TIMESTAMP(6) WITH LOCAL TIME ZONE']
    """
    fields = []
    for field in schema.fields:
        data_type = _from_spark_type(field.dataType, column=field.name, table=table)
        if not field.nullable or field.name in not_null:
            data_type = data_type.not_null()
        fields.append(DataField(0, field.name, data_type, _comment(field)))
    return with_new_ids(fields)


def _comment(field: st.StructField) -> str | None:
    comment = field.metadata.get(COMMENT_KEY)
    return None if comment is None else str(comment)


def _from_spark_type(spark_type: st.DataType, *, column: str, table: str) -> DataType:
    if isinstance(spark_type, st.DecimalType):
        return DataType(TypeRoot.DECIMAL, precision=spark_type.precision, scale=spark_type.scale)
    if isinstance(spark_type, (st.CharType, st.VarcharType)):
        root = TypeRoot.CHAR if isinstance(spark_type, st.CharType) else TypeRoot.VARCHAR
        return DataType(root, length=spark_type.length)
    if is_time(spark_type) and spark_type.precision <= TIME_DIGITS:
        return DataType(TypeRoot.TIME, precision=spark_type.precision)
    nested = _from_nested_spark(spark_type, column=column, table=table)
    if nested is not None:
        return nested
    found = _FROM_SPARK.get(type(spark_type))
    if found is None:
        message = (
            f"Column '{column}' of table '{table}' has Spark type {spark_type.simpleString()},"
            " which this version cannot store: cast it to another type."
        )
        raise UnsupportedError(message, kind="type", table=table, column=column)
    return found


def _from_nested_spark(spark_type: st.DataType, *, column: str, table: str) -> DataType | None:
    def inside(name: str, child: st.DataType, *, nullable: bool) -> DataType:
        found = _from_spark_type(child, column=f"{column}.{name}", table=table)
        return found if nullable else found.not_null()

    if isinstance(spark_type, st.ArrayType):
        element = inside("element", spark_type.elementType, nullable=spark_type.containsNull)
        return DataType(TypeRoot.ARRAY, children=(element,))
    if isinstance(spark_type, st.MapType):
        key = inside("key", spark_type.keyType, nullable=False)
        value = inside("value", spark_type.valueType, nullable=spark_type.valueContainsNull)
        return DataType(TypeRoot.MAP, children=(key, value))
    if isinstance(spark_type, st.StructType):
        comments = [_comment(f) for f in spark_type.fields]
        return DataType(
            TypeRoot.ROW,
            children=tuple(
                inside(f.name, f.dataType, nullable=f.nullable) for f in spark_type.fields
            ),
            child_fields=tuple((0, f.name) for f in spark_type.fields),
            child_details=tuple((c, None) for c in comments) if any(comments) else (),
        )
    return None


def spark_arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Make the Arrow schema that Spark expects for batches of these columns."""
    return pa.schema([pa.field(f.name, _spark_arrow_type(f.type)) for f in fields])


_SPARK_ARROW = {
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
    TypeRoot.TIME: pa.time64("ns"),
    TypeRoot.TIMESTAMP: pa.timestamp("us"),
    TypeRoot.TIMESTAMP_LTZ: pa.timestamp("us", tz="UTC"),
    # the mark is how Spark distinguishes a variant from a struct of two binaries
    TypeRoot.VARIANT: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
}


def _spark_arrow_type(data_type: DataType) -> pa.DataType:
    if data_type.root is TypeRoot.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.is_nested:
        children = [pa.field(name, _spark_arrow_type(t)) for name, t in child_types(data_type)]
        if data_type.root in {TypeRoot.MAP, TypeRoot.MULTISET}:
            children[0] = children[0].with_nullable(False)
        return nested_type(data_type, children)
    return _SPARK_ARROW[data_type.root]


def to_spark_arrow(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """Cast a batch from the kernel's Arrow types to Spark's; most stay as they are.

    Parameters
    ----------
    batch : RecordBatch
        One column per field, in order.

    Raises
    ------
    UnsupportedError
        A timestamp does not fit Spark's microseconds.
    """
    columns = [_to_spark_column(batch.column(i), field) for i, field in enumerate(fields)]
    return pa.RecordBatch.from_arrays(columns, schema=spark_arrow_schema(fields))


def _to_spark_column(column: pa.Array, field: DataField) -> pa.Array:
    wanted = _spark_arrow_type(field.type)
    if column.type == wanted:
        return column
    try:
        return pc.cast(column, wanted)
    except pa.ArrowInvalid as error:
        message = (
            f"Column '{field.name}' of type {field.type} holds a value that Spark's"
            f" {to_spark_type(field.type).simpleString()} cannot hold: {error}. Choose columns"
            " without it, or read the table without Spark."
        )
        raise UnsupportedError(message, kind="type", column=field.name) from error


def is_time(spark_type: st.DataType) -> bool:
    """Whether a type of Spark is TIME, which Spark 4.0 does not have."""
    return has(TIMES) and isinstance(spark_type, st.TimeType)


def arrow_schema(struct: st.StructType) -> pa.Schema:
    """The columns of a frame as PySpark gives them to tasks, in Arrow; instants are of UTC."""
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(struct, timezone="UTC")
    return to_arrow_schema(struct)  # Spark 4.0 and 4.1 know no other zone
