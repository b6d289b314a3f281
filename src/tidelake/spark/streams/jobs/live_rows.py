"""Gives the rows of a stream as they come, for display.

A query runs in the background and passes on each batch; it waits until the reader has taken the
previous one. Its checkpoint is temporary, so a new display begins again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tidelake.spark.errors.run_errors import stream_failure
from tidelake.spark.read.collect import collected
from tidelake.spark.streams.jobs.output_mode import output_mode

LOOK_S = 0.2
"""Seconds between two checks whether the query still runs."""


class LiveRows(Iterator[pa.Table]):
    """The batches of a stream with rows, until it ends or is closed; a context that closes it.

    Parameters
    ----------
    interval_ms : int, optional
        Time between the starts of batches; by default each starts after the previous one.

    Raises
    ------
    UnsupportedError
        Spark cannot run it as a stream.
    """

    def __init__(self, frame: DataFrame, *, interval_ms: int | None = None) -> None:
        self.mode = output_mode(frame)
        self._batches: queue.Queue[pa.Table] = queue.Queue(1)
        self._closed = threading.Event()
        writer = frame.writeStream.outputMode(self.mode).foreachBatch(self._put)
        if interval_ms is not None:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        self._query: StreamingQuery = writer.start()

    def __enter__(self) -> LiveRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> pa.Table:
        while True:
            try:
                return self._batches.get(timeout=LOOK_S)
            except queue.Empty:
                if self._query.isActive:
                    continue
            try:  # a batch may have come between the two checks
                return self._batches.get_nowait()
            except queue.Empty:
                failure = self._query.exception()
                if failure is not None and not self._closed.is_set():
                    raise stream_failure(failure) from failure
                raise StopIteration from None

    def close(self) -> None:
        """End the stream."""
        self._closed.set()
        if self._query.isActive:
            self._query.stop()

    def _put(self, batch: DataFrame, _: int) -> None:
        """Pass on a batch; called by Spark."""
        rows = collected(batch)
        while rows.num_rows and not self._closed.is_set():
            try:
                self._batches.put(rows, timeout=LOOK_S)
            except queue.Full:
                continue
            return
