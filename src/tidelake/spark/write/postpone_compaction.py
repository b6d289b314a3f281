"""Assigns buckets to the rows of the postpone bucket, on Spark.

1. The job (:mod:`tidelake.table.jobs.postpone_compaction`) lists the waiting files in the order of
   replay, and this module numbers them.
2. Executors read them, file by file; each row carries its file's number and its position in it.
3. Spark shuffles rows so that one task has all of a bucket, as for a write, and sorts them there by
   number and position: the writer gets a key's rows in the order of writing.

Each number of buckets is a job of Spark's; all share one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from tidelake.engine.jobs import Gathered, PostponedPartition, postponed_rows
from tidelake.engine.scan import ReadContext, Split, split_from_bytes, split_to_bytes
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import ROW_KIND_COLUMN, FullCompactions
from tidelake.spark.expression.by_number import by_number
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.types import spark_schema, to_spark_arrow
from tidelake.spark.read.shares import share_frame
from tidelake.spark.sessions.session import parallelism
from tidelake.spark.write.clustering import TASK_COLUMN, clustering_column
from tidelake.spark.write.write_task import ANSWER_SCHEMA, TaskAnswer, WriteTask, write_task

FILE_COLUMN = "_tidelake_file"
ROW_COLUMN = "_tidelake_row"


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """Reads waiting files on an executor. Picklable."""

    context: ReadContext

    def batches(self, numbered: tuple[int, bytes]) -> Iterator[pa.RecordBatch]:
        """The rows of a file, given as its number and a split of it alone."""
        number, blob = numbered
        split = split_from_bytes(blob)
        fields = self.context.schema.fields
        names = [*(f.name for f in fields), ROW_KIND_COLUMN, FILE_COLUMN, ROW_COLUMN]
        position = 0
        for rows, kinds in postponed_rows(self.context, split.partition, split.files):
            size = rows.num_rows
            own = [
                pa.array(kinds),
                pa.array(np.full(size, number, np.int32)),
                pa.array(np.arange(position, position + size, dtype=np.int64)),
            ]
            position += size
            columns = to_spark_arrow(rows, fields).columns + own
            yield pa.RecordBatch.from_arrays(columns, names=names)


@dataclass(frozen=True, slots=True)
class SparkMover:
    """Writes waiting rows by a shuffle; :class:`tidelake.table.jobs.postpone_compaction.Mover`.

    Parameters
    ----------
    tasks : int, optional
        Tasks of the shuffle; by default one for each core.
    """

    spark: SparkSession
    tasks: int | None

    def __call__(
        self,
        into: Gathered,
        partitions: Sequence[PostponedPartition],
        compactions: FullCompactions | None,
    ) -> None:
        """Write the rows to real buckets."""
        spark, handle = self.spark, into.handle
        count = self.tasks or parallelism(spark)
        frame = _waiting_rows(spark, handle, partitions)
        task = clustering_column(handle, frame, count)
        rows = (
            by_number(frame.withColumn(TASK_COLUMN, task), count, TASK_COLUMN)
            .sortWithinPartitions(FILE_COLUMN, ROW_COLUMN)
            .drop(TASK_COLUMN, FILE_COLUMN, ROW_COLUMN)
        )
        task = WriteTask.of(handle, user="", full_compactions=compactions)
        answer = TaskAnswer.gather(mapped(rows, write_task(task), ANSWER_SCHEMA).collect())
        into.add(answer.messages, rows_count=answer.rows_count)
        if answer.errors:
            raise answer.errors[0]


def _waiting_rows(
    spark: SparkSession, handle: TableHandle, partitions: Sequence[PostponedPartition]
) -> DataFrame:
    """Read the table's columns, the kind, and each row's file and position."""
    blobs = tuple(
        split_to_bytes(Split(0, p.partition, -1, -1, (((file,),),), raw=True))
        for p in partitions
        for file in p.waiting
    )
    schema = spark_schema(handle.schema.fields, table=handle.identifier)
    schema = st.StructType(
        [
            *schema.fields,
            st.StructField(ROW_KIND_COLUMN, st.ByteType()),
            st.StructField(FILE_COLUMN, st.IntegerType()),
            st.StructField(ROW_COLUMN, st.LongType()),
        ]
    )
    return share_frame(
        spark,
        list(enumerate(blobs)),
        WaitingTask(handle.read_context()).batches,
        schema,
        tasks=min(len(blobs), parallelism(spark) * 4),
    )
