"""The rows of one micro-batch as a relation that Spark prunes.

A source gives Spark a DataFrame whose plan becomes part of the query. Here the plan is one relation
of Spark's older data source interface (``PrunedFilteredScan``). Spark first optimises the whole
query, then requests the rows with the columns and filters that it needs; only then the batch is
planned and read. So a batch that Spark requests again after a restart, and drops, reads no file.

The rows are a DataFrame, which Spark plans by itself, or an RDD of Spark's own rows.

The relation must extend the class ``BaseRelation``, so it is one of our few Java classes
(:mod:`tidelake.spark.jvm.java_class`). Each value that Python asks the JVM for is a
call, so columns come as one text, and null stands for no filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from pyspark.sql import DataFrame

from tidelake.errors import UnsupportedError
from tidelake.spark.callbacks.gateway import Gateway, JavaObject, Proxy
from tidelake.spark.jvm.java_class import PACKAGE, defined_class

BatchRows: TypeAlias = "Callable[[Sequence[str], JavaObject | None], DataFrame | JavaObject]"
"""From columns, and filters or None, to rows with these columns: a DataFrame, or an RDD of Spark's
own rows. Filters only serve to read less."""

_NAME = "TidelakeBatch"
_BETWEEN = "\0"


class _Scan(Proxy, implements=("java.util.function.BiFunction",)):
    """Plans a batch once Spark knows the columns and filters that it needs."""

    def __init__(self, gateway: Gateway, rows: BatchRows) -> None:
        super().__init__(gateway)
        self._rows = rows

    def apply(self, columns: str, filters: JavaObject | None) -> JavaObject:
        """Return the rows as an RDD of Spark's own rows."""
        names = columns.split(_BETWEEN) if columns else []
        rows = self._rows(names, filters)
        return rows._jdf.queryExecution().toRdd() if isinstance(rows, DataFrame) else rows

    def andThen(self, _after: JavaObject) -> NoReturn:
        """Refuse, as nothing may follow it."""
        message = "The rows of a batch cannot be composed with other functions."
        raise UnsupportedError(message, kind="spark_scan")


class BatchRelations:
    """Makes the relations of one source, a batch each."""

    def __init__(self, gateway: Gateway, schema: JavaObject) -> None:
        defined_class(gateway.spark, _NAME)
        self._gateway = gateway
        self._schema = schema
        self._class = gateway.java(f"{PACKAGE}.{_NAME}")
        self._session = gateway.spark._jsparkSession

    def dataset(self, rows: BatchRows, *, shown: str, is_streaming: bool = True) -> JavaObject:
        """A ``Dataset`` of the rows of one batch, of which nothing is planned yet.

        Parameters
        ----------
        rows : callable
            Returns the rows; see :data:`BatchRows`.
        is_streaming : bool
            Whether the rows are those of a stream's batch, not of a joined table.
        """
        scan = _Scan(self._gateway, rows)
        return self._class.of(self._session, self._schema, scan, shown, is_streaming)
