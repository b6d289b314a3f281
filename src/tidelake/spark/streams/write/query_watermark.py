"""The watermark of a running query.

Spark computes a batch's watermark from its rows and records it after the batch. The sink can
compute the same number once the batch's job has run: each ``EventTimeWatermarkExec`` of the plan
has the largest event time. Spark takes the least of several (``multipleWatermarkPolicy``). An
operator without rows in this batch counts with the previous watermark, which is never too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from tidelake.spark.streams.write.checkpoint import Checkpoint

OPERATOR = "EventTimeWatermarkExec"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True, slots=True)
class BatchWatermark:
    """The watermark of a batch; a commit asks for it when the rows are written.

    Parameters
    ----------
    spark : SparkSession or None
        The classic session of the query; through Spark Connect there is none, and the watermark is
        that of the batch before, from the checkpoint.
    """

    spark: SparkSession | None
    checkpoint: Checkpoint
    query_id: str
    batch_id: int

    def __call__(self) -> int | None:
        """Compute it."""
        if self.spark is None or is_remote():
            return self.checkpoint.watermark_before(self.batch_id)
        return watermark_of(self.spark, self.query_id)


def watermark_of(spark: SparkSession, query_id: str) -> int | None:
    """Compute the watermark of a query after the job of its batch.

    Returns
    -------
    int or None
        Milliseconds since the epoch; None where the query has none.

    Notes
    -----
    Call it from the query's own thread, in the sink.
    """
    query = spark._jsparkSession.streams().get(query_id)
    if query is None:
        return None
    execution = (
        query.streamingQuery() if hasattr(query, "streamingQuery") else query
    ).lastExecution()
    before = int(execution.offsetSeqMetadata().batchWatermarkMs())
    reached = [_reached(one, before) for one in _operators(execution.executedPlan())]
    takes_max = spark.conf.get(POLICY, "min") == "max"
    after = (max if takes_max else min)(reached, default=0)
    return max(before, after) or None


def _reached(operator: Any, before: int) -> int:
    """Read the largest event time of one operator."""
    stats = operator.eventTimeStats().value()
    return int(stats.max()) - int(operator.delayMs()) if stats.count() > 0 else before


def _operators(plan: Any) -> Iterator[Any]:
    waiting = [plan]
    while waiting:
        one = waiting.pop()
        if one.getClass().getSimpleName() == OPERATOR:
            yield one
        children = one.children()
        waiting += [children.apply(i) for i in range(children.size())]
