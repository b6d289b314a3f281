"""A table for the join with a stream: each batch sees the rows of its own time.

Spark plans each micro-batch again from one logical plan. A frame of a table reads the snapshot that
was the newest when the frame was made, so its plan would give the same rows for ever. Here the plan
is a relation that takes its rows when Spark plans the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession

from tidelake.spark.callbacks.gateway import Gateway, JavaObject
from tidelake.spark.expression.expression import quoted
from tidelake.spark.streams.connector.relation import BatchRelations


def lookup_frame(spark: SparkSession, rows: Callable[[], DataFrame], *, shown: str) -> DataFrame:
    """Return a DataFrame that takes its rows again in each batch.

    Parameters
    ----------
    rows : callable
        Gives the current rows; always with the same columns.
    """

    def pruned(columns: Sequence[str], _: JavaObject | None) -> DataFrame:
        found = rows()
        wanted = list(columns) or found.columns[:1]
        return found.select(*(quoted(c) for c in wanted))

    gateway = Gateway(spark)
    relations = BatchRelations(gateway, gateway.schema(rows().schema))
    dataset = relations.dataset(pruned, shown=shown, is_streaming=False)
    return DataFrame(dataset, spark)
