"""The rows of one micro-batch as a relation that Spark prunes.

A source gives Spark a DataFrame whose plan becomes part of the query. Here it is one relation of
Spark's older data source interface (``PrunedFilteredScan``): Spark optimises the whole query first,
then asks for the columns and the filters that it needs, and only then anything is planned or read.
So a batch that Spark asks for again after a restart, and throws away, touches no file.

The relation must extend the class ``BaseRelation``; its lines are handed to Spark's code generator,
as in :mod:`tidelake.spark.catalog.frame_relation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from pyspark.sql import DataFrame

from tidelake.errors import UnsupportedError
from tidelake.spark.catalog.frame_relation import compiled_relation
from tidelake.spark.catalog.gateway import Gateway, JavaObject, Proxy

__all__ = ["BatchRows", "batch_dataset"]

BatchRows: TypeAlias = "Callable[[Sequence[str], Sequence[JavaObject]], DataFrame]"
"""From columns and Java filters to rows with these columns; filters only serve to read less."""

_RELATION = """
public java.lang.Object generate(Object[] references) {
  return new BatchRelation(references);
}

public static final class BatchRelation extends org.apache.spark.sql.sources.BaseRelation
    implements org.apache.spark.sql.sources.PrunedFilteredScan {
  private final Object[] given;

  public BatchRelation(Object[] given) { this.given = given; }

  public org.apache.spark.sql.SQLContext sqlContext() {
    return (org.apache.spark.sql.SQLContext) given[0];
  }
  public org.apache.spark.sql.types.StructType schema() {
    return (org.apache.spark.sql.types.StructType) given[1];
  }
  public org.apache.spark.rdd.RDD buildScan(
      String[] columns, org.apache.spark.sql.sources.Filter[] filters) {
    return (org.apache.spark.rdd.RDD)
        ((java.util.function.BiFunction) given[2]).apply(columns, filters);
  }
  public boolean needConversion() { return false; }
  public String toString() { return (String) given[3]; }
}
"""


class _Scan(Proxy, implements=("java.util.function.BiFunction",)):
    """Plans a batch once Spark knows what it needs of it."""

    def __init__(self, gateway: Gateway, rows: BatchRows) -> None:
        super().__init__(gateway)
        self._rows = rows

    def apply(self, columns: JavaObject, filters: JavaObject) -> JavaObject:
        """The rows as an RDD of Spark's own rows."""
        frame = self._rows([str(name) for name in columns], list(filters))
        return frame._jdf.queryExecution().toRdd()

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Nothing is done after it."""
        message = "The rows of a batch are not put together with other functions."
        raise UnsupportedError(message, kind="spark_scan")


def batch_dataset(
    gateway: Gateway,
    schema: JavaObject,
    rows: BatchRows,
    *,
    shown: str,
    is_streaming: bool = True,
) -> JavaObject:
    """A streaming ``Dataset`` of the rows of one batch, of which nothing is planned yet.

    Parameters
    ----------
    gateway : Gateway
        The session's JVM.
    schema : JavaObject
        All columns.
    rows : callable
        Gives the rows; see :data:`BatchRows`.
    shown : str
        What EXPLAIN calls it.
    is_streaming : bool
        The rows are those of a stream's batch, not of a table beside it.
    """
    session = gateway.spark._jsparkSession
    scan = _Scan(gateway, rows)
    relation = compiled_relation(gateway, _RELATION, (session.sqlContext(), schema, scan, shown))
    logical = gateway.java("org.apache.spark.sql.execution.datasources.LogicalRelation$")
    plan = getattr(logical, "MODULE$").apply(relation, is_streaming)
    return gateway.java("org.apache.spark.sql.classic.Dataset").ofRows(session, plan)
