"""The event time of a stream: the column that Spark compares with the watermark.

Spark marks it in the column's metadata, and its operators use the first marked column of their
rows. A column computed from the event time has no mark unless it gets one here.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import types as st

DELAY_KEY = "spark.watermarkDelayMs"
"""Spark's mark, ``EventTimeWatermark.delayKey``: the watermark's delay, in ms."""


def is_event_time(field: st.StructField) -> bool:
    """Whether a column is the event time."""
    return DELAY_KEY in field.metadata


def with_delay(column: Column, name: str, time: st.StructField | None) -> Column:
    """Make a column the event time, with another's delay; with None no event time."""
    metadata = {} if time is None else {DELAY_KEY: time.metadata[DELAY_KEY]}
    return column.alias(name, metadata=metadata)
