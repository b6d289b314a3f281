"""Decides where a micro-batch is written: a small one on the driver, without Python tasks.

The number of rows is known only after the batch's plan has run. The plan must not run twice: it may
be large, and stateful operators would repeat their work. So Spark caches a batch that is likely to
be small while it counts the rows: a wrong guess costs the cache, not a second run. A batch is
likely to be small if the last one was; for the first batch Spark's optimiser guesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from tidelake.spark.read.collect import collected

BYTES_LIKELY_MAX = 8 << 20
"""The largest guess of the optimiser by which a first batch counts as small."""


class LikelySize:
    """Whether the next batch is likely to have few rows.

    Parameters
    ----------
    rows_max : int
        The most rows that are few; 0 for none.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._last_rows: int | None = None

    def is_small(self, frame: DataFrame) -> bool:
        """Whether these rows are likely to be few."""
        if not self._rows_max:
            return False
        if self._last_rows is not None:
            return self._last_rows <= self._rows_max
        if is_remote():
            return False
        estimate = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        return estimate <= BYTES_LIKELY_MAX

    def saw(self, rows_count: int) -> None:
        """Record the number of rows of a batch."""
        self._last_rows = rows_count


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
