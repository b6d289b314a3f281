"""What lives beside a query that writes to a table, from its first batch to its end.

A thread looks every second whether the query still runs; when it has ended the thread lets go of
what the run holds: the compactor of the table (:mod:`.stream_compactor`).
"""

from __future__ import annotations

import threading

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelake.spark.sessions.session import is_stopped
from tidelake.spark.streamwrite.stream_compactor import StreamCompactor
from tidelake.table.handle.handle import TableHandle

__all__ = ["SinkRun"]

LOOK_S = 1.0


class SinkRun:
    """One run of a query, until it ends.

    Parameters
    ----------
    handle : TableHandle
        The table.
    query_id : str
        The query.
    spark : SparkSession or None
        The classic session that the query was started in; through Spark Connect there is none, and
        the process ends with the query.
    batch_spark : SparkSession
        The session of its first batch.
    """

    def __init__(
        self,
        handle: TableHandle,
        query_id: str,
        *,
        spark: SparkSession | None,
        batch_spark: SparkSession,
    ) -> None:
        self._query_id = query_id
        self._spark = spark
        self.compactor = StreamCompactor.join(spark or batch_spark, handle)
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name=f"tidelake-sink-{query_id}", daemon=True
        )
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all has ended that ends with the query; False if it has not by then."""
        self._thread.join(timeout_s)
        ended = not self._thread.is_alive()
        return ended and (self.compactor is None or self.compactor.wait(timeout_s))

    def _watch(self) -> None:
        while self._is_running():
            if self._ended.wait(LOOK_S):
                break
        if self.compactor is not None:
            self.compactor.leave()

    def _is_running(self) -> bool:
        if self._spark is None:
            return True
        if is_stopped(self._spark):
            return False
        try:
            query = self._spark._jsparkSession.streams().get(self._query_id)
            return query is not None and bool(query.isActive())
        except (PySparkException, Py4JError, OSError):
            return False  # the session is being stopped
