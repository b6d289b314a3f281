"""Writes the rows of a micro-batch: few on the driver, without Python tasks, more on the executors.

The number of rows is known only after the batch's plan has run. The plan must not run twice: it may
be large, and stateful operators would repeat their work. So Spark caches a batch that is likely to
be small while it counts the rows: a wrong guess costs the cache, not a second run. A batch is
likely to be small if the last one was; for the first batch Spark's optimiser guesses.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from tidelake.engine.jobs import wants_coordinator
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import WriteResult, WriteTransaction
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.read.collect import collected
from tidelake.spark.sessions.session import parallelism
from tidelake.spark.write.write_frame import write_batch

BYTES_LIKELY_MAX = 8 << 20
"""The largest guess of the optimiser by which a first batch counts as small."""
BUCKETS_PER_TASK_MAX = 100
"""The most buckets for each task without a warning ("Streaming Multiple Partitions Write" in
Paimon's pages on append tables)."""
_LOG = logging.getLogger("tidelake")


@dataclass(slots=True)
class BatchRows:
    """Writes the rows of the batches of one query.

    Parameters
    ----------
    tasks : int, optional
        How many tasks write a batch that is not small.
    """

    tasks: int | None = None
    _last_rows: int | None = field(default=None, init=False)
    _has_warned: bool = field(default=False, init=False)

    def write(self, transaction: WriteTransaction, frame: DataFrame) -> WriteResult:
        """Write the rows of a batch and commit.

        Parameters
        ----------
        frame : DataFrame
            The table's columns, and perhaps ``_row_kind``; the caller has checked them.
        """
        handle = transaction.handle
        rows_max = handle.options.get(declared.SINK_LOCAL_ROWS)
        if self._is_likely_small(frame, rows_max):
            with rows_up_to(frame, rows_max) as (rows, kept):
                if rows is None:
                    result = write_batch(transaction, _gathered(handle, kept), tasks=self.tasks)
                else:
                    result = transaction.write(rows)
        else:
            result = write_batch(transaction, _gathered(handle, frame), tasks=self.tasks)
        self._last_rows = result.rows
        self._warn_of_buckets(transaction, frame)
        return result

    def _is_likely_small(self, frame: DataFrame, rows_max: int) -> bool:
        if not rows_max:
            return False
        if self._last_rows is not None:
            return self._last_rows <= rows_max
        if is_remote():
            return False
        estimate = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        return estimate <= BYTES_LIKELY_MAX

    def _warn_of_buckets(self, transaction: WriteTransaction, frame: DataFrame) -> None:
        """Warn once if each task writes to many buckets: (N*B)/P of Paimon's rule.

        N is the number of partitions in a batch, B of buckets in each, P of tasks that write at
        once.
        """
        handle, buckets_count = transaction.handle, transaction.buckets_count
        if self._has_warned or buckets_count < BUCKETS_PER_TASK_MAX:
            return
        tasks = self.tasks or handle.options.get(declared.SINK_PARALLELISM)
        tasks = tasks or parallelism(frame.sparkSession)
        if buckets_count < BUCKETS_PER_TASK_MAX * tasks:
            return
        self._has_warned = True
        _LOG.warning(
            "a batch of the stream into table '%s' has rows for %d buckets and %d tasks, %d for"
            " each: expect small files and much memory. Use fewer partitions or buckets, or more"
            " tasks (sink.parallelism): fewer than %d for each task are well.",
            handle.identifier,
            buckets_count,
            tasks,
            buckets_count // tasks,
            BUCKETS_PER_TASK_MAX,
        )


def _gathered(handle: TableHandle, frame: DataFrame) -> DataFrame:
    """Gather the rows of each partition, where that avoids small files.

    Spark splits large partitions and joins small ones while it runs.
    """
    if not handle.options.get(declared.PRECOMMIT_COMPACT) or not wants_coordinator(handle):
        return frame
    return frame.hint("rebalance", *(quoted(name) for name in handle.schema.partition_keys))


@contextmanager
def rows_up_to(frame: DataFrame, rows_max: int) -> Iterator[tuple[pa.Table | None, DataFrame]]:
    """Give a frame's rows if they are few, and a frame that does not compute them again.

    Parameters
    ----------
    rows_max : int
        The most rows to return; one more may come to this process.

    Yields
    ------
    (pyarrow.Table or None, DataFrame)
        All rows, or None if there are more; and the frame to use in that case.
    """
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = collected(kept.limit(rows_max + 1))
        yield (rows if rows.num_rows <= rows_max else None), kept
    finally:
        kept.unpersist()
