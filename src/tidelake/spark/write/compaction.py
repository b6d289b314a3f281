"""Compaction as a job on Spark: the driver plans, executors compact, the driver commits once.

The job is that of :mod:`tidelake.table.jobs.compaction`; its parts are tasks of Spark's
(:mod:`tidelake.spark.write.runner`). Rows of the postpone bucket get their buckets by a shuffle
(:mod:`tidelake.spark.write.postpone_compaction`), in the same commit.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelake.engine.jobs import Chosen, ClusterOrder, compact_postponed, compact_table
from tidelake.engine.metadata import POSTPONE_BUCKET
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import WriteResult
from tidelake.options import declared
from tidelake.spark.write.clustered_ranges import SparkClusterRunner
from tidelake.spark.write.postpone_compaction import SparkMover
from tidelake.spark.write.runner import SparkRunner


def compact_on_spark(
    spark: SparkSession,
    handle: TableHandle,
    chosen: Chosen,
    *,
    full: bool,
    tasks: int | None,
    order: ClusterOrder | None = None,
) -> WriteResult:
    """Compact the buckets that need it; see :meth:`tidelake.spark.Lake.compact`."""
    if order is not None or handle.options.get(declared.CLUSTERING_INCREMENTAL):
        ranges = SparkClusterRunner(spark, tasks)
        return compact_table(handle, chosen, full=full, order=order, runner=ranges)
    runner = SparkRunner(spark, tasks)
    if handle.options.get(declared.BUCKET) != POSTPONE_BUCKET:
        return compact_table(handle, chosen, full=full, runner=runner)
    move = SparkMover(spark, tasks)
    return compact_postponed(handle, chosen, full=full, runner=runner, move=move)
