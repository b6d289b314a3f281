"""Writes a micro-batch in one commit, made once.

1. The commit's user is the query's id in the checkpoint, its identifier the batch's number. The
   sink finds a batch that Spark repeats after a restart in the table's history, and does nothing.
   It computes the rows of a query with state all the same: Spark refuses to go on without that.
   A batch that was committed with other offsets, and one behind a commit that was rolled back, is
   refused (:mod:`tidelake.spark.streamwrite.sink_steps`).
2. The rows are fitted to the table. With ``write.merge-schema`` the table gets their columns.
   Columns that the table got since the stream first began are null in its rows.
3. A batch of few rows is written on the driver (:mod:`tidelake.spark.streamwrite.local_rows`), a
   larger one on the executors (:mod:`tidelake.spark.write.write_frame`).
4. The commit carries the query's watermark. It makes two snapshots at most: the rows, and the
   compaction that came with them.

The sink runs in the query's thread. With Spark Connect it is pickled and runs in a Python process
of the server.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote

from tidelake.engine.jobs import wants_coordinator
from tidelake.engine.schemas import with_newest_schema
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import CommitIdentity, WriteResult, WriteTransaction, write_target
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.spark.errors.analysis_errors import translate_value_range_errors
from tidelake.spark.errors.value_errors import translate_table_errors
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.sessions.session import parallelism
from tidelake.spark.streamwrite.checkpoint import Checkpoint, SinkMark, check_mark
from tidelake.spark.streamwrite.local_rows import LikelySize, rows_up_to
from tidelake.spark.streamwrite.query_watermark import watermark_of
from tidelake.spark.streamwrite.sink_run import SinkRun
from tidelake.spark.streamwrite.sink_steps import SinkSteps
from tidelake.spark.write.schema_merging import merged, merges_schema
from tidelake.spark.write.write_frame import check_columns, write_batch
from tidelake.spark.write.write_task import for_task

COMPLETE = "complete"
BUCKETS_PER_TASK_MAX = 100
"""The most buckets for each task without a warning ("Streaming Multiple Partitions Write" in
Paimon's pages on append tables)."""
_LOG = logging.getLogger("tidelake")
_WHOLE_TABLE: Mapping[str, str] = {declared.DYNAMIC_PARTITION_OVERWRITE.key: "false"}


@dataclass
class BatchSink:
    """Writes the micro-batches of one query to one table. For ``foreachBatch``.

    Parameters
    ----------
    tasks : int, optional
        How many tasks write a batch that is not small.
    """

    handle: TableHandle
    checkpoint: Checkpoint
    mark: SinkMark
    run_id: str
    tasks: int | None = None
    spark: SparkSession | None = None
    error: BaseException | None = None
    """The error of the sink, if the query failed here."""
    last_result: WriteResult | None = None
    """Result of the newest batch."""
    run: SinkRun | None = field(default=None, repr=False)
    """The lease and compactor of the query, from its first batch on."""
    steps: SinkSteps | None = field(default=None, repr=False)
    _size: LikelySize | None = field(default=None, repr=False)
    _user: str | None = None
    _has_warned: bool = False

    def __getstate__(self) -> dict[str, Any]:
        handle = for_task(self.handle)
        left = {"spark": None, "error": None, "run": None, "steps": None, "_size": None}
        return {**vars(self), **left, "handle": handle}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch, unless it was written before."""
        try:
            self.last_result = self.write(frame, batch_id)
        except BaseException as error:
            self.error = error
            raise

    def write(self, frame: DataFrame, batch_id: int) -> WriteResult:
        """Write a batch; the result says whether it was written before."""
        if self.run is None:
            self.mark = check_mark(self.checkpoint, self.mark, in_batch=True)
            self.run = SinkRun(
                self.handle,
                self.checkpoint,
                self.user,
                run_id=self.run_id,
                batch_id=batch_id,
                spark=self.spark,
                batch_spark=frame.sparkSession,
            )
        name = self.handle.identifier
        handle = with_newest_schema(self.handle)
        is_whole = self.mark.mode == COMPLETE
        if is_whole:
            handle = handle.with_options(handle.options.updated(_WHOLE_TABLE))
        if self.steps is None:
            self.steps = SinkSteps(self.checkpoint)
        step = self.steps.step(batch_id)
        identity = CommitIdentity.of(handle, self.user, batch_id, step=step)
        before = WriteTransaction(handle, identity)
        done = before.replayed()
        self.run.begin(batch_id, self.steps.made)
        if done is not None:
            if self.checkpoint.has_state:
                frame.write.format("noop").mode("overwrite").save()
            self.steps.done(before.made)
            return done
        if merges_schema(handle):
            handle, frame = merged(handle, frame)
        else:
            frame = with_columns_since(handle, frame, schema_id=self.mark.schema_id)
        check_columns(handle, frame)
        transaction = WriteTransaction(
            handle,
            identity,
            overwrite=write_target(handle, "overwrite" if is_whole else "append", None),
            watermark=lambda: self._watermark(batch_id),
            is_wanted_empty=handle.options.get(declared.COMMIT_FORCE_CREATE_SNAPSHOT),
        )
        with translate_table_errors(name), translate_value_range_errors():
            result = self._write_rows(transaction, frame)
        self.steps.done(transaction.made)
        self.run.done(transaction.made)
        self._likely(handle).saw(result.rows)
        self._warn_of_buckets(frame, transaction.buckets_count)
        return result

    def _warn_of_buckets(self, frame: DataFrame, buckets_count: int) -> None:
        """Warn once if each task writes to many buckets: (N*B)/P of Paimon's rule.

        N is the number of partitions in a batch, B of buckets in each, P of tasks that write at
        once.
        """
        if self._has_warned or buckets_count < BUCKETS_PER_TASK_MAX:
            return
        tasks = self.tasks or self.handle.options.get(declared.SINK_PARALLELISM)
        tasks = tasks or parallelism(frame.sparkSession)
        if buckets_count < BUCKETS_PER_TASK_MAX * tasks:
            return
        self._has_warned = True
        _LOG.warning(
            "a batch of the stream into table '%s' has rows for %d buckets and %d tasks, %d for"
            " each: expect small files and much memory. Use fewer partitions or buckets, or more"
            " tasks (sink.parallelism): fewer than %d for each task are well.",
            self.handle.identifier,
            buckets_count,
            tasks,
            buckets_count // tasks,
            BUCKETS_PER_TASK_MAX,
        )

    def _write_rows(self, transaction: WriteTransaction, frame: DataFrame) -> WriteResult:
        handle = transaction.handle
        if not self._likely(handle).is_small(frame):
            return write_batch(transaction, self._gathered(handle, frame), tasks=self.tasks)
        with rows_up_to(frame, handle.options.get(declared.SINK_LOCAL_ROWS)) as (rows, kept):
            if rows is not None:
                return transaction.write(rows)
            return write_batch(transaction, self._gathered(handle, kept), tasks=self.tasks)

    def _gathered(self, handle: TableHandle, frame: DataFrame) -> DataFrame:
        """Gather the rows of each partition, where that avoids small files.

        Spark splits large partitions and joins small ones while it runs.
        """
        if not handle.options.get(declared.PRECOMMIT_COMPACT) or not wants_coordinator(handle):
            return frame
        return frame.hint("rebalance", *(quoted(name) for name in handle.schema.partition_keys))

    def _likely(self, handle: TableHandle) -> LikelySize:
        if self._size is None:
            self._size = LikelySize(handle.options.get(declared.SINK_LOCAL_ROWS))
        return self._size

    @property
    def user(self) -> str:
        """The commit user: the query's id in its checkpoint, equal in all of its runs."""
        if self._user is None:
            self._user = self.checkpoint.query_id()
            if self._user is None:
                message = (
                    f"The checkpoint {self.checkpoint.shown} has no longer Spark's file 'metadata':"
                    " it was removed while the stream ran. Start the stream again."
                )
                raise InvalidInputError(message, kind="no_checkpoint", table=self.handle.identifier)
        return self._user

    def _watermark(self, batch_id: int) -> int | None:
        if self.spark is None or is_remote():
            return self.checkpoint.watermark_before(batch_id)
        return watermark_of(self.spark, self.user)


def with_columns_since(handle: TableHandle, frame: DataFrame, *, schema_id: int) -> DataFrame:
    """Add null columns for those that the table got since a schema and the rows lack."""
    if handle.schema.id == schema_id:
        return frame
    known = {field.id for field in handle.schemas.load(schema_id).fields}
    given = {name.casefold() for name in frame.columns}
    new = [f for f in handle.schema.fields if f.id not in known and f.name.casefold() not in given]
    for added in spark_schema(new, table=handle.identifier).fields:
        frame = frame.withColumn(added.name, F.lit(None).cast(added.dataType))
    return frame
