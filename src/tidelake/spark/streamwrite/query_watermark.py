"""The watermark of a running query: event time that its rows have come to.

Spark computes a batch's watermark from its rows and notes it after the batch. Inside the sink, once
the batch's job has run, the same number can be had: each ``EventTimeWatermarkExec`` of the plan has
counted the largest event time. Of several, Spark takes the least (``multipleWatermarkPolicy``). One
that saw no row in this batch counts as the watermark before it, which is never too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["watermark_of"]

OPERATOR = "EventTimeWatermarkExec"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def watermark_of(spark: SparkSession, query_id: str) -> int | None:
    """The watermark of a query after the job of its batch.

    Parameters
    ----------
    spark : SparkSession
        The classic session that the query was started in.
    query_id : str
        The query.

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
    """What one operator has come to."""
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
