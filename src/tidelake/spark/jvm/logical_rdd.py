"""A plan over the rows of another plan, with the schema and the statistics of a third."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidelake.spark.versions import minor_of, number

MODULE = "org.apache.spark.sql.execution.LogicalRDD$"
_SAME_SCHEMA_SINCE = "4.3"
"""The first minor version that asks whether the schema is the origin's in all."""


def logical_rdd(spark: SparkSession, rows: Any, origin: Any) -> Any:
    """Make the plan.

    Parameters
    ----------
    rows : JavaObject
        An ``RDD`` of internal rows.
    origin : JavaObject
        The ``Dataset`` that Spark takes them for; no stream.
    """
    module = getattr(getattr(spark._jvm, MODULE), "MODULE$")
    is_asked = number(minor_of(spark.version)) >= number(_SAME_SCHEMA_SINCE)
    return module.fromDataset(rows, origin, False, *([True] if is_asked else []))
