"""Rows of a DataFrame as a relation of Spark's older data source interface.

A scan may fall back to that interface (``V1Scan``): a relation that gives an RDD. Rows then stay in
the JVM and come from any plan, such as the union of native scans and ``mapInArrow`` that a read of
ours is. The relation must extend a class, ``BaseRelation``, which no object of Python's can, and
none of Spark's own classes gives an RDD that it is handed. So its five lines are handed to Spark's
code generator, which compiles Java for every query.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tidelake.spark.catalog.gateway import Gateway, JavaObject

__all__ = ["compiled_relation", "frame_relation"]

_CODEGEN = "org.apache.spark.sql.catalyst.expressions.codegen"
_RELATION = """
public java.lang.Object generate(Object[] references) {
  return new FrameRelation(references);
}

public static final class FrameRelation extends org.apache.spark.sql.sources.BaseRelation
    implements org.apache.spark.sql.sources.TableScan {
  private final Object[] given;

  public FrameRelation(Object[] given) { this.given = given; }

  public org.apache.spark.sql.SQLContext sqlContext() {
    return (org.apache.spark.sql.SQLContext) given[0];
  }
  public org.apache.spark.sql.types.StructType schema() {
    return (org.apache.spark.sql.types.StructType) given[1];
  }
  public org.apache.spark.rdd.RDD buildScan() { return (org.apache.spark.rdd.RDD) given[2]; }
  public boolean needConversion() { return false; }
  public String toString() { return (String) given[3]; }
}
"""


def frame_relation(
    gateway: Gateway, frame: DataFrame, schema: JavaObject, shown: str
) -> JavaObject:
    """A ``BaseRelation`` with the rows of a DataFrame.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    frame : DataFrame
        The rows.
    schema : JavaObject
        Its columns.
    shown : str
        What EXPLAIN calls it.
    """
    rows = frame._jdf.queryExecution().toRdd()
    context = frame.sparkSession._jsparkSession.sqlContext()
    return compiled_relation(gateway, _RELATION, (context, schema, rows, shown))


def compiled_relation(gateway: Gateway, text: str, given: Sequence[object]) -> JavaObject:
    """Have Spark's code generator compile a class, and make one object of it.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    text : str
        Java: ``generate(Object[] references)`` and the class.
    given : sequence
        What `generate` is called with.
    """
    no_comments = gateway.java("scala.collection.immutable.Map$").__getattr__("MODULE$").empty()
    code = gateway.java(f"{_CODEGEN}.CodeAndComment")(text, no_comments)
    compiled = gateway.java(f"{_CODEGEN}.CodeGenerator").compile(code)._1()
    values = gateway.proxies("java.lang.Object", given)
    # By the method of the class above it: every class that Spark compiles has one name, by which
    # py4j keeps the methods that it found, and Spark compiles again what it has forgotten.
    above = compiled.getClass().getSuperclass()
    generate = above.getMethod("generate", gateway.array("java.lang.Class", [values.getClass()]))
    return generate.invoke(compiled, gateway.array("java.lang.Object", [values]))
