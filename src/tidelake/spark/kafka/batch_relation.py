"""The rows of one micro-batch of a topic as a relation that Spark prunes.

Spark optimises the query around it first, and then asks for the columns that it needs
(``PrunedFilteredScan``); only then tasks are planned. The class must extend ``BaseRelation``, so
its lines go to Spark's code generator, as in :mod:`tidelake.spark.catalog.frame_relation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from pyspark.sql import DataFrame

from tidelake.errors import UnsupportedError
from tidelake.spark.catalog.gateway import Gateway, JavaObject, Proxy

__all__ = ["batch_dataset"]

_CODEGEN = "org.apache.spark.sql.catalyst.expressions.codegen"
_SOURCES = "org.apache.spark.sql.sources"
_RELATION = f"""
public java.lang.Object generate(Object[] references) {{
  return new TopicRelation(references);
}}

public static final class TopicRelation extends {_SOURCES}.BaseRelation
    implements {_SOURCES}.PrunedFilteredScan {{
  private final Object[] given;

  public TopicRelation(Object[] given) {{ this.given = given; }}

  public org.apache.spark.sql.SQLContext sqlContext() {{
    return (org.apache.spark.sql.SQLContext) given[0];
  }}
  public org.apache.spark.sql.types.StructType schema() {{
    return (org.apache.spark.sql.types.StructType) given[1];
  }}
  public org.apache.spark.rdd.RDD buildScan(String[] columns, {_SOURCES}.Filter[] filters) {{
    return (org.apache.spark.rdd.RDD)
        ((java.util.function.Function) given[2]).apply(columns);
  }}
  public boolean needConversion() {{ return false; }}
  public String toString() {{ return (String) given[3]; }}
}}
"""


class _Scan(Proxy, implements=("java.util.function.Function",)):
    """Plans a batch for the columns that Spark needs."""

    def __init__(self, gateway: Gateway, rows: Callable[[Sequence[str]], DataFrame]) -> None:
        super().__init__(gateway)
        self._rows = rows

    def apply(self, columns: JavaObject) -> JavaObject:
        """The rows as an RDD of Spark's own rows."""
        return self._rows([str(name) for name in columns])._jdf.queryExecution().toRdd()

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Nothing is done after it."""
        message = "The rows of a batch are not put together with other functions."
        raise UnsupportedError(message, kind="spark_scan")

    def compose(self, _before: JavaObject) -> NoReturn:
        """Nothing is done before it."""
        self.andThen(_before)


def batch_dataset(
    gateway: Gateway,
    schema: JavaObject,
    rows: Callable[[Sequence[str]], DataFrame],
    *,
    shown: str,
) -> JavaObject:
    """A streaming ``Dataset`` of the rows of one batch, of which nothing is planned yet.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    schema : JavaObject
        All columns.
    rows : callable
        From the columns needed to the rows.
    shown : str
        What EXPLAIN calls it.
    """
    session = gateway.spark._jsparkSession
    no_comments = getattr(gateway.java("scala.collection.immutable.Map$"), "MODULE$").empty()
    code = gateway.java(f"{_CODEGEN}.CodeAndComment")(_RELATION, no_comments)
    compiled = gateway.java(f"{_CODEGEN}.CodeGenerator").compile(code)._1()
    given = gateway.array("java.lang.Object", (session.sqlContext(), schema, None, shown))
    gateway.java("java.lang.reflect.Array").set(given, 2, _Scan(gateway, rows))
    # by the method of the class above: py4j keeps the methods of a class by its name
    above = compiled.getClass().getSuperclass()
    generate = above.getMethod("generate", gateway.array("java.lang.Class", [given.getClass()]))
    relation = generate.invoke(compiled, gateway.array("java.lang.Object", [given]))
    logical = gateway.java("org.apache.spark.sql.execution.datasources.LogicalRelation$")
    plan = getattr(logical, "MODULE$").apply(relation, True)
    return gateway.java("org.apache.spark.sql.classic.Dataset").ofRows(session, plan)
