"""Writes a micro-batch in one commit, made once.

1. The commit's user is the query's id in the checkpoint, its identifier the batch's number. The
   sink finds a batch that Spark repeats after a restart in the table's history, and does nothing.
   It computes the rows of a query with state all the same: Spark refuses to go on without that.
   A batch that was committed with other offsets, and one behind a commit that was rolled back, is
   refused (:mod:`tidelake.spark.streams.write.sink_steps`).
2. The rows are fitted to the table. With ``write.merge-schema`` the table gets their columns.
   Columns that the table got since the stream first began are null in its rows.
3. A batch of few rows is written on the driver (:mod:`tidelake.spark.streams.write.batch_rows`), a
   larger one on the executors (:mod:`tidelake.spark.write.write_frame`).
4. The commit carries the query's watermark. It makes two snapshots at most: the rows, and the
   compaction that came with them.

The sink runs in the query's thread. With Spark Connect it is pickled and runs in a Python process
of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelake.engine.schemas import with_newest_schema
from tidelake.engine.streams import MadeCommit
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    CommitIdentity,
    WriteResult,
    WriteTransaction,
    check_writable,
    replay_of,
    wants_empty_commit,
    write_target,
)
from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.spark.errors.analysis_errors import translate_value_range_errors
from tidelake.spark.errors.value_errors import translate_table_errors
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.streams.write.batch_rows import BatchRows
from tidelake.spark.streams.write.checkpoint import Checkpoint, SinkMark, check_mark
from tidelake.spark.streams.write.end_of_input import EndOfInput
from tidelake.spark.streams.write.query_watermark import BatchWatermark
from tidelake.spark.streams.write.sink_run import SinkRun
from tidelake.spark.streams.write.sink_steps import SinkSteps
from tidelake.spark.write.schema_merging import merged, merges_schema
from tidelake.spark.write.write_frame import check_columns
from tidelake.spark.write.write_task import for_task

COMPLETE = "complete"
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
    end: EndOfInput | None = field(default=None, repr=False)
    """What happens when the query ends by itself, if that is known here."""
    _user: str | None = None
    _rows: BatchRows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._rows = BatchRows(self.tasks)

    def __getstate__(self) -> dict[str, Any]:
        handle = for_task(self.handle)
        left = {"spark": None, "error": None, "run": None, "steps": None, "end": None}
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
        run, steps = self._begun(frame, batch_id)
        handle = with_newest_schema(self.handle)
        if self.mark.mode == COMPLETE:
            handle = handle.with_options(handle.options.updated(_WHOLE_TABLE))
        identity = CommitIdentity.of(handle, self.user, batch_id, step=steps.step(batch_id))
        check_writable(handle)
        replay = replay_of(handle, identity)
        run.begin(batch_id, steps.made)
        if replay is not None:
            if self.checkpoint.has_state:
                frame.write.format("noop").mode("overwrite").save()
            self._wrote(replay.made)
            steps.done(replay.made)
            return replay.result
        with translate_table_errors(handle.identifier), translate_value_range_errors():
            transaction, result = self.committed(handle, frame, identity, batch_id)
        self._wrote(transaction.made)
        steps.done(transaction.made)
        run.done(transaction.made)
        return result

    def _wrote(self, made: MadeCommit | None) -> None:
        if self.end is not None:
            self.end.wrote(made)

    def committed(
        self, handle: TableHandle, frame: DataFrame, identity: CommitIdentity, batch_id: int
    ) -> tuple[WriteTransaction, WriteResult]:
        """Write a batch that was not written before, in one commit."""
        if merges_schema(handle):
            handle, frame = merged(handle, frame)
        else:
            frame = with_columns_since(handle, frame, schema_id=self.mark.schema_id)
        check_columns(handle, frame)
        mode = "overwrite" if self.mark.mode == COMPLETE else "append"
        transaction = WriteTransaction(
            handle,
            identity,
            overwrite=write_target(handle, mode, None),
            watermark=self.watermark(batch_id),
            is_wanted_empty=wants_empty_commit(handle),
        )
        return transaction, self._rows.write(transaction, frame)

    def watermark(self, batch_id: int) -> BatchWatermark:
        """The watermark of a batch, for its commit."""
        return BatchWatermark(self.spark, self.checkpoint, self.user, batch_id)

    def _begun(self, frame: DataFrame, batch_id: int) -> tuple[SinkRun, SinkSteps]:
        """The run and the steps of the query; its first batch begins them."""
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
                end=self.end,
            )
        if self.steps is None:
            self.steps = SinkSteps(self.checkpoint)
        return self.run, self.steps

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
