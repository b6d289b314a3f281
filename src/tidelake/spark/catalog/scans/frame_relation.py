"""Rows of a DataFrame as a relation of Spark's older data source interface.

A scan may fall back to that interface (``V1Scan``): a relation that gives an RDD. Rows then stay in
the JVM and may come from any plan, such as our union of native scans and ``mapInArrow``. The
relation must extend a class, ``BaseRelation``. A Python object cannot do that, and none of Spark's
own classes returns a given RDD, so it is a Java class (:mod:`tidelake.spark.jvm.java_class`).
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.jvm.java_class import PACKAGE, defined_class

_NAME = "TidelakeFrameRelation"


def frame_relation(
    gateway: Gateway, frame: DataFrame, schema: JavaObject, shown: str
) -> JavaObject:
    """A ``BaseRelation`` with the rows of a DataFrame."""
    try:
        defined_class(gateway.spark, _NAME)
    except (Py4JError, TypeError) as error:
        message = (
            "This Spark cannot be given Java classes, so spark.sql cannot read tables that need a"
            " merge: read them with tl.table() or tl.sql()."
        )
        raise UnsupportedError(message, kind="spark_version") from error
    rows = frame._jdf.queryExecution().toRdd()
    context = frame.sparkSession._jsparkSession.sqlContext()
    return gateway.java(f"{PACKAGE}.{_NAME}")(context, schema, rows, shown)
