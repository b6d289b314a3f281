"""Decides where a micro-batch is written: a small one on the driver, without a job of Python's.

Whether a batch is small is known when its rows are there, and its plan must not run twice: it may
be large, and stateful operators would do their work again. So a batch that is likely to be small is
kept by Spark while it is counted: rows beyond the limit cost that, and no second run. What is
likely is what the last batch was; of the first one, what Spark's optimiser guesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from tidelake.spark.read.collect import collected

__all__ = ["LikelySize", "rows_up_to"]

BYTES_LIKELY_MAX = 8 << 20
"""The optimiser's guess up to which a first batch is likely to be small."""


class LikelySize:
    """Whether the next batch is likely to have few rows.

    Parameters
    ----------
    rows_max : int
        What is few; 0 for none.
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
        """Tell how many a batch had."""
        self._last_rows = rows_count


@contextmanager
def rows_up_to(frame: DataFrame, rows_max: int) -> Iterator[tuple[pa.Table | None, DataFrame]]:
    """Give the rows of a frame if they are no more, and a frame that computes none of them anew.

    Parameters
    ----------
    frame : DataFrame
        Of a micro-batch.
    rows_max : int
        How many come to this process at most, but for one.

    Yields
    ------
    (pyarrow.Table or None, DataFrame)
        All rows, or None where they are more; and the frame to go on with then.
    """
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = collected(kept.limit(rows_max + 1))
        yield (rows if rows.num_rows <= rows_max else None), kept
    finally:
        kept.unpersist()
