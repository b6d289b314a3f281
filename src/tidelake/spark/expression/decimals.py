"""Small decimals on the way to Python: as numbers, which cost Spark a quarter of the time.

Spark's Arrow writer makes a ``BigDecimal`` of each value. A decimal of up to 18 digits is a BIGINT
in the JVM's own rows, so it travels as that number, and Python sets it to 16 bytes again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.spark.expression.expression import quoted

DIGITS_MAX = 18

DecimalPlaces = Mapping[int, pa.Decimal128Type]
"""The types of decimals that travel as numbers, by the position of their column."""


def as_numbers(frame: DataFrame) -> tuple[DataFrame, DecimalPlaces]:
    """Turn decimals of up to 18 digits into their digits, a BIGINT.

    Spark Connect has no JVM that could be asked for this: there nothing changes.

    Returns
    -------
    (DataFrame, mapping)
        The frame, and what :func:`with_decimals` needs.
    """
    if is_remote():
        return frame, {}
    places = {
        position: pa.decimal128(field.dataType.precision, field.dataType.scale)
        for position, field in enumerate(frame.schema.fields)
        if isinstance(field.dataType, st.DecimalType) and field.dataType.precision <= DIGITS_MAX
    }
    if not places:
        return frame, {}
    columns = [F.col(quoted(name)) for name in frame.columns]
    for position in places:
        columns[position] = _digits(frame, columns[position]).alias(frame.columns[position])
    return frame.select(*columns), places


def with_decimals(batch: pa.RecordBatch, places: DecimalPlaces) -> pa.RecordBatch:
    """Give a batch its decimals back.

    Examples
    --------
    >>> batch = pa.record_batch({"price": [1250, None, -5]})
    >>> with_decimals(batch, {0: pa.decimal128(9, 2)}).column(0).to_pylist()
    [Decimal('12.50'), None, Decimal('-0.05')]
    """
    for position, kind in places.items():
        field = batch.schema.field(position).with_type(kind)
        batch = batch.set_column(position, field, _decimals(batch.column(position), kind))
    return batch


def _digits(frame: DataFrame, column: Column) -> Column:
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    unscaled = jvm.org.apache.spark.sql.catalyst.expressions.UnscaledValue
    return Column(bridge.column(unscaled(bridge.expression(column._jc))))


def _decimals(numbers: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    validity, memory = numbers.buffers()
    low = np.frombuffer(memory, np.int64, numbers.offset + len(numbers))
    wide = np.empty((len(low), 2), np.int64)
    wide[:, 0] = low
    np.right_shift(low, 63, out=wide[:, 1])  # the sign
    buffers = [validity, pa.py_buffer(wide)]
    return pa.Array.from_buffers(
        kind, len(numbers), buffers, null_count=numbers.null_count, offset=numbers.offset
    )
