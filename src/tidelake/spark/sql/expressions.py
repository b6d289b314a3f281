"""Expressions of a statement as Spark's columns, with what their subqueries read.

A column can be had from text alone, and text names tables. So each table in a subquery becomes a
view, under a name of its own, for as long as the statement runs; the view reads the columns that
the subquery looks at and the rows that its filters leave, as of the newest snapshot when it is
made. It is a view of all sessions: the batches of ``foreachBatch`` have one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.engine.env import Ids
from tidelake.spark.expression.expression import quoted
from tidelake.sql.query.expression import ParsedExpression, Qualification
from tidelake.sql.query.query import ParsedQuery, TableReference

Reading: TypeAlias = "Callable[[], DataFrame]"
_VIEW = "__tidelake_subquery_"
_DATABASE_KEY = "spark.sql.globalTempDatabase"


class StatementExpressions:
    """Expressions of one statement; a context that lets its views go at its end.

    Parameters
    ----------
    subqueries : callable
        Gives how the tables in an expression are read.
    """

    def __init__(
        self,
        spark: SparkSession,
        subqueries: Callable[[ParsedQuery], Mapping[TableReference, Reading]],
        ids: Ids,
    ) -> None:
        self._ids = ids
        self._spark = spark
        self._subqueries = subqueries
        self._views: dict[str, Reading] = {}

    def __enter__(self) -> StatementExpressions:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as drops:  # all of them, whichever fails
            for name in self._views:
                drops.callback(self._spark.catalog.dropGlobalTempView, name)

    def column(self, expression: ParsedExpression, *, qualified: Qualification = None) -> Column:
        """The expression as a column; it is resolved where it is used, by views of that moment.

        Parameters
        ----------
        qualified : optional
            As of :meth:`tidelake.sql.query.expression.ParsedExpression.rewrite`.
        """
        relations: dict[TableReference, str] = {}
        for reference, read in self._subqueries(expression.parsed).items():
            # a server of Spark's may have other clients, who would replace a view of the same name
            name = _VIEW + self._ids.uuid().replace("-", "_")
            self._views[name] = read
            database = self._spark.conf.get(_DATABASE_KEY, None) or "global_temp"
            relations[reference] = f"{quoted(database)}.{quoted(name)}"
        self.fresh()
        return F.expr(expression.rewrite(relations, qualified=qualified))

    def fresh(self) -> None:
        """Read the tables of all subqueries as they are now."""
        for name, read in self._views.items():
            read().createOrReplaceGlobalTempView(name)
