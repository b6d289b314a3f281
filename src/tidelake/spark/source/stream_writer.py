"""``writeStream.format("tidelake")``: streams through Spark's Python data source API.

For tools that only know formats; ``tl.write_stream`` is better. Spark does not cluster rows for a
data source, so this writes only tables for which any task may write any row: append tables without
buckets, the postpone bucket, and primary-key tables of one bucket, whose small runs the driver
merges after each batch. Others are refused.

A batch is committed once, as by :mod:`tidelake.spark.streams.write.batch_sink`: the commit's user
is the id of the checkpoint's query. If a batch is repeated, its tasks write again, and those files
are deleted. A second live query with a copy of the checkpoint is refused
(:mod:`tidelake.spark.streams.write.batch_claim`). The watermark is the one from before the batch,
because the query is not visible here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tidelake.engine.jobs import Chosen, compact_table
from tidelake.engine.metadata import commit_message
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import (
    CommitIdentity,
    CommitMessage,
    WriteTransaction,
    check_writable,
    delete_new_files,
    wants_empty_commit,
    write_target,
)
from tidelake.errors import ConflictError, InvalidInputError, UnsupportedError
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.spark.source.python_api import DataSourceStreamArrowWriter
from tidelake.spark.streams.write.batch_claim import claim_batch
from tidelake.spark.streams.write.batch_sink import COMPLETE
from tidelake.spark.streams.write.checkpoint import Checkpoint, check_mark
from tidelake.spark.streams.write.sink_steps import SinkSteps
from tidelake.spark.streams.write.start import sink_mark
from tidelake.spark.write.write_task import WriteTask, write_batches

CHECKPOINT = "checkpointlocation"
"""Spark's option that names the checkpoint, as a data source gets it."""
_LEAVES_COMPACTION: Mapping[str, str] = {declared.WRITE_ONLY.key: "true"}
_WHOLE_TABLE: Mapping[str, str] = {declared.DYNAMIC_PARTITION_OVERWRITE.key: "false"}


@dataclass
class BatchMessages(WriterCommitMessage):  # type: ignore[misc]  # pyspark carries no types here
    """The result of one task."""

    blobs: tuple[bytes, ...]


class TidelakeStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark's
    """Writes on the executors, commits each micro-batch on the driver. Picklable.

    Parameters
    ----------
    overwrite : bool
        Whether each batch replaces the table: the output mode ``complete``.

    Raises
    ------
    UnsupportedError
        Rows of the table must be clustered.
    InvalidInputError
        There is no checkpoint, or it belongs to another query.
    """

    def __init__(self, handle: TableHandle, checkpoint: str | None, *, overwrite: bool) -> None:
        table = handle.identifier
        check_writable(handle)
        check_unclustered(handle)
        self._checkpoint = Checkpoint.of(checkpoint, table=table)
        mark = sink_mark(handle, COMPLETE if overwrite else "append")
        check_mark(self._checkpoint, mark, in_batch=True)
        if overwrite:
            handle = handle.with_options(handle.options.updated(_WHOLE_TABLE))
        self._compacts = handle.schema.primary_keys and not handle.options.get(declared.WRITE_ONLY)
        self._overwrite = write_target(handle, "overwrite" if overwrite else "append", None)
        waits = handle.with_options(handle.options.updated(_LEAVES_COMPACTION))
        self._task = WriteTask.of(waits, user="", overwrite=self._overwrite)
        self._handle = replace(handle, env=self._task.handle.env)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        _, messages = write_batches(self._task, iterator)
        return BatchMessages(tuple(commit_message.to_bytes(m) for m in messages))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make all rows of a batch visible at once, unless they already are."""
        handle, checkpoint = self._handle, self._checkpoint
        user = checkpoint.query_id()
        if user is None:
            message = f"The checkpoint {checkpoint.shown} was removed under the running stream."
            raise InvalidInputError(message, kind="no_checkpoint", table=handle.identifier)
        made = _read(messages)
        steps = SinkSteps(checkpoint)
        identity = CommitIdentity.of(handle, user, batchId, step=steps.step(batchId))
        transaction = WriteTransaction(
            handle,
            identity,
            overwrite=self._overwrite,
            watermark=checkpoint.watermark_before(batchId),
            is_wanted_empty=wants_empty_commit(handle),
        )
        done = transaction.replayed()
        claim_batch(handle, checkpoint, user)
        if done is not None:
            steps.done(transaction.made)
            delete_new_files(handle.fileio, handle.paths, made)
            return
        with transaction as out:
            out.add_messages(made, base_snapshot_id=None)
            out.commit()
        steps.done(transaction.made)
        if self._compacts and handle.bucket_mode is BucketMode.FIXED:
            try:
                compact_table(handle, Chosen(), full=False)
            except ConflictError:
                return  # the next batch deletes it

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave the files: Spark also calls this when a commit failed that may be visible."""


def check_unclustered(handle: TableHandle) -> None:
    """Refuse a table whose rows must be clustered by bucket before the write."""
    mode = handle.bucket_mode
    one_bucket = mode is BucketMode.FIXED and handle.options.get(declared.BUCKET) == 1
    if mode in {BucketMode.UNBUCKETED, BucketMode.POSTPONE}:
        return
    if one_bucket and handle.schema.primary_keys:
        return
    message = (
        f"The rows of table '{handle.identifier}' must be clustered by bucket before the"
        " write, which Spark does not do for the streams of a data source. Start the stream with"
        f" tl.write_stream(frame, '{handle.identifier}', checkpoint=...)."
    )
    raise UnsupportedError(message, kind="source_stream", table=handle.identifier)


def _read(messages: Sequence[WriterCommitMessage | None]) -> list[CommitMessage]:
    return [
        commit_message.from_bytes(blob)
        for message in messages
        if isinstance(message, BatchMessages)
        for blob in message.blobs
    ]
