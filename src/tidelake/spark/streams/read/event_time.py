"""Adds the watermark that a table declares to the stream of its rows.

Spark takes a watermark only on TIMESTAMP WITH LOCAL TIME ZONE, and most tables hold TIMESTAMP,
without a zone. For such a column the plan gets a hidden twin: the same microseconds, read as UTC.
The twin has the watermark. The column is the twin converted back, and its metadata mark it for
Spark. So windows over the column begin and end in the data's own time in every session zone.
Spark's own ``PreciseTimestampConversion`` converts without a zone: a conversion through local time
would lose an hour a year.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from tidelake.engine.schemas import EventTime
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.expression.expression import quoted

_TWIN = "__tidelake_event_time"
_DELAY = "spark.watermarkDelayMs"
"""Key in a column's metadata where Spark keeps the delay of its watermark."""
_CATALYST = "org.apache.spark.sql.catalyst.expressions"


def with_event_time(gateway: Gateway, frame: DataFrame, found: EventTime) -> DataFrame:
    """Add a watermark on the event time to a frame."""
    delay = f"{found.delay_ms} milliseconds"
    if not isinstance(frame.schema[found.column].dataType, st.TimestampNTZType):
        return frame.withWatermark(found.column, delay)
    types = gateway.java("org.apache.spark.sql.types.DataTypes")
    local, instant = types.TimestampNTZType, types.TimestampType
    column = F.col(quoted(found.column))
    twin = _converted(gateway, column, local, instant).alias(_TWIN)
    marked = frame.select("*", twin).withWatermark(_TWIN, delay)
    back = _converted(gateway, F.col(_TWIN), instant, local)
    names = [
        back.alias(name, metadata={_DELAY: found.delay_ms})
        if name == found.column
        else F.col(quoted(name))
        for name in frame.columns
    ]
    return marked.select(*names)


def _converted(gateway: Gateway, column: Column, source: JavaObject, target: JavaObject) -> Column:
    """Read the same microseconds as another type of timestamp."""
    utils = gateway.java("org.apache.spark.sql.classic.ExpressionUtils")
    conversion = gateway.java(f"{_CATALYST}.PreciseTimestampConversion")
    inner = utils.expression(column._jc)
    return type(column)(utils.column(conversion(inner, source, target)))
