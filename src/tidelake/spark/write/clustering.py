"""Which task writes a row, as Spark SQL expressions, and how many tasks there are.

A row's task is a function of its partition and bucket alone: **one bucket, one task**, so that the
sequence numbers of a bucket come from one writer.
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.options import declared
from tidelake.spark.expression.bucket_expression import bucket_column, hash_column
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import to_spark_type
from tidelake.spark.sessions.session import parallelism
from tidelake.table.handle.handle import TableHandle
from tidelake.types import DataField

__all__ = [
    "TASK_COLUMN",
    "clustered",
    "clustering_column",
    "key_hash",
    "task_of",
    "tasks_count",
    "typed",
]

TASK_COLUMN = "_tidelake_task"
TASK_INPUT_BYTES = 32 << 20
"""One task for this many bytes of input, as Spark's optimiser guesses (of files: compressed)."""
UNKNOWN_SIZE_BYTES = 1 << 60


def clustering_column(handle: TableHandle, frame: DataFrame, count: int) -> Column:
    """The number of the task that writes a row of a table with a fixed number of buckets."""
    keys = [handle.schema.field(name) for name in handle.schema.bucket_keys]
    bucket = bucket_column(
        frame.sparkSession,
        [(f, typed(frame, f)) for f in keys],
        buckets_count=handle.options.get(declared.BUCKET),
        function=handle.options.get(declared.BUCKET_FUNCTION_TYPE),
    )
    return task_of(handle, frame, bucket, count)


def clustered(handle: TableHandle, frame: DataFrame, tasks: int | None) -> DataFrame:
    """Rows of a table of fixed buckets in the tasks that write them, by the bucket's columns."""
    count = tasks or tasks_count(frame)
    if not handle.schema.partition_keys:
        count = min(count, handle.options.get(declared.BUCKET))
    task = clustering_column(handle, frame, count)
    return (
        frame.withColumn(TASK_COLUMN, task)
        .repartitionById(count, F.col(TASK_COLUMN))
        .drop(TASK_COLUMN)
    )


def key_hash(handle: TableHandle, frame: DataFrame, names: tuple[str, ...]) -> Column:
    """The hash of key columns as an INT; 0 where one is null, which the writing task refuses."""
    fields = [handle.schema.field(name) for name in names]
    found = hash_column(frame.sparkSession, [(f, typed(frame, f)) for f in fields])
    return F.coalesce(found, F.lit(0))


def task_of(handle: TableHandle, frame: DataFrame, bucket: Column, count: int) -> Column:
    """The number of the task for a partition and a number in it."""
    if handle.schema.partition_keys:
        # of the column as the table types it: equal partitions must hash alike
        fields = [handle.schema.field(name) for name in handle.schema.partition_keys]
        partition = F.hash(*(typed(frame, field) for field in fields))
        bucket = partition.cast("bigint") + bucket
    # a null key is refused by the task that gets it
    return F.coalesce(F.pmod(bucket, F.lit(count)).cast("int"), F.lit(0))


def typed(frame: DataFrame, field: DataField) -> Column:
    """A column of a table as the table types it; nulls where the frame leaves it out."""
    wanted: st.DataType = to_spark_type(field.type)
    if field.name not in frame.columns:
        return F.lit(None).cast(wanted)
    column = F.col(quoted(field.name))
    # a value that does not fit becomes null here, and is refused by the task that gets it
    return column if frame.schema[field.name].dataType == wanted else column.try_cast(wanted)


def tasks_count(frame: DataFrame) -> int:
    """As many tasks as the input deserves, from one per core up to Spark's shuffle partitions."""
    spark = frame.sparkSession
    cores = parallelism(spark)
    most = max(cores, int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
    return min(most, max(cores, math.ceil(_input_bytes(frame) / TASK_INPUT_BYTES)))


def _input_bytes(frame: DataFrame) -> int:
    """Spark's guess of the input; 0 where it has none: too few tasks spill, too many are waste."""
    if is_remote():
        return 0
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    estimate = int(str(statistics.sizeInBytes()))
    return estimate if estimate < UNKNOWN_SIZE_BYTES else 0
