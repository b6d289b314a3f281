"""Compaction as a job on Spark: the driver plans, executors compact, the driver commits once.

The job is that of :mod:`tidelake.table.jobs.compaction`; its parts are tasks of Spark's
(:mod:`tidelake.spark.write.runner`). Rows of the postpone bucket get their buckets by a shuffle
(:mod:`tidelake.spark.write.postpone_compaction`), in the same commit.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import declared
from tidelake.spark.write.postpone_compaction import SparkMover
from tidelake.spark.write.runner import SparkRunner
from tidelake.table.handle.handle import TableHandle
from tidelake.table.jobs.compaction import Chosen, compact_table
from tidelake.table.jobs.postpone_compaction import compact_postponed
from tidelake.table.write.result import WriteResult


def compact_on_spark(
    spark: SparkSession,
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    tasks: int | None,
) -> WriteResult:
    """Compact the buckets that need it; see :meth:`tidelake.spark.Lake.compact`."""
    runner = SparkRunner(spark, tasks)
    if handle.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        return compact_table(handle, chosen, full=full, runner=runner)
    move = SparkMover(spark, tasks)
    return compact_postponed(handle, chosen, full=full, runner=runner, move=move)
