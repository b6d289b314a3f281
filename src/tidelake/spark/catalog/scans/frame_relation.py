"""Rows of a DataFrame as a relation of Spark's older data source interface.

A scan may fall back to that interface (``V1Scan``): a relation that gives an RDD. Rows then stay in
the JVM and may come from any plan, such as our union of native scans and ``mapInArrow``. The
relation must extend a class, ``BaseRelation``. A Python object cannot do that, and none of Spark's
own classes returns a given RDD. So Spark's code generator, which compiles Java for every query,
compiles these few lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tidelake.spark.catalog.gateway import Gateway, JavaObject

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
    """A ``BaseRelation`` with the rows of a DataFrame."""
    rows = frame._jdf.queryExecution().toRdd()
    context = frame.sparkSession._jsparkSession.sqlContext()
    return compiled_relation(gateway, _RELATION, (context, schema, rows, shown))


def compiled_relation(gateway: Gateway, text: str, given: Sequence[object]) -> JavaObject:
    """Have Spark's code generator compile a class, and make one object of it.

    Parameters
    ----------
    text : str
        Java: ``generate(Object[] references)`` and the class.
    """
    no_comments = gateway.java("scala.collection.immutable.Map$").__getattr__("MODULE$").empty()
    code = gateway.java(f"{_CODEGEN}.CodeAndComment")(text, no_comments)
    compiled = gateway.java(f"{_CODEGEN}.CodeGenerator").compile(code)._1()
    values = gateway.proxies("java.lang.Object", given)
    # The method is found through the parent class: all classes that Spark compiles share one name,
    # under which py4j caches methods, and Spark compiles a class again after it forgot it.
    above = compiled.getClass().getSuperclass()
    generate = above.getMethod("generate", gateway.array("java.lang.Class", [values.getClass()]))
    return generate.invoke(compiled, gateway.array("java.lang.Object", [values]))
