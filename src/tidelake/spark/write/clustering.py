"""Spark SQL expressions for the task that writes a row, and the number of tasks.

A row's task depends only on its partition and bucket: **one bucket, one task**, so that the
sequence numbers of a bucket come from one writer.
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.engine.tables import TableHandle
from tidelake.options import declared
from tidelake.spark.expression.bucket_expression import bucket_column, hash_column
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import to_spark_type
from tidelake.spark.sessions.session import parallelism
from tidelake.types import DataField

TASK_COLUMN = "_tidelake_task"
TASK_INPUT_BYTES = 32 << 20
"""Bytes of input for one task, by the guess of Spark's optimiser (of files: compressed)."""
UNKNOWN_SIZE_BYTES = 1 << 60


def clustering_column(handle: TableHandle, frame: DataFrame, count: int) -> Column:
    """Make the task number of a row, for a table with a fixed number of buckets."""
    keys = [handle.schema.field(name) for name in handle.schema.bucket_keys]
    bucket = bucket_column(
        frame.sparkSession,
        [(f, typed(frame, f)) for f in keys],
        buckets_count=handle.options.get(declared.BUCKET),
        function=handle.options.get(declared.BUCKET_FUNCTION_TYPE),
    )
    return task_of(handle, frame, bucket, count)


def clustered(handle: TableHandle, frame: DataFrame, tasks: int | None) -> DataFrame:
    """Shuffle rows of a table with fixed buckets to the tasks that write them."""
    count = tasks or tasks_count(frame)
    if not handle.schema.partition_keys:
        count = min(count, handle.options.get(declared.BUCKET))
    task = clustering_column(handle, frame, count)
    return by_number(frame.withColumn(TASK_COLUMN, task), count, TASK_COLUMN).drop(TASK_COLUMN)


def key_hash(handle: TableHandle, frame: DataFrame, names: tuple[str, ...]) -> Column:
    """Make the hash of key columns as an INT; 0 for a null, which the writing task refuses."""
    fields = [handle.schema.field(name) for name in names]
    found = hash_column(frame.sparkSession, [(f, typed(frame, f)) for f in fields])
    return F.coalesce(found, F.lit(0))


def task_of(handle: TableHandle, frame: DataFrame, bucket: Column, count: int) -> Column:
    """Make the task number for a partition and a number in it."""
    if handle.schema.partition_keys:
        # with the table's type: equal partitions must have equal hashes
        fields = [handle.schema.field(name) for name in handle.schema.partition_keys]
        partition = F.hash(*(typed(frame, field) for field in fields))
        bucket = partition.cast("bigint") + bucket
    # the task that gets a null key refuses it
    return F.coalesce(F.pmod(bucket, F.lit(count)).cast("int"), F.lit(0))


def typed(frame: DataFrame, field: DataField) -> Column:
    """Cast a column to the table's type; nulls if the frame lacks the column."""
    wanted: st.DataType = to_spark_type(field.type)
    if field.name not in frame.columns:
        return F.lit(None).cast(wanted)
    column = F.col(quoted(field.name))
    # a value that does not fit becomes null here, and the task that gets it refuses it
    return column if frame.schema[field.name].dataType == wanted else column.try_cast(wanted)


def tasks_count(frame: DataFrame) -> int:
    """Choose the number of tasks by input size: from one per core to Spark's shuffle partitions."""
    spark = frame.sparkSession
    cores = parallelism(spark)
    most = max(cores, int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
    return min(most, max(cores, math.ceil(_input_bytes(frame) / TASK_INPUT_BYTES)))


def _input_bytes(frame: DataFrame) -> int:
    """Give Spark's guess of the input size; 0 if it has none."""
    if is_remote():
        return 0
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    estimate = int(str(statistics.sizeInBytes()))
    return estimate if estimate < UNKNOWN_SIZE_BYTES else 0
