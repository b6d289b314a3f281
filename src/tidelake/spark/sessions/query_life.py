"""Whether a query of Spark's still runs, told from a JVM that does not answer.

What lives beside a query in Python ends with it. One call that fails says nothing of the query: a
connection broke, or the session is being stopped. So a query has ended when Spark says so, when
the session was stopped, when the process of the JVM is gone, or when several looks in a row got no
answer.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.spark.sessions.session import is_stopped

__all__ = ["QueryLife"]

SILENT_LOOKS_MAX = 5
"""Looks in a row without an answer after which the JVM is lost."""


class QueryLife:
    """Looks whether a query runs. For one thread at a time.

    Parameters
    ----------
    spark : SparkSession, optional
        The classic session in which the query was started; None where there is none here, and then
        the query is taken to run for as long as this process does.
    query_id : str, optional
        The query, one of that session; None where the session alone is looked at.
    """

    def __init__(self, spark: SparkSession | None, query_id: str | None) -> None:
        self._spark = spark
        self._query_id = query_id
        self._silent_looks_count = 0

    def has_ended(self) -> bool:
        """Whether the query runs no more."""
        spark = self._spark
        if spark is None:
            return False
        if is_stopped(spark):
            return True
        try:
            is_active = self._is_active(spark)
        except (PySparkException, Py4JError, OSError):
            self._silent_looks_count += 1
            return _is_gone(spark) or self._silent_looks_count >= SILENT_LOOKS_MAX
        self._silent_looks_count = 0
        return not is_active

    def _is_active(self, spark: SparkSession) -> bool:
        if self._query_id is None:
            return not spark._jsparkSession.sparkContext().isStopped()
        query = spark._jsparkSession.streams().get(self._query_id)
        return query is not None and bool(query.isActive())


def _is_gone(spark: SparkSession) -> bool:
    """Whether the process of the JVM has ended; False where another one started it."""
    if is_stopped(spark):
        return True
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None
