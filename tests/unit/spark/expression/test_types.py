from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from tidelake.errors import UnsupportedError
from tidelake.spark.expression.types import (
    fields_from_spark,
    spark_arrow_schema,
    spark_schema,
    to_spark_arrow,
)
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_type

TEXTS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)",
    "CHAR(3)", "VARCHAR(3)", "STRING", "BINARY(3)", "VARBINARY(3)", "BYTES", "DATE", "TIME(3)",
    "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
]  # fmt: skip
FIELDS = [DataField(i, f"c{i}", parse_type(text)) for i, text in enumerate(TEXTS)]


def test_batches_have_the_types_that_spark_checks_for():
    expected = to_arrow_schema(spark_schema(FIELDS), timezone="UTC")
    assert spark_arrow_schema(FIELDS).types == expected.types


def test_values_are_cast_to_sparks_units():
    arrays = [pa.nulls(1, to_arrow_type(f.type)) for f in FIELDS]
    batch = pa.RecordBatch.from_arrays(arrays, [f.name for f in FIELDS])
    assert to_spark_arrow(batch, FIELDS).schema == spark_arrow_schema(FIELDS)
    field = DataField(0, "t", parse_type("TIMESTAMP(3)"))
    batch = pa.record_batch({"t": pa.array([dt.datetime(1, 1, 1)], pa.timestamp("ms"))})
    assert to_spark_arrow(batch, [field])["t"].to_pylist() == [dt.datetime(1, 1, 1)]


def test_a_value_with_nanoseconds_is_refused_by_name():
    field = DataField(0, "t", parse_type("TIMESTAMP(9)"))
    with pytest.raises(UnsupportedError, match="'t'"):
        to_spark_arrow(pa.record_batch({"t": pa.array([1], pa.timestamp("ns"))}), [field])


def test_spark_types_become_the_tables():
    struct = st.StructType()
    struct.add("a", st.ByteType()).add("b", st.DecimalType(30, 4), nullable=False)
    struct.add("c", st.StringType()).add("d", st.TimestampType())
    struct.add("e", st.TimestampNTZType()).add("f", st.TimeType(3))
    struct.add("g", st.CharType(4)).add("h", st.VarcharType(5))
    fields = fields_from_spark(struct, not_null=["a"], table="db.t")
    assert [str(f.type) for f in fields] == [
        "TINYINT NOT NULL", "DECIMAL(30, 4) NOT NULL", "STRING",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(6)", "TIME(3)", "CHAR(4)", "VARCHAR(5)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        st.ArrayType(st.NullType()),
        st.StructType().add("a", st.TimeType(6)),
        st.NullType(),
        st.TimeType(6),
        st.DayTimeIntervalType(),
    ],
)
def test_types_that_cannot_be_stored_are_refused_by_column(odd):
    with pytest.raises(UnsupportedError, match=r"Column 'odd(\.\w+)?' of table 'db\.t'"):
        fields_from_spark(st.StructType().add("odd", odd), table="db.t")
