"""Spark expressions that SQL lacks under ANSI rules, or has only for the session's time zone.

Names are quoted here too: :func:`quoted` for calls that take a name,
:func:`~tidelake.spark.expression.mapped.mapped` for those that take a whole frame.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from tidelake.types import TypeRoot


def quoted(name: str) -> str:
    """Write a column's name as Spark's parser takes it.

    Examples
    --------
    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def big_endian_bytes(spark: SparkSession) -> Callable[[Column], Column]:
    """How a BIGINT column becomes its 8 bytes, highest first, in this session.

    ANSI mode refuses ``CAST(bigint AS BINARY)``. A classic session builds the same cast without
    ANSI rules, for this one expression, through the JVM (0.06 us a row). Spark Connect has no JVM,
    so there the bytes travel as hexadecimal text (0.3 us a row).
    """
    if is_remote():
        return hex_bytes
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a classic session has a JVM"
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    binary = jvm.org.apache.spark.sql.types.DataTypes.BinaryType
    no_zone = jvm.scala.Option.empty()
    legacy = expressions.EvalMode.LEGACY()

    def cast(number: Column) -> Column:
        tree = expressions.Cast(bridge.expression(number._jc), binary, no_zone, legacy)
        return Column(bridge.column(tree))

    return cast


def hex_bytes(number: Column) -> Column:
    """The 8 bytes of a BIGINT, highest first, in plain SQL."""
    return F.unhex(F.lpad(F.hex(number), 16, "0"))


def utf8_bytes(text: Column) -> Column:
    """The bytes of a STRING."""
    return text.cast("binary")


def micros(timestamp: Column, root: TypeRoot) -> Column:
    """Microseconds since the epoch of a timestamp, whatever the session's time zone."""
    if root is TypeRoot.TIMESTAMP_LTZ:
        return F.unix_micros(timestamp)
    # a difference of timestamps without zone knows no zone; a cast or timestampdiff would
    since_epoch = timestamp - F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    return F.call_function("div", since_epoch, F.expr("INTERVAL '0.000001' SECOND"))


def millis(timestamp: Column, root: TypeRoot) -> Column:
    """Whole milliseconds since the epoch, rounded down."""
    return F.call_function(
        "div", micros(timestamp, root) - _micros_of_milli(timestamp, root), F.lit(1000)
    )


def sub_millis_nanos(timestamp: Column, root: TypeRoot) -> Column:
    """Nanoseconds inside the millisecond."""
    return _micros_of_milli(timestamp, root) * F.lit(1000).cast("bigint")


def _micros_of_milli(timestamp: Column, root: TypeRoot) -> Column:
    return F.pmod(micros(timestamp, root), F.lit(1000).cast("bigint"))
