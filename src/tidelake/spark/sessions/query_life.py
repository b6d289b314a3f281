"""Finds out whether a Spark query still runs, even if its JVM does not answer.

Threads and leases of a query in Python end with it. One failed call does not prove its end: a
connection may have failed, or the session is being stopped. So a query has ended if Spark says so,
if the session was stopped, if the JVM's process has ended, or after several checks without an
answer.
"""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.spark.sessions.session import is_stopped

SILENT_LOOKS_MAX = 5
"""Number of checks in a row without an answer after which the JVM counts as lost."""


class QueryLife:
    """Checks whether a query runs. For one thread at a time.

    Parameters
    ----------
    spark : SparkSession, optional
        The classic session in which the query was started; None if there is none here; then the
        query counts as running while this process runs.
    query_id : str, optional
        The query, one of that session; None to check only the session.
    """

    def __init__(self, spark: SparkSession | None, query_id: str | None) -> None:
        self._spark = spark
        self._query_id = query_id
        self._silent_looks_count = 0

    def has_ended(self) -> bool:
        """Whether the query has ended."""
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
    """Whether the JVM's process has ended; False if another process started the JVM."""
    if is_stopped(spark):
        return True
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None
